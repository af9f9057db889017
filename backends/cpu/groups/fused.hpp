// fused.hpp - a fused group as one step: its operations run on one block of elements after another, those
// that code can be generated for together in vector registers, the others by their kernels, with what goes
// from one to the other in memory of a block's size.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/groups/fused_columns.hpp"
#include "cpu/groups/fused_lines.hpp"
#include "cpu/kernel_table.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// What a group does beside its element-wise operations.
struct PrologueAndEpilogue {
  Columns columns;
  std::vector<LinesOperand> lines;
};

/// The plan of the group at position `node` of the schedule, which reads values.operands and makes
/// values.results, in this order. Throws Error (execution) where a kernel is missing.
Plan plan_group(const Program& program, std::size_t node, const passes::NodeValues& values,
                const CompileOptions& options, const KernelTable& kernels,
                const PrologueAndEpilogue* around_fusion = nullptr);

}  // namespace tidu::cpu_detail
