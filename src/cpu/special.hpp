// special.hpp - special functions that the C++ library lacks, in double precision.
#pragma once

namespace tidu::cpu_detail {

/// The inverse of erf: M. Giles' polynomial ("Approximating the erfinv function", 2011), then Halley steps.
/// NaN outside [-1, 1].
double erf_inv(double x);
/// log |Gamma(x)|, without the global variable that lgamma writes.
double log_gamma(double x);
/// The derivative of log_gamma; NaN at 0 and at negative integers. Reflection, recurrence, asymptotic series
/// (NIST 5.11.2).
double digamma(double x);
/// The m-th derivative of digamma, m >= 1: (-1)^(m+1) m! zeta(m + 1, x) with Hurwitz' zeta by Euler-Maclaurin
/// summation.
double polygamma(int m, double x);

}  // namespace tidu::cpu_detail
