// while.hpp - while as one step: the program of its body with cond behind it, run while cond holds.
#pragma once

#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

/// Is it an operation that plan_while plans?
bool is_while(const Operation& operation);

/// The plan of a while. Throws Error (execution, out_of_memory).
Plan plan_while(const Operation& operation, const InnerContext& context);

}  // namespace tidu::cpu_detail
