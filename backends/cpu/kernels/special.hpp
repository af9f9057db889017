// special.hpp - special functions that the C++ library lacks, in double precision.
#pragma once

namespace tidu::cpu_detail {

/// Coefficients of erf_inv(x) / x, highest power first, with w = -log((1 - x)(1 + x)): a polynomial in w -
/// 2.5 for w < 5, and in sqrt(w) - 3 beyond. M. Giles, "Approximating the erfinv function", 2011, for single
/// precision.
inline constexpr double erf_inv_near[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                          -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                          -0.00417768164,  0.246640727,    1.50140941};
inline constexpr double erf_inv_far[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                         -0.00367342844,  0.00573950773,  -0.0076224613,
                                         0.00943887047,   1.00167406,     2.83297682};
/// The same from w = 16 on, which only double precision reaches (w is at most 36.1): a polynomial in sqrt(w)
/// - 5, with an error of 6e-8.
inline constexpr double erf_inv_end[] = {5.9019797e-06,   -2.24497545e-05, 7.42424975e-05, -0.000213076222,
                                         -0.000138070315, 1.01030014,      4.84990637};
/// The inverse of erf: the polynomials, and then a step of Halley's method. NaN outside [-1, 1].
double erf_inv(double x);
/// log |Gamma(x)|, without writing lgamma's global variable.
double log_gamma(double x);
/// The derivative of log_gamma; NaN at 0 and at negative integers. By reflection, recurrence and asymptotic
/// series (NIST 5.11.2).
double digamma(double x);
/// The m-th derivative of digamma, m >= 1: (-1)^(m+1) m! zeta(m + 1, x), with Hurwitz' zeta by
/// Euler-Maclaurin summation.
double polygamma(int m, double x);

}  // namespace tidu::cpu_detail
