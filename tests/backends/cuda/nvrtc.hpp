// nvrtc.hpp - compiles kernels for a device's architecture, by the toolkit's library where there is one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/plan.hpp"

namespace tidu::test {

/// What a compiler says of a kernel.
struct Compiled {
  bool ok = false;
  std::string log;        ///< where it is not ok
  int registers = 0;      ///< of a thread
  int spilled_bytes = 0;  ///< of registers, stored and loaded
  int stack_bytes = 0;    ///< of a thread
  int shared_bytes = 0;   ///< of a block
  std::size_t cubin_bytes = 0;
};

/// Is the library there?
bool has_nvrtc();
/// The kernel with its prelude as machine code of sm_90. Any thread may call.
Compiled compile_for_device(const cuda_detail::KernelSource& kernel);
/// The same for several, in one go while they are ok, which takes a third of the time that they take apart.
std::vector<Compiled> compile_for_device(
    std::span<const std::shared_ptr<const cuda_detail::KernelSource>> kernels);

}  // namespace tidu::test
