// call_checks.hpp - which products may be planned.
#pragma once

#include "cpu/products/gemm.hpp"

namespace tidu::cpu_detail {

/// Throws GemmError for sizes that are negative, leading dimensions that are too short, extents whose bytes
/// exceed an int64, and members of C that overlap.
void check_gemm_call(const GemmCall& call);

}  // namespace tidu::cpu_detail
