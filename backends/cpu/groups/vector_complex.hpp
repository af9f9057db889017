// vector_complex.hpp - functions of complex numbers by generated code on their parts.
#pragma once

#include "cpu/kernel.hpp"

namespace tidu::cpu_detail {

/// exp of c64 or c128 where code is generated: e^x cos y and e^x sin y, each of the three at most 4 ulp off;
/// numbers beyond what these are for, infinities and NaN go the way of `plain`'s scalar. None for others, for
/// few elements, and where no code is generated.
Plan plan_complex_exp(const PlanRequest& request, const Plan& plain);

}  // namespace tidu::cpu_detail
