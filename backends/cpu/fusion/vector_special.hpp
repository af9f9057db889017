// vector_special.hpp - digamma and lgamma of arrays.
#pragma once

#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

/// digamma of f32 and f64, and lgamma of f32, by recurrence and asymptotic series in double precision. The
/// loops are vectorized by the compiler, and the logarithms use generated code. For x that is not positive
/// and normal, the scalar function is used. Returns a plan without `run` for other operations, for few
/// elements, and without a vector JIT.
Plan plan_special_functions(const PlanRequest& request, const Plan& plain);

}  // namespace tidu::cpu_detail
