// step_fusions.hpp - step fusion: operations that another step absorbs. Examples are additions in a matmul's
// epilogue, gathers and slices in a fusion's prologue, transposes in its epilogue, and elided copies. The
// input is a scheduled program; the result says which step does which operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cpu/compiled.hpp"
#include "cpu/groups/fused.hpp"
#include "cpu/groups/transpose_epilogue.hpp"
#include "cpu/kernel.hpp"
#include "cpu/kernel_table.hpp"
#include "cpu/operation_plans.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// The assignment of operations to steps.
struct StepFusions {
  /// Values that each node reads and writes, including those of absorbed operations. Empty if there are no
  /// fusions and no loops; then no operation is `done`.
  std::vector<passes::NodeValues> values;
  std::vector<bool> done;  ///< by operation, or empty: does another node do it?
  std::unordered_map<std::size_t, PrologueAndEpilogue> around_fusion;  ///< by node: of fusions
  std::unordered_map<std::size_t, Plan> plans;  ///< by node: epilogues and copies; none for empty nodes
  TransposedResults transposed;
  /// By operation, or empty: the addition that the operation absorbs. An absorbed addition refers to itself.
  std::vector<std::uint32_t> sums_into;
  /// By operation, or empty: is it part of `sums_into`, or absorbed by a fusion?
  std::vector<bool> bound;
};

/// Finds the step fusions of a program whose operations have the given plans. `max_kept`: see make_moves.
StepFusions find_step_fusions(const Program& program, OperationPlans& plans, const CompileOptions& options,
                              const KernelTable& kernels, const Surroundings& around, std::size_t max_kept);

}  // namespace tidu::cpu_detail
