// special.cpp - erf_inv, log_gamma, digamma, polygamma.
//
// Note [Sums of fractions]: the terms of a recurrence, 1 / x, 1 / (x + 1), ..., are added as fractions, since
// products take a fraction of a division's time; always as many, so that no branch depends on x.
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
  } else if (w < 16) {
    w = std::sqrt(w) - 3;
    for (const double k : erf_inv_far) p = k + p * w;
  } else {
    w = std::sqrt(w) - 5;
    for (const double k : erf_inv_end) p = k + p * w;
  }
  return p * x;
}

// B_2, B_4, ...
constexpr double bernoulli[] = {1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
                                -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330};
constexpr int num_bernoulli = 10;

// From here on asymptotic series have all digits, so many steps of recurrence away from 0.
constexpr double asymptotic_from = 10;
constexpr int asymptotic_steps = 10;

// x^n for a small n.
template <int n>
constexpr double power_of_few(double x) {
  if constexpr (n == 1) {
    return x;
  } else {
    const double half = power_of_few<n / 2>(x);
    return n % 2 == 0 ? half * half : half * half * x;
  }
}
double inverse_power(double x, int n) {
  constexpr int few = 16;  // beyond, products might overflow where the inverse is a number
  if (n > few) return std::pow(x, -n);
  double result = 1;
  for (int i = 0; i < n; ++i) result *= x;
  return 1 / result;
}

// The sum of (x + k)^-n for so many k, as two fractions.
template <int n>
double sum_of_inverses(double x) {
  constexpr int half = asymptotic_steps / 2;
  double over[2] = {0, 0}, under[2] = {1, 1};
  for (int k = 0; k < half; ++k) {
    for (int part = 0; part < 2; ++part) {
      const double term = power_of_few<n>(x + (part * half + k));
      over[part] = over[part] * term + under[part];
      under[part] *= term;
    }
  }
  return over[0] / under[0] + over[1] / under[1];
}

// Euler-Maclaurin from q on: q^(1-s)/(s-1) + q^-s/2 + sum B_2j/(2j)! s(s+1)..(s+2j-2) q^(-s-2j+1)
struct ZetaSeries {
  double factors[num_bernoulli] = {};  // of q^-2j
  constexpr explicit ZetaSeries(double s) {
    double factor = s / 2;
    for (int j = 1; j <= num_bernoulli; ++j) {
      const double k = 2.0 * j;
      factors[j - 1] = bernoulli[j - 1] * factor;
      factor *= (s + k - 1) * (s + k) / ((k + 1) * (k + 2));
    }
  }
};

// Hurwitz' zeta(s, q) = sum (q + k)^-s where q is positive, and q^-s no less than the least number.
template <int s>
double zeta_of(double q) {
  static constexpr ZetaSeries series(s);
  double sum = 0;
  if (q < asymptotic_from) {
    sum = sum_of_inverses<s>(q);
    q += asymptotic_steps;
  }
  const double inverse = 1 / q, square = inverse * inverse;
  double tail = 0;
  for (int j = num_bernoulli - 1; j >= 0; --j) tail = tail * square + series.factors[j];
  return sum + power_of_few<s - 1>(inverse) * (1.0 / (s - 1) + inverse * (0.5 + inverse * tail));
}

// The same for whole s > 1, times unit^s, a power of two: powers of unit / q are numbers where those of 1 / q
// are not.
double hurwitz_zeta(int s, double q, double unit) {
  // Far below zero terms on both sides of it: of q = f - n, 0 < f < 1, those of f, f + 1, ... and, with the
  // sign of (-1)^s, those of 1 - f, ..., n - f.
  if (q < -100) {
    const double n = -std::floor(q), f = q + n;
    const double below = hurwitz_zeta(s, 1 - f, unit) - hurwitz_zeta(s, n + 1 - f, unit);
    return hurwitz_zeta(s, f, unit) + (s % 2 == 0 ? below : -below);
  }
  double sum = 0;
  for (int steps = 0; q < asymptotic_from || steps < asymptotic_steps - 1; ++steps, q += 1) {
    const double term = inverse_power(q / unit, s);
    sum += term;
    if (q > 0 && term < sum * 1e-17) return sum;
  }
  const double first = inverse_power(q / unit, s);
  sum += first * q / (s - 1) + 0.5 * first;
  double factor = s * first / q / 2;  // s(s+1)..(s+2j-2) q^(-s-2j+1) / (2j)!
  for (int j = 1; j <= num_bernoulli; ++j) {
    const double term = bernoulli[j - 1] * factor;
    sum += term;
    if (std::fabs(term) < std::fabs(sum) * 1e-17) break;
    const double k = 2.0 * j;
    factor *= (s + k - 1) * (s + k) / (q * q) / ((k + 1) * (k + 2));
  }
  return sum;
}

// m! = fraction 2^exponent, with a fraction in [1/2, 1).
double factorial(int m, int& exponent) {
  constexpr double large = 0x1p900;
  double product = 1;
  int scaled = 0;
  for (int i = 2; i <= m; ++i) {
    product *= i;
    if (product < large) continue;
    product /= large;
    scaled += 900;
  }
  const double fraction = std::frexp(product, &exponent);
  exponent += scaled;
  return fraction;
}

}  // namespace

double erf_inv(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude < 1)) return magnitude == 1 ? std::copysign(infinity, x) : nan;
  if (magnitude < 1e-8) return x * (0.5 * std::sqrt(std::numbers::pi));
  const double y = erf_inv_estimate(magnitude);
  // A step of Halley's method makes 1e-21 of the estimate's 1e-7. 1 - |x| is exact where it matters, and erfc
  // keeps its digits there.
  const double error = magnitude < 0.75 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
  const double newton = error / (2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
  return std::copysign(y - newton / (1 + y * newton), x);
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
  if (x < asymptotic_from) {
    sum = -sum_of_inverses<1>(x);
    x += asymptotic_steps;
  }
  const double w = 1 / (x * x);
  constexpr double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double series = 0;
  for (int i = 6; i >= 0; --i) series = (series + c[i]) * w;
  return sum + std::log(x) - 0.5 / x - series;
}

double polygamma(int m, double x) {
  if (m == 0) return digamma(x);
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return x < 0 ? nan : m % 2 == 0 ? -0.0 : 0.0;
  if (x <= 0 && x == std::floor(x)) return m % 2 == 1 ? infinity : nan;
  constexpr double small = 1e-60, large = 1e60;  // beyond, powers are no numbers or lose digits
  if (x > small && x < large) {
    if (m == 1) return zeta_of<2>(x);
    if (m == 2) return -2 * zeta_of<3>(x);
    if (m == 3) return 6 * zeta_of<4>(x);
  }
  // m! and zeta may be no numbers where their product is one: each has its exponent apart.
  const double nearest = x > 0 ? x : std::fabs(x - std::round(x));  // to 0, of x, x + 1, ...
  const int unit = std::ilogb(nearest);
  int exponent = 0;
  const double product = factorial(m, exponent) * hurwitz_zeta(m + 1, x, std::ldexp(1.0, unit));
  return std::ldexp(m % 2 == 0 ? -product : product, exponent - (m + 1) * unit);
}

}  // namespace tidu::cpu_detail
