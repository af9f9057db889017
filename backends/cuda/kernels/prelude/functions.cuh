// functions.cuh - the prelude's second part, which every kernel has: functions of integers and real numbers
// with the semantics of the standard primitives, conversions, random bits.

#ifdef __CUDACC__
#define INFINITE(R) ((R)__longlong_as_double(0x7ff0000000000000ll))
#define NOT_A_NUMBER(R) ((R)__longlong_as_double(0x7ff8000000000000ll))
FN float rsqrt_of(float x) { return rsqrtf(x); }
FN double rsqrt_of(double x) { return rsqrt(x); }
// Products that are not fused with a sum, however the kernel is compiled.
FN float product(float x, float y) { return __fmul_rn(x, y); }
FN double product(double x, double y) { return __dmul_rn(x, y); }
FN void sin_cos(float x, float& s, float& c) { ::sincosf(x, &s, &c); }
FN void sin_cos(double x, double& s, double& c) { ::sincos(x, &s, &c); }
#else
#define INFINITE(R) ((R)HUGE_VAL)
#define NOT_A_NUMBER(R) ((R)NAN)
FN float rsqrt_of(float x) { return 1 / sqrtf(x); }
FN double rsqrt_of(double x) { return 1 / ::sqrt(x); }
FN float product(float x, float y) { return x * y; }
FN double product(double x, double y) { return x * y; }
FN void sin_cos(float x, float& s, float& c) {
  s = ::sinf(x);
  c = ::cosf(x);
}
FN void sin_cos(double x, double& s, double& c) {
  s = ::sin(x);
  c = ::cos(x);
}
#endif

// Both widths of a function of the C library.
#define BOTH(name, single, wide)               \
  FN float name(float x) { return single(x); } \
  FN double name(double x) { return wide(x); }
#define BOTH2(name, single, wide)                          \
  FN float name(float x, float y) { return single(x, y); } \
  FN double name(double x, double y) { return wide(x, y); }

template <class T>
struct is_whole {
  static const bool yes = false;
};
template <>
struct is_whole<i32> {
  static const bool yes = true;
  typedef u32 wrapping;
};
template <>
struct is_whole<i64> {
  static const bool yes = true;
  typedef u64 wrapping;
};
template <class T>
struct is_complex {
  static const bool yes = false;
};
template <class T>
struct part_of {
  typedef T type;
};

template <class T>
struct limits;
template <>
struct limits<bool> {
  FN bool lowest() { return false; }
  FN bool highest() { return true; }
};
template <>
struct limits<i32> {
  FN i32 lowest() { return -2147483647 - 1; }
  FN i32 highest() { return 2147483647; }
};
template <>
struct limits<i64> {
  FN i64 lowest() { return -9223372036854775807ll - 1; }
  FN i64 highest() { return 9223372036854775807ll; }
};
template <>
struct limits<float> {
  FN float lowest() { return -INFINITE(float); }
  FN float highest() { return INFINITE(float); }
};
template <>
struct limits<double> {
  FN double lowest() { return -INFINITE(double); }
  FN double highest() { return INFINITE(double); }
};

