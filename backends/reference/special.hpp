// special.hpp - functions that the C++ library lacks, in f64. Poles and arguments out of the domain give NaN
// or infinities.
#pragma once

#include <complex>
#include <cstdint>

namespace tidu::ref {

using Complex = std::complex<double>;

/// Inverse of erf: infinite at -1 and 1, NaN beyond.
double erf_inv(double x);
/// Derivative of lgamma: NaN at 0, -1, -2, …
double digamma(double x);
/// m-th derivative of digamma. At the poles infinite for odd m, NaN for even m, whose sign differs from side
/// to side.
double polygamma(std::int64_t m, double x);

/// Accurate near 0, where 1 + z and e^z lose digits.
Complex log1p(Complex z);
Complex expm1(Complex z);
Complex exp2(Complex z);
/// 1 / (1 + e^-z) without overflow on the way.
double logistic(double x);
Complex logistic(Complex z);
/// z / |z|, and 0 at 0.
Complex sign(Complex z);
/// x / y, in the range of long double: no step overflows.
Complex quotient(Complex x, Complex y);
/// x^y: x^0 = 1, also for x = 0; 0^y = 0 for Re y > 0.
Complex pow(Complex x, Complex y);

}  // namespace tidu::ref
