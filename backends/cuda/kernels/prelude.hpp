// prelude.hpp - the text that stands before every kernel: types of elements and their conversions, functions
// with the standard set's semantics, indices, what threads of a block do together. It includes nothing on a
// device. Compiled by a C++17 compiler for the host, where blocks are run by whoever defines
// `tidu_host_block`, it means the same.
#pragma once

#include <string>
#include <string_view>

#include "cuda/plan.hpp"

namespace tidu::cuda_detail {

/// The kernel with what it needs before it: a whole program for a compiler.
std::string with_prelude(const KernelSource& kernel);

// The parts, each of which needs those before it.
std::string_view prelude_types();      ///< always there
std::string_view prelude_functions();  ///< of real numbers; always there
std::string_view prelude_complex();    ///< where the text names c64 or c128
std::string_view prelude_special();    ///< where the text names special functions

}  // namespace tidu::cuda_detail
