// unary.cpp - kernels of one operand: a line for each primitive and kind of element.
#include <cmath>

#include "reference/elements.hpp"
#include "reference/special.hpp"

namespace tidu::ref {
namespace {

void round(const KernelCall& c) {
  const bool away = c.op().string("rounding_method") == "away_from_zero";
  map<Real, Real>(c, [&](Real x) { return away ? std::round(x) : std::nearbyint(x); });
}

void polygamma_kernel(const KernelCall& c) {
  const Int m = c.op().integer("m");
  map<Real, Real>(c, [&](Real x) { return polygamma(m, x); });
}

/// x^n by squaring, n >= 0.
template <class T>
T power(T x, std::uint64_t n) {
  if (n == 0) return T(1);
  for (; n % 2 == 0; n /= 2) x = times(x, x);
  T result = x;  // not 1 times x, which makes NaN of an infinite complex number
  while ((n /= 2) != 0) {
    x = times(x, x);
    if (n % 2 != 0) result = times(result, x);
  }
  return result;
}

/// x^-n, n > 0, as the square of 1 / x^(n/2): x^n may overflow where 1 / x^n does not underflow.
Complex inverse_power(Complex x, std::uint64_t n) {
  const Complex half = quotient(1.0, power(x, n / 2)), even = times(half, half);
  return n % 2 == 0 ? even : quotient(even, x);
}

void integer_pow(const KernelCall& c) {
  const Int y = c.op().integer("y");
  const auto n = y < 0 ? 0 - static_cast<std::uint64_t>(y) : static_cast<std::uint64_t>(y);
  with_element(c.output().dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, Int>) map<Int, Int>(c, [&](Int x) { return power(x, n); });
    if constexpr (std::is_same_v<T, Real>)
      map<Real, Real>(c, [&](Real x) {
        const Real size = std::pow(std::fabs(x), static_cast<Real>(y));  // Real may round y to an even number
        return y % 2 != 0 ? std::copysign(size, x) : size;
      });
    if constexpr (std::is_same_v<T, Complex>) {
      map<Complex, Complex>(c, [&](Complex x) { return y < 0 ? inverse_power(x, n) : power(x, n); });
    }
    if constexpr (std::is_same_v<T, bool>) no_kernel_for(c);
  });
}

/// f for real and for complex numbers.
#define BOTH(f) +[](Real x) -> Real { return f(x); }, +[](Complex x) -> Complex { return f(x); }

std::vector<NamedKernel> arithmetic() {
  return {
      elementwise(
          "neg", +[](Int x) { return wrap_sub(0, x); }, +[](Real x) { return -x; },
          +[](Complex x) { return -x; }),
      elementwise(
          "abs", +[](Int x) { return x < 0 ? wrap_sub(0, x) : x; }, +[](Real x) { return std::abs(x); },
          +[](Complex x) { return std::abs(x); }),
      elementwise(
          "sign", +[](Int x) { return Int{x > 0} - Int{x < 0}; },
          +[](Real x) { return x > 0   ? 1.0
                               : x < 0 ? -1.0
                                       : x; }, +[](Complex x) { return sign(x); }),
      elementwise(
          "square", +[](Int x) { return times(x, x); }, +[](Real x) { return x * x; },
          +[](Complex x) { return times(x, x); }),
      elementwise(
          "reciprocal", +[](Real x) { return 1.0 / x; }, +[](Complex x) { return quotient(1.0, x); }),
      elementwise(
          "not", +[](bool x) { return !x; }, +[](Int x) { return ~x; }),
      elementwise(
          "is_finite", +[](Real x) { return std::isfinite(x); }),
      elementwise(
          "floor", +[](Real x) { return std::floor(x); }),
      elementwise(
          "ceil", +[](Real x) { return std::ceil(x); }),
      {"round", dtypes::floats, round},
      {"integer_pow", dtypes::integers | dtypes::floats | dtypes::complexes, integer_pow},
      elementwise(
          "real", +[](Complex x) { return x.real(); }),
      elementwise(
          "imag", +[](Complex x) { return x.imag(); }),
      elementwise(
          "conj", +[](Complex x) { return std::conj(x); }),
      elementwise(
          "complex", +[](Real x, Real y) { return Complex(x, y); }),
  };
}

}  // namespace

std::vector<NamedKernel> unary_kernels() {
  std::vector<NamedKernel> rows = arithmetic();
  const std::vector<NamedKernel> functions = {
      elementwise("exp", BOTH(std::exp)),
      elementwise(
          "exp2", +[](Real x) { return std::exp2(x); }, +[](Complex x) { return exp2(x); }),
      elementwise(
          "expm1", +[](Real x) { return std::expm1(x); }, +[](Complex x) { return expm1(x); }),
      elementwise("log", BOTH(std::log)),
      elementwise(
          "log1p", +[](Real x) { return std::log1p(x); }, +[](Complex x) { return log1p(x); }),
      elementwise("sqrt", BOTH(std::sqrt)),
      elementwise("rsqrt", BOTH(1.0 / std::sqrt)),
      elementwise(
          "cbrt", +[](Real x) { return std::cbrt(x); }),
      elementwise("sin", BOTH(std::sin)),
      elementwise("cos", BOTH(std::cos)),
      elementwise("tan", BOTH(std::tan)),
      elementwise("asin", BOTH(std::asin)),
      elementwise("acos", BOTH(std::acos)),
      elementwise("atan", BOTH(std::atan)),
      elementwise("sinh", BOTH(std::sinh)),
      elementwise("cosh", BOTH(std::cosh)),
      elementwise("tanh", BOTH(std::tanh)),
      elementwise("asinh", BOTH(std::asinh)),
      elementwise("acosh", BOTH(std::acosh)),
      elementwise("atanh", BOTH(std::atanh)),
      elementwise("logistic", BOTH(logistic)),
      elementwise(
          "erf", +[](Real x) { return std::erf(x); }),
      elementwise(
          "erfc", +[](Real x) { return std::erfc(x); }),
      elementwise(
          "erf_inv", +[](Real x) { return erf_inv(x); }),
      elementwise(
          "lgamma", +[](Real x) { return std::lgamma(x); }),
      elementwise(
          "digamma", +[](Real x) { return digamma(x); }),
      {"polygamma", dtypes::floats, polygamma_kernel},
  };
  rows.insert(rows.end(), functions.begin(), functions.end());
  return rows;
}

#undef BOTH

}  // namespace tidu::ref
