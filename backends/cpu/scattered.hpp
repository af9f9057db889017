// scattered.hpp - in-place updates: operations that change some elements of an array write into its buffer.
//
// Note [Scattered]: scatter_add, its form with an index for each position, and dynamic_update_slice update
// their operand in place if nothing reads it later. If the result is an output, the operand is computed in
// the output's buffer. If the operand is a splat, such as the initial zeros of a gradient, the operation
// fills its result itself, and the operand is not materialized.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/operation_plans.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Finds in-place updates. Sets NodeValues::changed in `values`, which is filled first if it is empty. For
/// operands that are not materialized, the defining operations become `done` and `bound` (by operation, or
/// empty), and `node_plans` has the plans of the updates that fill them. If an update is found, `done` is not
/// empty.
void scatter_in_place(const Program& program, OperationPlans& plans, std::vector<passes::NodeValues>& values,
                      std::vector<bool>& bound, std::unordered_map<std::size_t, Plan>& node_plans,
                      std::vector<bool>& done);

}  // namespace tidu::cpu_detail
