// scan.hpp - the plan of a scan operation: the inner program of its body runs once for each step.
#pragma once

#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

/// Does plan_scan apply to the operation?
bool is_scan(const Operation& operation);

/// Plans a scan. Throws Error (execution, out_of_memory).
Plan plan_scan(const Operation& operation, const InnerContext& context);

}  // namespace tidu::cpu_detail
