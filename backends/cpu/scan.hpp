// scan.hpp - scan as one step: the program of its body, run step by step.
#pragma once

#include "cpu/inner_program.hpp"

namespace tidu::cpu_detail {

/// Is it an operation that plan_scan plans?
bool is_scan(const Operation& operation);

/// The plan of a scan. Throws Error (execution, out_of_memory).
Plan plan_scan(const Operation& operation, const InnerContext& context);

}  // namespace tidu::cpu_detail
