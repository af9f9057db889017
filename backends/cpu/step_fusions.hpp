// step_fusions.hpp - operations that are no step of their own, since another step does them too: additions
// that products do, products and transposes that groups do, columns and lines that they gather, moves that
// nobody makes.
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

/// Who does what of a schedule.
struct StepFusions {
  /// What nodes read and leave, with what they do for others: by node, or empty where there are neither
  /// groups nor loops, and then nothing is `done`.
  std::vector<passes::NodeValues> values;
  std::vector<bool> done;  ///< by operation, or empty: does another node do it?
  std::unordered_map<std::size_t, PrologueAndEpilogue> around_fusion;  ///< by node: of groups
  std::unordered_map<std::size_t, Plan> plans;  ///< by node: of updates and moves; none of what does nothing
  TransposedResults transposed;
  /// By operation, or empty: the addition that it does, too. That of an addition which is done is itself.
  std::vector<std::uint32_t> sums_into;
  /// By operation, or empty: it takes part in one of `sums_into`, or a group does it.
  std::vector<bool> bound;
};

/// Of the program, whose operations have these plans. `max_kept`: see make_moves.
StepFusions find_step_fusions(const Program& program, OperationPlans& plans, const CompileOptions& options,
                              const KernelTable& kernels, const Surroundings& around, std::size_t max_kept);

}  // namespace tidu::cpu_detail
