// cond.hpp - cond as one step: the programs of its branches, of which the one at the index runs.
#pragma once

#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

/// Is it an operation that plan_cond plans?
bool is_cond(const Operation& operation);

/// The plan of a cond with an index of that type. Throws Error (execution, out_of_memory).
Plan plan_cond(const Operation& operation, Type index, const InnerContext& context);

}  // namespace tidu::cpu_detail
