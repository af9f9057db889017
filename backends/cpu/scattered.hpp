// scattered.hpp - operations that change some elements of an array, and give it back.
//
// Note [Scattered]: scatter_add, its form with an index for each position, and dynamic_update_slice write
// their result where the array is, if that dies with them; where the result is an output, the array is made
// there. If it is one number repeated, as the zeros are that a gradient begins with, they fill their result
// with it, and nobody makes the array.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "cpu/kernel.hpp"
#include "cpu/operation_plans.hpp"
#include "tidu/cpu/program.hpp"
#include "tidu/cpu/schedule_passes.hpp"

namespace tidu::cpu_detail {

/// Says in `values`, which is made if it is empty, what such operations change, and in `done`, by operation
/// or empty, which arrays are not made, which are `bound` then; `node_plans` has those that fill their
/// result. If anything is said, `done` is not empty.
void scatter_in_place(const Program& program, OperationPlans& plans, std::vector<passes::NodeValues>& values,
                      std::vector<bool>& bound, std::unordered_map<std::size_t, Plan>& node_plans,
                      std::vector<bool>& done);

}  // namespace tidu::cpu_detail
