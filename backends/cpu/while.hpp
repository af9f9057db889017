// while.hpp - the plan of a while operation: an inner program runs the body and then the condition, and
// repeats as long as the condition holds.
#pragma once

#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

/// Does plan_while apply to the operation?
bool is_while(const Operation& operation);

/// Plans a while. Throws Error (execution, out_of_memory).
Plan plan_while(const Operation& operation, const InnerContext& context);

}  // namespace tidu::cpu_detail
