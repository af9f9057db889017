// vector_complex.hpp - functions of complex numbers, by generated code on their parts.
#pragma once

#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

/// exp of c64 or c128: e^x cos y and e^x sin y, where each factor has an error of at most 4 ulp. Numbers
/// beyond the range of the generated code, infinities and NaN use the scalar step of `plain`. Returns a plan
/// without `run` for other operations, for few elements, and without a vector JIT.
Plan plan_complex_exp(const PlanRequest& request, const Plan& plain);

}  // namespace tidu::cpu_detail
