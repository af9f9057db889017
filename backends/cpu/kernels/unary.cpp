// unary.cpp - kernels of one operand that are arithmetic: sign, rounding, powers, parts of complex numbers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/kernels/arithmetic.hpp"
#include "cpu/kernels/elementwise.hpp"

namespace tidu::cpu_detail {
namespace {

struct Negate {
  template <class T>
  requires(!Boolean<T>) T operator()(T x) const {
    if constexpr (Integer<T>) {
      return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
    } else {
      return -x;
    }
  }
};
// As std::abs, which calls functions that no loop takes: squares of floats are no more than doubles hold.
template <ComplexNumber T>
auto magnitude_of(T z) {
  if constexpr (std::is_same_v<T, std::complex<float>>) {
    const double re = z.real(), im = z.imag();
    const auto size = static_cast<float>(std::sqrt(re * re + im * im));
    constexpr float unbounded = std::numeric_limits<float>::infinity();
    return std::fabs(z.real()) == unbounded || std::fabs(z.imag()) == unbounded ? unbounded : size;
  } else {
    return std::abs(z);
  }
}
struct Absolute {
  template <class T>
  requires(!Boolean<T>) auto operator()(T x) const {
    if constexpr (Integer<T>) {
      return x < 0 ? Negate()(x) : x;
    } else if constexpr (ComplexNumber<T>) {
      return magnitude_of(x);
    } else {
      return std::abs(x);
    }
  }
};
struct Sign {
  template <class T>
  requires(!Boolean<T>) T operator()(T x) const {
    if constexpr (Integer<T>) {
      return static_cast<T>((x > 0) - (x < 0));
    } else if constexpr (ComplexNumber<T>) {
      // By the greater part first, which no magnitude of the rest overflows.
      const auto greater = std::max(std::abs(x.real()), std::abs(x.imag()));
      if (x == T(0)) return T(0);
      const T scaled = std::isfinite(greater) ? T(x.real() / greater, x.imag() / greater) : x;
      return scaled / magnitude_of(scaled);
    } else {
      return x > 0 ? T(1) : x < 0 ? T(-1) : x;  // zeros and NaN stay what they are
    }
  }
};
struct Floor {
  template <RealNumber T>
  T operator()(T x) const {
    return std::floor(x);
  }
};
struct Ceil {
  template <RealNumber T>
  T operator()(T x) const {
    return std::ceil(x);
  }
};
struct RoundToEven {
  template <RealNumber T>
  T operator()(T x) const {
    return std::nearbyint(x);
  }
};
struct RoundAway {
  template <RealNumber T>
  T operator()(T x) const {
    return std::round(x);
  }
};
struct Square {
  template <class T>
  requires(!Boolean<T>) T operator()(T x) const { return multiply(x, x); }
  template <ComplexNumber T>
  void several(const T* x, T* y, std::int64_t count) const {
    multiply_several(x, x, y, count);
  }
};
struct Reciprocal {
  template <Inexact T>
  T operator()(T x) const {
    return divide(T(1), x);
  }
};
struct IsFinite {
  template <RealNumber T>
  bool operator()(T x) const {
    return std::isfinite(x);
  }
};
struct Not {
  template <class T>
  requires(Boolean<T> || Integer<T>) T operator()(T x) const {
    if constexpr (Boolean<T>) {
      return !x;
    } else {
      return static_cast<T>(~x);
    }
  }
};
// x^exponent, of 32 bits, or of 64.
template <class E>
struct PowerBy {
  explicit PowerBy(E y) : exponent(y) {}
  E exponent;
  template <class T>
  requires(!Boolean<T>) T operator()(T x) const {
    auto n = static_cast<std::make_unsigned_t<E>>(exponent);
    if (n == 0) return T(1);
    if (exponent < 0) n = 0U - n;
    if constexpr (Integer<T>) {
      const T result = power_of(x, n, Multiply());
      return exponent < 0 ? Divide()(T(1), result) : result;
    } else {
      return exponent < 0 ? inverse_power_of(T(1), x, n, Multiply(), Divide()) : power_of(x, n, Multiply());
    }
  }
};
using IntegerPower = PowerBy<std::int32_t>;
using WidePower = PowerBy<std::int64_t>;
template <class T>
void wide_power_loop(const ElementState<WidePower>& s, const Call& call) {
  const T* x = call.operand<T>(0);
  T* y = call.result<T>();
  for (std::int64_t i = 0; i < s.count; ++i) y[i] = s.function(x[i]);
}
struct Real {
  template <ComplexNumber T>
  auto operator()(T x) const {
    return x.real();
  }
  template <RealNumber T>
  T operator()(T x) const {
    return x;
  }
};
struct Imaginary {
  template <ComplexNumber T>
  auto operator()(T x) const {
    return x.imag();
  }
  template <RealNumber T>
  T operator()(T) const {
    return T(0);
  }
};
struct Conjugate {
  template <ComplexNumber T>
  T operator()(T x) const {
    return std::conj(x);
  }
  template <RealNumber T>
  T operator()(T x) const {
    return x;
  }
};

Plan plan_round(const PlanRequest& request) {
  return request.op.string("rounding_method") == "away_from_zero" ? plan_unary<RoundAway>(request)
                                                                  : plan_unary<RoundToEven>(request);
}
Plan plan_integer_pow(const PlanRequest& request) {
  const std::int64_t y = request.op.integer("y");
  if (y >= std::numeric_limits<std::int32_t>::min() && y <= std::numeric_limits<std::int32_t>::max()) {
    return plan_unary_with<IntegerPower>(request, static_cast<std::int32_t>(y));
  }
  return with_type(request.in[0].dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (Boolean<T>) {
      return Plan();
    } else {
      return make_plan<ElementState<WidePower>, wide_power_loop<T>>({request.out[0].size(), 1, WidePower(y)});
    }
  });
}

constexpr KernelEntry unary_entries[] = {
    {"neg", plan_unary<Negate>, numbers},
    {"abs", plan_unary<Absolute>, numbers},
    {"sign", plan_unary<Sign>, numbers},
    {"floor", plan_unary<Floor>, floats},
    {"ceil", plan_unary<Ceil>, floats},
    {"round", plan_round, floats},
    {"square", plan_unary<Square>, numbers},
    {"reciprocal", plan_unary<Reciprocal>, floats | complexes},
    {"is_finite", plan_unary<IsFinite>, floats},
    {"not", plan_unary<Not>, bit(bool_) | integers},
    {"integer_pow", plan_integer_pow, numbers},
    {"real", plan_unary<Real>, reals | complexes},
    {"imag", plan_unary<Imaginary>, reals | complexes},
    {"conj", plan_unary<Conjugate>, reals | complexes},
};

}  // namespace

std::span<const KernelEntry> unary_kernels() { return unary_entries; }

}  // namespace tidu::cpu_detail
