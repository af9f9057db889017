// emulator.hpp - runs plans on the host: kernels are compiled by the system's C++ compiler behind the same
// prelude, the threads of a block that wait for each other are fibers. So every kernel's numbers are tested
// where there is no GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/groups.hpp"
#include "cuda/plan.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::test {

class Emulator {
 public:
  Emulator();
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  /// Not in builds with sanitizers, which know nothing of what is compiled here and of its fibers: there,
  /// plans are made and not run.
  static bool is_enabled();
  /// One for the process, so that no kernel is compiled twice.
  static Emulator& shared();

  /// Notes the kernels of a plan, to be compiled with others.
  void add(const cuda_detail::Plan& plan);
  /// Compiles what was noted. Throws std::runtime_error with the compiler's words.
  void compile();
  /// Where a place lies in memory.
  using Locate = std::function<std::byte*(const cuda_detail::Place&)>;
  /// Runs one launch; its kernel is compiled first if it is not yet. Throws std::runtime_error when threads
  /// of a block do not all wait.
  void launch(const cuda_detail::Launch& launch, const Locate& locate);
  /// Runs one step of any kind.
  void step(const cuda_detail::Step& step, const Locate& locate);
  /// Runs all steps of a plan, with operands and results so many bytes behind an aligned address. Throws
  /// std::runtime_error for a write out of bounds of results or scratch memory.
  void run(const cuda_detail::Plan& plan, std::span<const Tensor> operands, std::span<Tensor> results,
           std::size_t behind = 0);
  /// Runs the nodes of a graph. What is a library's on a device, the reference interpreter does.
  std::vector<Tensor> run(const Graph& graph, const std::vector<cuda_detail::Node>& nodes,
                          std::span<const Tensor> inputs);
  /// Kernels compiled so far.
  std::size_t num_kernels() const { return entries_.size(); }

 private:
  struct Entry {
    void (*call)(void** arguments) = nullptr;
    void* block = nullptr;  // of the library that it is in
    bool together = false;  // do its threads wait for each other?
  };
  void load(const std::vector<std::shared_ptr<const cuda_detail::KernelSource>>& kernels);

  std::mutex mutex_;                                // of launches: blocks of threads are one at a time
  std::unordered_map<std::string, Entry> entries_;  // by the kernel's entry
  std::unordered_map<std::string, std::shared_ptr<const cuda_detail::KernelSource>> noted_;
};

}  // namespace tidu::test
