// kernels.hpp - kernels of the platform: text that NVRTC was given, compiled for the host after the prelude's
// branch for a device, by the entry's name.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/fuse.hpp"
#include "cuda/host_kernels.hpp"

namespace tidu::test::platform {

/// Compiles the kernels of those graphs' plans, many at a time, which takes a tenth of the time that one at
/// a time does.
void compile_ahead(std::span<const std::vector<cuda_detail::Node>> plans);

/// The kernel of that name in a text with its prelude. Throws std::runtime_error with the compiler's words.
const HostKernel& compiled_kernel(const std::string& entry, const std::string& text);

/// How a kernel uses a parameter: a value, or an address that it reads or writes.
enum class Parameter : std::uint8_t { value, reads, writes };
/// The parameters of the entry, as its declaration has them.
std::vector<Parameter> parameters_of(const std::string& entry, const std::string& text);

}  // namespace tidu::test::platform
