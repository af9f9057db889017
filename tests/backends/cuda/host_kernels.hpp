// host_kernels.hpp - compiles kernels for the host, in batches, with the system's C++ compiler: after the
// prelude's branch for a host, or after that for a device, with callbacks of the strict emulator for each
// access of memory or without. Libraries of compiled kernels stay in a folder of temporary files, named
// after the text.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/plan.hpp"
#include "cuda/strict.hpp"

namespace tidu::test {

enum class KernelBranch { host, device, device_unchecked };

/// A kernel that was loaded.
struct HostKernel {
  void (*call)(void** arguments) = nullptr;  ///< runs one thread
  void* block = nullptr;                     ///< host branch: where thread and block are told
  bool waits = false;                        ///< do its threads wait for each other?
  bool any_grid = false;                     ///< does it compute the same with fewer blocks along x?
  std::shared_ptr<std::vector<StrictMemory>>
      shared;  ///< device branch with checks: arrays in shared memory of its library
};

using KernelSources = std::vector<std::shared_ptr<const cuda_detail::KernelSource>>;

/// Loads the kernels into `entries`, by name. Throws std::runtime_error with the compiler's words.
void load_kernels(const KernelSources& kernels, KernelBranch branch,
                  std::unordered_map<std::string, HostKernel>& entries);

}  // namespace tidu::test
