// vector_special.hpp - digamma and lgamma of many numbers.
#pragma once

#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

/// digamma of f32 and f64, lgamma of f32: by recurrence and asymptotic series in double precision, in loops
/// that are vectorised, with logarithms by generated code. Where x is not positive, or no ordinary number, it
/// is the function for one. None for others, for few elements, and where no code is generated.
Plan plan_special_functions(const PlanRequest& request, const Plan& plain);

}  // namespace tidu::cpu_detail
