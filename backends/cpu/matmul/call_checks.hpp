// call_checks.hpp - validation of GEMM calls before planning.
#pragma once

#include "cpu/matmul/gemm.hpp"

namespace tidu::cpu_detail {

/// Throws GemmError for negative sizes, leading dimensions that are too short, extents whose bytes exceed an
/// int64, and overlapping members of C.
void check_gemm_call(const GemmCall& call);

}  // namespace tidu::cpu_detail
