// arithmetic.hpp - functors for arithmetic on elements, with the edge cases of the standard set: integers
// wrap, x / 0 = -1, x rem 0 = x.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/kernel.hpp"
#include "graph/truncated.hpp"

namespace tidu::cpu_detail {

/// The unsigned type as wide as T, whose arithmetic wraps.
template <Integer T>
using Wrapping = std::make_unsigned_t<T>;

template <class T>
T multiply(T x, T y) {
  if constexpr (Integer<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(y));
  } else if constexpr (ComplexNumber<T>) {
    // The plain formula; the library's handling of infinities only if that gives NaN.
    const T z(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
    if (z.real() == z.real() || z.imag() == z.imag()) [[likely]]
      return z;
    return x * y;
  } else {
    return x * y;
  }
}

/// z[i] = multiply(x[i], y[i]); z may be x or y. Uses loops without branches, and computes again if a result
/// is NaN.
template <ComplexNumber T>
void multiply_several(const T* x, const T* y, T* z, std::int64_t count) {
  using R = typename T::value_type;
  constexpr std::int64_t at_once = 64;
  R re[at_once], im[at_once];
  for (std::int64_t first = 0; first < count; first += at_once) {
    const std::int64_t n = count - first < at_once ? count - first : at_once;
    const R* const a = reinterpret_cast<const R*>(x + first);
    const R* const b = reinterpret_cast<const R*>(y + first);
    R* const c = reinterpret_cast<R*>(z + first);
    int not_numbers = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      re[i] = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
      im[i] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
    }
    for (std::int64_t i = 0; i < n; ++i)
      not_numbers |= static_cast<int>(re[i] != re[i]) & static_cast<int>(im[i] != im[i]);
    if (not_numbers != 0) [[unlikely]] {
      for (std::int64_t i = first; i < first + n; ++i) z[i] = multiply(x[i], y[i]);
      continue;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      c[2 * i] = re[i];
      c[2 * i + 1] = im[i];
    }
  }
}

/// x / y; finite numbers are scaled by powers of two, since steps of the library's function may overflow
/// where the quotient does not.
[[gnu::noinline, gnu::cold]] inline std::complex<double> scaled_quotient(std::complex<double> x,
                                                                         std::complex<double> y) {
  using Complex = std::complex<double>;
  const auto size = [](Complex v) { return std::max(std::abs(v.real()), std::abs(v.imag())); };
  if (!std::isfinite(size(x)) || !std::isfinite(size(y)) || y == 0.0) return x / y;
  const auto scaled = [](Complex v, int by) {
    return Complex(std::scalbn(v.real(), by), std::scalbn(v.imag(), by));
  };
  const int of_x = std::ilogb(size(x)), of_y = std::ilogb(size(y));
  return scaled(scaled(x, -of_x) / scaled(y, -of_y), of_x - of_y);
}
template <class T>
T divide(T x, T y) {
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    const T z = x / y;
    const double re = z.real(), im = z.imag();
    if ((re - re) + (im - im) == 0.0) [[likely]]
      return {re, im};
    return scaled_quotient(x, y);
  } else if constexpr (ComplexNumber<T>) {
    // The squares of f32 are in the range of f64.
    const double a = x.real(), b = x.imag(), c = y.real(), d = y.imag(), norm = c * c + d * d;
    const double re = (a * c + b * d) / norm, im = (b * c - a * d) / norm;
    if ((re - re) + (im - im) == 0.0) [[likely]]
      return {static_cast<float>(re), static_cast<float>(im)};
    return x / y;
  } else {
    return x / y;
  }
}

/// x^n by squaring, n > 0, with this product. The first factor is not multiplied by 1, which makes NaN of an
/// infinite complex number.
template <class T, class N, class Product>
T power_of(T x, N n, const Product& product) {
  for (; (n & 1U) == 0; n >>= 1U) x = product(x, x);
  T result = x;
  while ((n >>= 1U) != 0) {
    x = product(x, x);
    if ((n & 1U) != 0) result = product(result, x);
  }
  return result;
}
/// x^-n, n > 0, as the square of 1/x^(n/2): x^n may overflow where 1/x^n is subnormal.
template <class T, class N, class Product, class Quotient>
T inverse_power_of(T one, T x, N n, const Product& product, const Quotient& quotient) {
  if (n == 1) return quotient(one, x);
  const T half = quotient(one, power_of(x, n / 2, product)), even = product(half, half);
  if (n % 2 == 0) return even;
  return n == 3 ? product(even, half) : quotient(even, x);
}

