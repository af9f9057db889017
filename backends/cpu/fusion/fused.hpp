// fused.hpp - the plan of a fusion as one step. The fusion runs on one block of elements after another.
// Operations with vector code run together in registers, the others by their kernels; values between them
// take memory of a block's size.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu/access_map.hpp"
#include "cpu/compiled.hpp"
#include "cpu/fusion/fused_columns.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The prologue (gathers and fused loads) and the epilogue (interleaved rows) of a fusion.
struct PrologueAndEpilogue {
  Columns columns;
  std::vector<FusedLoad> loads;
};

/// Plans the fusion at position `node` of the schedule. It reads values.operands and writes values.results,
/// in this order. Throws Error (execution) if a kernel is missing.
Plan plan_fusion(const Program& program, std::size_t node, const passes::NodeValues& values,
                 const CompileOptions& options, const KernelTable& kernels,
                 const PrologueAndEpilogue* around_fusion = nullptr);

}  // namespace tidu::cpu_detail
