// kernel_compiler.hpp - from a kernel's text to machine code for one architecture, by NVRTC, with a folder of
// what was compiled before; to PTX, which the driver compiles, where the GPU is newer than NVRTC. Needs no
// device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/kernels/kernel_folder.hpp"
#include "cuda/plan.hpp"

namespace tidu::cuda_detail {

/// Compiles kernels. Any thread may call it.
class KernelCompiler {
 public:
  /// For compute capability major.minor. What is compiled is kept in `folder`, of so many bytes at most;
  /// empty: nowhere.
  KernelCompiler(int major, int minor, std::string folder, std::uint64_t folder_bytes);

  /// A cubin, or PTX and a zero. Throws Error (internal) with the compiler's log for a text that does not
  /// compile, (execution) when there is no NVRTC. `compiled`, if given, says whether it was compiled now.
  std::vector<char> compile(const KernelSource& source, bool* compiled = nullptr) const;
  /// Where the kernel's machine code is kept, or empty.
  std::string path_of(const KernelSource& source) const;
  /// "sm_90" for machine code, "compute_90" for PTX. Throws Error (execution) when there is no NVRTC.
  std::string architecture() const;

 private:
  std::string key_text(const std::string& program) const;
  int capability_;  // 90
  KernelFolder folder_;
};

/// Where kernels are kept unless options say otherwise: $TIDU_KERNEL_CACHE ("" keeps none), else tidu/kernels
/// in $XDG_CACHE_HOME or ~/.cache; empty when the environment names none of them.
std::string default_kernel_folder();

}  // namespace tidu::cuda_detail