struct Add {
  template <class T>
  requires(!Boolean<T>) T operator()(T x, T y) const {
    if constexpr (Integer<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(y));
    } else {
      return x + y;
    }
  }
};

struct Subtract {
  template <class T>
  requires(!Boolean<T>) T operator()(T x, T y) const {
    if constexpr (Integer<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(x) - static_cast<Wrapping<T>>(y));
    } else {
      return x - y;
    }
  }
};

struct Multiply {
  template <class T>
  requires(!Boolean<T>) T operator()(T x, T y) const { return multiply(x, y); }
  template <ComplexNumber T>
  void several(const T* x, const T* y, T* z, std::int64_t count) const {
    multiply_several(x, y, z, count);
  }
};

struct Divide {
  template <class T>
  requires(!Boolean<T>) T operator()(T x, T y) const {
    if constexpr (Integer<T>) {
      if (y == 0) return -1;
      if (y == -1) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
      return static_cast<T>(x / y);
    } else {
      return divide(x, y);
    }
  }
};

/// x if it is 0, whatever y is; else x y.
struct MultiplyNoNan {
  template <Inexact T>
  T operator()(T x, T y) const {
    return x == T(0) ? x : multiply(x, y);
  }
};

/// x if it is 0, else y if it is 0, whatever the other is; else x y.
struct MultiplyNoNanOfBoth {
  template <Inexact T>
  T operator()(T x, T y) const {
    return y == T(0) ? y : MultiplyNoNan()(x, y);
  }
};

/// x if it is 0, whatever y is; else x / y.
struct DivideNoNan {
  template <Inexact T>
  T operator()(T x, T y) const {
    return x == T(0) ? x : divide(x, y);
  }
};

struct Remainder {
  template <class T>
  requires(Integer<T> || RealNumber<T>) T operator()(T x, T y) const {
    if constexpr (Integer<T>) {
      if (y == 0) return x;
      return y == -1 ? T{0} : static_cast<T>(x % y);
    } else {
      return std::fmod(x, y);
    }
  }
};

/// NaN if either operand is NaN.
struct Maximum {
  template <class T>
  requires(!ComplexNumber<T>) T operator()(T x, T y) const {
    if constexpr (RealNumber<T>) {
      return x > y || x != x ? x : y;
    } else {
      return x > y ? x : y;
    }
  }
};
struct Minimum {
  template <class T>
  requires(!ComplexNumber<T>) T operator()(T x, T y) const {
    if constexpr (RealNumber<T>) {
      return x < y || x != x ? x : y;
    } else {
      return x < y ? x : y;
    }
  }
};

struct And {
  template <class T>
  requires(Boolean<T> || Integer<T>) T operator()(T x, T y) const { return static_cast<T>(x & y); }
};
struct Or {
  template <class T>
  requires(Boolean<T> || Integer<T>) T operator()(T x, T y) const { return static_cast<T>(x | y); }
};
struct Xor {
  template <class T>
  requires(Boolean<T> || Integer<T>) T operator()(T x, T y) const { return static_cast<T>(x ^ y); }
};

/// As convert_element_type; to bool: is x other than 0?
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (Boolean<To>) {
    return x != From(0);
  } else if constexpr (ComplexNumber<To>) {
    using Part = typename To::value_type;
    if constexpr (ComplexNumber<From>) {
      return To(static_cast<Part>(x.real()), static_cast<Part>(x.imag()));
    } else {
      return To(static_cast<Part>(x), Part{0});
    }
  } else if constexpr (RealNumber<From> && Integer<To>) {
    return detail::truncated<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace tidu::cpu_detail
