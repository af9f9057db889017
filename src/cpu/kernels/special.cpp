// special.cpp - erf_inv, log_gamma, digamma, polygamma.
#include "cpu/kernels/special.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace tidu::cpu_detail {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

double erf_inv_estimate(double x) {
  double w = -std::log((1 - x) * (1 + x));
  double p = 0;
  if (w < 5) {
    w -= 2.5;
    for (const double k : erf_inv_near) p = k + p * w;
  } else {
    w = std::sqrt(w) - 3;
    for (const double k : erf_inv_far) p = k + p * w;
  }
  return p * x;
}

// Hurwitz' zeta(s, q) = sum (q + k)^-s, for whole s > 1.
double hurwitz_zeta(double s, double q) {
  double sum = 0;
  int steps = 0;
  for (; q < 10 || steps < 9; ++steps, q += 1) {
    if (q == 0) return infinity;
    if (q < -1e5) return nan;  // not worth a hundred thousand terms
    const double term = std::pow(q, -s);
    sum += term;
    if (q > 0 && term < sum * 1e-17) return sum;
  }
  // Euler-Maclaurin from q on: q^(1-s)/(s-1) + q^-s/2 + sum B_2j/(2j)! s(s+1)..(s+2j-2) q^(-s-2j+1)
  constexpr double bernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                                  -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};
  const double power = std::pow(q, -s);
  sum += power * q / (s - 1) + 0.5 * power;
  double factor = s * power / q;  // s(s+1)..(s+2j-2) q^(-s-2j+1) / (2j)!, without the Bernoulli number
  factor /= 2;
  for (int j = 1; j <= 10; ++j) {
    const double term = bernoulli[j - 1] * factor;
    sum += term;
    if (std::fabs(term) < std::fabs(sum) * 1e-17) break;
    const double k = 2.0 * j;
    factor *= (s + k - 1) * (s + k) / (q * q) / ((k + 1) * (k + 2));
  }
  return sum;
}

}  // namespace

double erf_inv(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude < 1)) return magnitude == 1 ? std::copysign(infinity, x) : nan;
  if (magnitude < 1e-8) return x * (0.5 * std::sqrt(std::numbers::pi));
  double y = std::fabs(erf_inv_estimate(magnitude));
  // 1 - |x| is exact where it matters, and erfc keeps its digits there.
  for (int step = 0; step < 2; ++step) {
    const double error = magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    const double newton = error / (2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

double log_gamma(double x) {
#if defined(__GLIBC__)
  int sign = 0;
  return ::lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

double digamma(double x) {
  if (x <= 0) {
    if (x == std::floor(x)) return nan;
    const double reduced = x - std::round(x);  // the period of tan(pi x) is 1
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * reduced);
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double w = 1 / (x * x);
  constexpr double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double series = 0;
  for (int i = 6; i >= 0; --i) series = (series + c[i]) * w;
  return sum + std::log(x) - 0.5 / x - series;
}

double polygamma(int m, double x) {
  if (m == 0) return digamma(x);
  if (std::isnan(x)) return x;
  if (x == infinity) return 0;
  const double zeta = hurwitz_zeta(m + 1.0, x);
  return (m % 2 == 0 ? -1.0 : 1.0) * std::exp(log_gamma(m + 1.0)) * zeta;
}

}  // namespace tidu::cpu_detail
