// transcendental.cpp - kernels of one operand that call the C++ library, and special functions.
#include <cmath>
#include <complex>
#include <numbers>

#include "cpu/kernels/elementwise.hpp"
#include "cpu/kernels/special.hpp"

namespace tidu::cpu_detail {
namespace {

// A functor on floating and complex elements that calls std::NAME.
#define TIDU_STANDARD_FUNCTION(Functor, NAME) \
  struct Functor {                            \
    template <Inexact T>                      \
    T operator()(T x) const {                 \
      return std::NAME(x);                    \
    }                                         \
  };
TIDU_STANDARD_FUNCTION(Exp, exp)
TIDU_STANDARD_FUNCTION(Log, log)
TIDU_STANDARD_FUNCTION(Sqrt, sqrt)
TIDU_STANDARD_FUNCTION(Sin, sin)
TIDU_STANDARD_FUNCTION(Cos, cos)
TIDU_STANDARD_FUNCTION(Tan, tan)
TIDU_STANDARD_FUNCTION(Asin, asin)
TIDU_STANDARD_FUNCTION(Acos, acos)
TIDU_STANDARD_FUNCTION(Atan, atan)
TIDU_STANDARD_FUNCTION(Sinh, sinh)
TIDU_STANDARD_FUNCTION(Cosh, cosh)
TIDU_STANDARD_FUNCTION(Tanh, tanh)
TIDU_STANDARD_FUNCTION(Asinh, asinh)
TIDU_STANDARD_FUNCTION(Acosh, acosh)
TIDU_STANDARD_FUNCTION(Atanh, atanh)
#undef TIDU_STANDARD_FUNCTION

// cos(b ln 2) + i sin(b ln 2). b ln 2 = p + e as two numbers, exact to 2^-106 |b|; then the sum formulas.
std::complex<double> unit_power_of_two(double b) {
  constexpr double ln2_rest = 0x1.abc9e3b39803fp-56;  // ln 2 - std::numbers::ln2
  const double p = b * std::numbers::ln2;
  const double e = std::fma(b, ln2_rest, std::fma(b, std::numbers::ln2, -p));
  const double c = std::cos(p), s = std::sin(p), cos_e = std::cos(e), sin_e = std::sin(e);
  return {c * cos_e - s * sin_e, s * cos_e + c * sin_e};
}
struct Exp2 {
  // 2^(a+bi) = 2^a (cos(b ln 2) + i sin(b ln 2)); the exponent is not multiplied by ln 2, which would be
  // rounded, and 2^a may overflow where its product does not.
  template <Inexact T>
  T operator()(T x) const {
    if constexpr (ComplexNumber<T>) {
      using R = typename T::value_type;
      if (x.imag() == 0) return T(std::exp2(x.real()), x.imag());
      if (!std::isfinite(x.imag())) return std::exp(x);  // NaN, 0 or infinite, by the real part
      constexpr double split = 1000, shift = 64;
      const double a = x.real();
      const bool is_large = a > split && a < split + shift + 100;
      const double size = std::exp2(is_large ? a - shift : a), back = is_large ? 0x1p64 : 1.0;
      const std::complex<double> unit = unit_power_of_two(x.imag());
      return T(static_cast<R>(size * unit.real() * back), static_cast<R>(size * unit.imag() * back));
    } else {
      return std::exp2(x);
    }
  }
};
// e^(a+bi) - 1 = expm1(a) cos b - 2 sin^2(b/2) + i e^a sin b
struct Expm1 {
  template <Inexact T>
  T operator()(T x) const {
    if constexpr (ComplexNumber<T>) {
      using R = typename T::value_type;
      if (x.imag() == 0) return T(std::expm1(x.real()), x.imag());  // where e^a is infinite, too
      const R half = std::sin(x.imag() / 2);
      return T(std::expm1(x.real()) * std::cos(x.imag()) - 2 * half * half,
               std::exp(x.real()) * std::sin(x.imag()));
    } else {
      return std::expm1(x);
    }
  }
};
// log(1+a+bi) = log1p(a(2+a) + b^2) / 2 + i atan2(b, 1+a), the first term where nothing overflows
struct Log1p {
  template <Inexact T>
  T operator()(T x) const {
    if constexpr (ComplexNumber<T>) {
      using R = typename T::value_type;
      const R a = x.real();
      const R b = x.imag();
      if (std::abs(a) > R(0.5) || std::abs(b) > R(0.5)) return std::log(T(1 + a, b));
      return T(std::log1p(a * (2 + a) + b * b) / 2, std::atan2(b, 1 + a));
    } else {
      return std::log1p(x);
    }
  }
};
struct Rsqrt {
  template <Inexact T>
  T operator()(T x) const {
    return T(1) / std::sqrt(x);
  }
};
struct Cbrt {
  template <RealNumber T>
  T operator()(T x) const {
    return std::cbrt(x);
  }
};
// 1 / (1 + e^-x), below 0 e^x / (1 + e^x): e^-x may be infinite where the result is a number. Next to the
// imaginary axis, which has the poles, e^(x/2) / (2 cosh(x/2)): 1 + e^-x would cancel there.
struct Logistic {
  template <Inexact T>
  T operator()(T x) const {
    if constexpr (ComplexNumber<T>) {
      if (std::abs(x.real()) < 1) {
        const T half(x.real() / 2, x.imag() / 2), power = std::cosh(half);
        return std::exp(half) / (power + power);
      }
    }
    const bool negative = std::real(x) < 0;
    const T power = std::exp(negative ? x : -x);
    return (negative ? power : T(1)) / (T(1) + power);
  }
};
struct Erf {
  template <RealNumber T>
  T operator()(T x) const {
    return std::erf(x);
  }
};
struct Erfc {
  template <RealNumber T>
  T operator()(T x) const {
    return std::erfc(x);
  }
};
struct ErfInv {
  template <RealNumber T>
  T operator()(T x) const {
    return static_cast<T>(erf_inv(static_cast<double>(x)));
  }
};
struct Lgamma {
  template <RealNumber T>
  T operator()(T x) const {
    return static_cast<T>(log_gamma(static_cast<double>(x)));
  }
};
struct Digamma {
  template <RealNumber T>
  T operator()(T x) const {
    return static_cast<T>(digamma(static_cast<double>(x)));
  }
};
struct Polygamma {
  explicit Polygamma(std::int32_t order) : m(order) {}
  std::int32_t m;
  template <RealNumber T>
  T operator()(T x) const {
    return static_cast<T>(polygamma(m, static_cast<double>(x)));
  }
};

Plan plan_polygamma(const PlanRequest& request) {
  const std::int64_t m = request.op.integer("m");
  if (m < 0 || m > 1000) return Plan();  // beyond 170 the factorial is infinite
  return plan_unary_with<Polygamma>(request, static_cast<std::int32_t>(m));
}

constexpr DTypes inexact = floats | complexes;
constexpr KernelEntry transcendental_entries[] = {
    {"exp", plan_unary<Exp>, inexact},           {"exp2", plan_unary<Exp2>, inexact},
    {"expm1", plan_unary<Expm1>, inexact},       {"log", plan_unary<Log>, inexact},
    {"log1p", plan_unary<Log1p>, inexact},       {"sqrt", plan_unary<Sqrt>, inexact},
    {"rsqrt", plan_unary<Rsqrt>, inexact},       {"cbrt", plan_unary<Cbrt>, floats},
    {"sin", plan_unary<Sin>, inexact},           {"cos", plan_unary<Cos>, inexact},
    {"tan", plan_unary<Tan>, inexact},           {"asin", plan_unary<Asin>, inexact},
    {"acos", plan_unary<Acos>, inexact},         {"atan", plan_unary<Atan>, inexact},
    {"sinh", plan_unary<Sinh>, inexact},         {"cosh", plan_unary<Cosh>, inexact},
    {"tanh", plan_unary<Tanh>, inexact},         {"asinh", plan_unary<Asinh>, inexact},
    {"acosh", plan_unary<Acosh>, inexact},       {"atanh", plan_unary<Atanh>, inexact},
    {"logistic", plan_unary<Logistic>, inexact}, {"erf", plan_unary<Erf>, floats},
    {"erfc", plan_unary<Erfc>, floats},          {"erf_inv", plan_unary<ErfInv>, floats},
    {"lgamma", plan_unary<Lgamma>, floats},      {"digamma", plan_unary<Digamma>, floats},
    {"polygamma", plan_polygamma, floats},
};

}  // namespace

std::span<const KernelEntry> transcendental_kernels() { return transcendental_entries; }

}  // namespace tidu::cpu_detail
