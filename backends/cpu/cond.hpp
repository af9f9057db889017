// cond.hpp - the plan of a cond operation: each branch is compiled to an inner program, and the step runs the
// branch that the index selects.
#pragma once

#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

/// Does plan_cond apply to the operation?
bool is_cond(const Operation& operation);

/// Plans a cond whose index has type `index`. Throws Error (execution, out_of_memory).
Plan plan_cond(const Operation& operation, Type index, const InnerContext& context);

}  // namespace tidu::cpu_detail
