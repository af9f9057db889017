// arithmetic.hpp - arithmetic on elements with the standard set's edge cases: integers wrap, x / 0 = -1, x
// rem 0 = x.
#pragma once

#include <cmath>

#include "cpu/kernel.hpp"
#include "graph/truncated.hpp"

namespace tidu::cpu_detail {

/// The unsigned type as wide as T: arithmetic on it wraps.
template <Integer T>
using Wrapping = std::make_unsigned_t<T>;

template <class T>
T multiply(T x, T y) {
  if constexpr (Integer<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(y));
  } else if constexpr (ComplexNumber<T>) {
    // The plain formula, and the library's way of telling infinities apart only where it gives NaN.
    const T z(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
    if (z.real() == z.real() || z.imag() == z.imag()) [[likely]]
      return z;
    return x * y;
  } else {
    return x * y;
  }
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
};

struct Divide {
  template <class T>
  requires(!Boolean<T>) T operator()(T x, T y) const {
    if constexpr (Integer<T>) {
      if (y == 0) return -1;
      if (y == -1) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
      return static_cast<T>(x / y);
    } else {
      return x / y;
    }
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

/// NaN when either is NaN.
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

/// As convert_element_type: to bool, is it other than 0?
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
