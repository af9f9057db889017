// prelude.hpp - the text that stands before every kernel: types of elements and their conversions, functions
// with the standard set's semantics, indices, what threads of a block do together. It includes nothing on a
// device. Compiled by a C++17 compiler for the host, where blocks are run by whoever defines
// `tidu_host_block`, it means the same. Its parts are the files of prelude/, embedded by the build.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cuda/plan.hpp"

namespace tidu::cuda_detail {

/// The kernel with the parts of the prelude that it needs before it: a whole program for a compiler.
std::string with_prelude(const KernelSource& kernel);

/// All parts in their order. Each needs those before it, except that no part needs complex numbers.
std::span<const std::string_view> prelude_parts();

}  // namespace tidu::cuda_detail
