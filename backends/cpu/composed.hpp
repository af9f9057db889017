// composed.hpp - the plan of an operation that other operations compose: a graph of these is compiled to an
// inner program, in which they are fused.
#pragma once

#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

/// Does plan_composed apply to the operation?
bool is_composed(const Operation& operation);

/// Plans a logsumexp of an operand of type `x`. Throws Error (execution, out_of_memory).
Plan plan_composed(const Operation& operation, Type x, const InnerContext& context);

}  // namespace tidu::cpu_detail
