// special.cpp - special functions of Boost.Math, with its errors turned into non-finite values; complex
// functions in extended precision where a sum cancels.
#include "reference/special.hpp"

#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/polygamma.hpp>
#include <cmath>
#include <limits>

namespace tidu::ref {
namespace {

namespace policies = boost::math::policies;
using Quiet = policies::policy<
    policies::domain_error<policies::ignore_error>, policies::pole_error<policies::ignore_error>,
    policies::overflow_error<policies::ignore_error>, policies::underflow_error<policies::ignore_error>,
    policies::evaluation_error<policies::ignore_error>, policies::rounding_error<policies::ignore_error>>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

using Extended = long double;
using ExtendedComplex = std::complex<Extended>;

Complex rounded(ExtendedComplex z) { return {static_cast<double>(z.real()), static_cast<double>(z.imag())}; }

bool is_pole(double x) { return x <= 0.0 && x == std::floor(x); }

}  // namespace

double erf_inv(double x) {
  if (!(std::abs(x) <= 1.0)) return nan;
  if (x == 0.0) return x;  // of either sign
  if (std::abs(x) == 1.0) return std::copysign(infinity, x);
  return boost::math::erf_inv(x, Quiet());
}

double digamma(double x) {
  if (is_pole(x) || std::isnan(x)) return nan;
  if (x == infinity) return infinity;
  return boost::math::digamma(x, Quiet());
}

double polygamma(std::int64_t m, double x) {
  if (m == 0) return digamma(x);
  if (m < 0 || std::isnan(x) || x == -infinity) return nan;
  if (is_pole(x)) return m % 2 == 1 ? infinity : nan;
  if (x == infinity) return m % 2 == 1 ? 0.0 : -0.0;
  constexpr std::int64_t most =
      1000;  // beyond, m! and with it the value is out of the range of f64, or 0 except for few x
  if (m > most) return x > 0.0 && x < 1.0 ? (m % 2 == 1 ? infinity : -infinity) : nan;
  return boost::math::polygamma(static_cast<int>(m), x, Quiet());
}

// ln(1 + z) = log1p(x (2 + x) + y^2) / 2 + i arg(1 + z)
Complex log1p(Complex z) {
  const ExtendedComplex w(z);
  if (std::abs(w) > Extended(0.5)) return rounded(std::log(Extended(1) + w));
  const Extended x = w.real(), y = w.imag();
  return rounded({std::log1p(x * (Extended(2) + x) + y * y) / 2, std::atan2(y, Extended(1) + x)});
}

// e^z - 1 = expm1(x) cos y - 2 sin(y / 2)^2 + i e^x sin y
Complex expm1(Complex z) {
  const Extended x = z.real(), y = z.imag();
  if (y == 0) return {static_cast<double>(std::expm1(x)), z.imag()};
  if (std::abs(x) > Extended(1) || !std::isfinite(y))
    return rounded(std::exp(ExtendedComplex(z)) - Extended(1));
  const Extended half = std::sin(y / 2);
  return rounded({std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y)});
}

// 2^(x+iy) = 2^x (cos(y ln 2) + i sin(y ln 2)), y ln 2 as the sum of two numbers.
Complex exp2(Complex z) {
  constexpr Extended ln2 = 0x1.62e42fefa39efp-1L, ln2_rest = 0x1.abc9e3b39803f2f6af4p-56L;
  if (z.imag() == 0) return {std::exp2(z.real()), z.imag()};
  if (!std::isfinite(z.imag())) return std::exp(z);
  const Extended y = z.imag(), p = y * ln2, e = std::fma(y, ln2, -p) + y * ln2_rest;
  const Extended size = std::exp2(Extended(z.real()));
  return rounded({size * (std::cos(p) * std::cos(e) - std::sin(p) * std::sin(e)),
                  size * (std::sin(p) * std::cos(e) + std::cos(p) * std::sin(e))});
}

double logistic(double x) {
  const double e = std::exp(-std::abs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

// Next to the imaginary axis, which has the poles, 1 + e^z would cancel.
Complex logistic(Complex z) {
  if (std::abs(z.real()) < 1) {
    const Complex half = 0.5 * z;
    return std::exp(half) / (2.0 * std::cosh(half));
  }
  const Complex e = std::exp(z.real() < 0 ? z : -z);
  return z.real() < 0 ? e / (1.0 + e) : 1.0 / (1.0 + e);
}

Complex sign(Complex z) {
  if (z == Complex()) return {};
  const double scale = std::max(std::abs(z.real()), std::abs(z.imag()));
  const Complex scaled = std::isfinite(scale) ? z / scale : z;
  return scaled / std::abs(scaled);
}

Complex quotient(Complex x, Complex y) { return rounded(ExtendedComplex(x) / ExtendedComplex(y)); }

Complex pow(Complex x, Complex y) {
  if (y == Complex()) return 1.0;
  if (x == Complex()) return y.real() > 0 ? Complex() : Complex(nan, nan);
  return rounded(std::exp(ExtendedComplex(y) * std::log(ExtendedComplex(x))));
}

}  // namespace tidu::ref
