// fake_rules.hpp - what a device's libraries refuse, and what copies from and to the host ask of it, for a
// fake device that would do all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device.hpp"

namespace tidu::test {

/// Empty, or which rule of its library the step breaks: cuBLASLt's of extents, leading dimensions, batches,
/// alignment and workspace, cuSOLVER's and cuBLAS' of matrices, CUB's of memory.
std::string broken_rule(const cuda_detail::Step& step, const cuda_detail::Bindings& at);

/// Copies between the host and a device that the host has not waited for. Memory that is copied from stays as
/// it is until then; what is copied to is garbage until then.
class Transfers {
 public:
  using Clock = std::vector<std::uint64_t>;  // by process
  /// A copy from the host was put on the process, which is at that tick with it.
  void upload(const std::byte* from, std::size_t bytes, std::size_t process, std::uint64_t tick);
  /// What is going to be at `to`.
  void download(std::byte* to, std::vector<std::byte> elements, std::size_t process, std::uint64_t tick);
  /// The host has waited for so much: gives what was broken, in words.
  std::vector<std::string> settle(const Clock& host);
  /// That memory is gone.
  void forget(const std::byte* at, std::size_t bytes);

 private:
  struct Transfer {
    const std::byte* from = nullptr;  // or null
    std::byte* to = nullptr;          // or null
    std::vector<std::byte> elements;
    std::size_t process = 0;
    std::uint64_t tick = 0;
  };
  std::vector<Transfer> pending_;
};

}  // namespace tidu::test