namespace op {
BOTH(floor, ::floorf, ::floor)
BOTH(ceil, ::ceilf, ::ceil)
BOTH(round_even, ::rintf, ::rint)
BOTH(round_away, ::roundf, ::round)
BOTH(exp, ::expf, ::exp)
BOTH(exp2, ::exp2f, ::exp2)
BOTH(expm1, ::expm1f, ::expm1)
BOTH(log, ::logf, ::log)
BOTH(log1p, ::log1pf, ::log1p)
BOTH(sqrt, ::sqrtf, ::sqrt)
BOTH(rsqrt, rsqrt_of, rsqrt_of)
BOTH(cbrt, ::cbrtf, ::cbrt)
BOTH(sin, ::sinf, ::sin)
BOTH(cos, ::cosf, ::cos)
BOTH(tan, ::tanf, ::tan)
BOTH(asin, ::asinf, ::asin)
BOTH(acos, ::acosf, ::acos)
BOTH(atan, ::atanf, ::atan)
BOTH(sinh, ::sinhf, ::sinh)
BOTH(cosh, ::coshf, ::cosh)
BOTH(tanh, ::tanhf, ::tanh)
BOTH(asinh, ::asinhf, ::asinh)
BOTH(acosh, ::acoshf, ::acosh)
BOTH(atanh, ::atanhf, ::atanh)
BOTH(erf, ::erff, ::erf)
BOTH(erfc, ::erfcf, ::erfc)
BOTH(magnitude, ::fabsf, ::fabs)
BOTH2(power, ::powf, ::pow)
BOTH2(atan2, ::atan2f, ::atan2)
BOTH2(remainder, ::fmodf, ::fmod)
BOTH2(hypot, ::hypotf, ::hypot)
BOTH2(with_sign, ::copysignf, ::copysign)

template <class T>
FN T add(T x, T y) {
  if constexpr (is_whole<T>::yes) {
    typedef typename is_whole<T>::wrapping W;
    return (T)((W)x + (W)y);
  } else {
    return x + y;
  }
}
template <class T>
FN T sub(T x, T y) {
  if constexpr (is_whole<T>::yes) {
    typedef typename is_whole<T>::wrapping W;
    return (T)((W)x - (W)y);
  } else {
    return x - y;
  }
}
template <class T>
FN T mul(T x, T y) {
  if constexpr (is_whole<T>::yes) {
    typedef typename is_whole<T>::wrapping W;
    return (T)((W)x * (W)y);
  } else {
    return x * y;
  }
}
// sum + x y, rounded once where that is an instruction.
FN float add_product(float sum, float x, float y) { return ::fmaf(x, y, sum); }
FN double add_product(double sum, double x, double y) { return ::fma(x, y, sum); }
template <class T>
FN T add_product(T sum, T x, T y) {
  return add(sum, mul(x, y));
}
template <class T>
FN T div(T x, T y) {
  if constexpr (is_whole<T>::yes) {
    if (y == 0) return (T)-1;
    return y == -1 ? sub((T)0, x) : (T)(x / y);
  } else {
    return x / y;
  }
}
template <class T>
FN bool is_zero(T x) {
  if constexpr (is_complex<T>::yes) {
    return x.re == 0 && x.im == 0;
  } else {
    return x == 0;
  }
}
template <class T>
FN T multiply_no_nan(T x, T y) {
  return is_zero(x) ? x : mul(x, y);
}
template <class T>
FN T multiply_no_nan_of_both(T x, T y) {
  return is_zero(y) ? y : multiply_no_nan(x, y);
}
template <class T>
FN T divide_no_nan(T x, T y) {
  return is_zero(x) ? x : div(x, y);
}
template <class T>
FN T rem(T x, T y) {
  if constexpr (is_whole<T>::yes) {
    if (y == 0) return x;
    return y == -1 ? (T)0 : (T)(x % y);
  } else {
    return remainder(x, y);
  }
}
template <class T>
FN T neg(T x) {
  if constexpr (is_whole<T>::yes) {
    return sub((T)0, x);
  } else {
    return -x;
  }
}
template <class T>
FN auto abs(T x) {
  if constexpr (is_whole<T>::yes) {
    return x < 0 ? neg(x) : x;
  } else {
    return magnitude(x);
  }
}
template <class T>
FN T sign(T x) {
  if constexpr (is_whole<T>::yes) {
    return (T)((x > 0) - (x < 0));
  } else {
    return x > 0 ? (T)1 : x < 0 ? (T)-1 : x;
  }
}
template <class T>
FN T square(T x) {
  return mul(x, x);
}
template <class T>
FN T reciprocal(T x) {
  return (T)1 / x;
}
template <class T>
FN T pow(T x, T y) {
  return power(x, y);
}
// Of NaN the value is NaN.
template <class T>
FN T max(T x, T y) {
  return x != x || x > y ? x : y;
}
template <class T>
FN T min(T x, T y) {
  return x != x || x < y ? x : y;
}
FN bool max(bool x, bool y) { return x || y; }
FN bool min(bool x, bool y) { return x && y; }
template <class T>
FN T clamp(T low, T x, T high) {
  return min(max(x, low), high);
}
FN bool not_of(bool x) { return !x; }
template <class T>
FN T not_of(T x) {
  return (T)~x;
}
FN bool and_of(bool x, bool y) { return x && y; }
template <class T>
FN T and_of(T x, T y) {
  return (T)(x & y);
}
FN bool or_of(bool x, bool y) { return x || y; }
template <class T>
FN T or_of(T x, T y) {
  return (T)(x | y);
}
FN bool xor_of(bool x, bool y) { return x != y; }
template <class T>
FN T xor_of(T x, T y) {
  return (T)(x ^ y);
}
template <class T>
FN bool eq(T x, T y) {
  return x == y;
}
template <class T>
FN bool ne(T x, T y) {
  return x != y;
}
template <class T>
FN bool lt(T x, T y) {
  return x < y;
}
template <class T>
FN bool le(T x, T y) {
  return x <= y;
}
template <class T>
FN bool gt(T x, T y) {
  return x > y;
}
template <class T>
FN bool ge(T x, T y) {
  return x >= y;
}
FN bool is_finite(float x) { return (float_bits(x) & 0x7f800000u) != 0x7f800000u; }
FN bool is_finite(double x) { return (double_bits(x) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull; }
template <class T>
FN T logistic(T x) {
  const T e = exp(-magnitude(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}
template <class T>
FN T real(T x) {
  return x;
}
template <class T>
FN T imag(T) {
  return (T)0;
}
template <class T>
FN T conj(T x) {
  return x;
}

// x^n, n > 0, by squaring.
template <class T>
FN T power_of(T x, u64 n) {
  T y = x;
  bool any = false;
  for (; n != 0; n >>= 1, x = mul(x, x)) {
    if ((n & 1u) != 0) {
      y = any ? mul(y, x) : x;
      any = true;
    }
  }
  return y;
}
// x^-n, n > 0, as the square of 1/x^(n/2): x^n may overflow where 1/x^n is subnormal.
template <class T>
FN T inverse_power_of(T one, T x, u64 n) {
  if (n == 1) return one / x;
  const T half = one / power_of(x, n / 2), even = mul(half, half);
  if ((n & 1u) == 0) return even;
  return n == 3 ? mul(even, half) : even / x;
}
template <class T>
FN T integer_pow(T x, i64 y) {
  if (y == 0) return (T)1;
  if constexpr (is_whole<T>::yes) {
    return power_of(x, y < 0 ? 0 - (u64)y : (u64)y);
  } else {
    if (y > 0 && y <= 8) return power_of(x, (u64)y);
    if (y < 0 && y >= -3) return inverse_power_of((T)1, x, (u64)-y);
    if (y > -16777216 && y < 16777216) return power(x, (T)y);
    const T size = (T)power((double)magnitude(x), (double)y);  // T may round y to an even number
    return (y & 1) != 0 ? with_sign(size, x) : size;
  }
}

// The number after x towards y among those with the bits of U, sign bit first and magnitudes in order.
template <class U>
FN U next_bits(U x, U y, bool equal) {
  const U sign = (U)((U)1 << (8 * sizeof(U) - 1)), rest = (U)(sign - 1);
  if (equal) return y;
  if ((U)(x & rest) == 0) return (U)((y & sign) | 1u);
  const bool grows = ((x ^ y) & sign) == 0 && (U)(y & rest) > (U)(x & rest);
  return (U)(grows ? x + 1u : x - 1u);
}
template <class M, class T>
FN T nextafter(T x, T y) {
  if (x != x) return x;
  if (y != y) return y;
  if constexpr (sizeof(M) == 2) {
    M a, b;
    store(a, x);
    store(b, y);
    a.bits = next_bits(a.bits, b.bits, x == y);
    return value(a);
  } else if constexpr (sizeof(M) == 4) {
    return bits_float(next_bits(float_bits(x), float_bits(y), x == y));
  } else {
    return bits_double(next_bits(double_bits(x), double_bits(y), x == y));
  }
}

// To a real, integer or bool; complex ones are in a part of their own.
template <class To, class From>
struct conversion {
  FN To of(From x) {
    if constexpr (is_whole<To>::yes && !is_whole<From>::yes && sizeof(From) >= 4) {
      const From limit = sizeof(To) == 4 ? (From)2147483648.0 : (From)9223372036854775808.0;
      if (x >= limit) return limits<To>::highest();
      if (x < -limit) return limits<To>::lowest();
      return x == x ? (To)x : (To)0;
    } else {
      return (To)x;
    }
  }
};
template <class From>
struct conversion<bool, From> {
  FN bool of(From x) { return x != (From)0; }
};
template <class To, class From>
FN To convert(From x) {
  return conversion<To, From>::of(x);
}
// To the f32 that a 16-bit number is rounded from, once in all: rounded to odd.
FN float narrow(double x) {
  const float nearest = (float)x;
  if ((double)nearest == x || x != x) return nearest;
  const u32 bits = float_bits(nearest);
  return bits_float((fabs((double)nearest) > fabs(x) ? bits - 1u : bits) | 1u);
}
FN float narrow(i64 x) {
  u64 size = x < 0 ? 0u - (u64)x : (u64)x;
  if (size >= 1ull << 53) size = (size & ~0x7ffull) | ((size & 0x7ffull) != 0 ? 0x800ull : 0ull);
  return narrow(x < 0 ? -(double)size : (double)size);
}
FN float narrow(i32 x) { return narrow((double)x); }
FN float narrow(float x) { return x; }
FN float narrow(bool x) { return x ? 1.0f : 0.0f; }

// Threefry-2x32 on one counter.
FN u32 rotated(u32 x, u32 by) { return (x << by) | (x >> (32 - by)); }
FN u64 threefry(u32 k0, u32 k1, u64 counter) {
  const u32 schedule[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  const u32 rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  u32 x = (u32)(counter >> 32) + k0, y = (u32)counter + k1;
#pragma unroll
  for (u32 group = 1; group <= 5; ++group) {
#pragma unroll
    for (u32 j = 0; j < 4; ++j) {
      x += y;
      y = rotated(y, rotations[(group - 1) % 2][j]) ^ x;
    }
    x += schedule[group % 3];
    y += schedule[(group + 1) % 3] + group;
  }
  return (u64)x << 32 | y;
}
}  // namespace op
