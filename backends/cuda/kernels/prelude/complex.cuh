// complex.cuh - the prelude's complex numbers: arithmetic with the non-finite values that C's annex G asks
// for in quotients, elementary functions by W. Kahan's formulas ("Branch cuts for complex elementary
// functions", 1987).

template <class R>
struct alignas(2 * sizeof(R)) complex_of {
  R re, im;
};
typedef complex_of<float> c64;
typedef complex_of<double> c128;
template <class R>
struct is_complex<complex_of<R>> {
  static const bool yes = true;
};
template <class R>
struct part_of<complex_of<R>> {
  typedef R type;
};

#define C complex_of<R>
template <class R>
FN bool operator==(C x, C y) {
  return x.re == y.re && x.im == y.im;
}
template <class R>
FN bool operator!=(C x, C y) {
  return !(x == y);
}
template <class R>
FN C operator-(C x) {
  return {-x.re, -x.im};
}
template <class R>
FN C operator+(C x, C y) {
  return {x.re + y.re, x.im + y.im};
}
template <class R>
FN C operator-(C x, C y) {
  return {x.re - y.re, x.im - y.im};
}
template <class R>
FN C operator*(C x, C y) {
  return {product(x.re, y.re) - product(x.im, y.im), product(x.re, y.im) + product(x.im, y.re)};
}

namespace complex_part {
FN int exponent_of(float x) { return ilogbf(x); }
FN int exponent_of(double x) { return ilogb(x); }
FN float scaled(float x, int by) { return scalbnf(x, by); }
FN double scaled(double x, int by) { return scalbn(x, by); }
template <class R>
FN bool infinite(R x) {
  return op::magnitude(x) == INFINITE(R);
}
template <class R>
FN bool finite(R x) {
  return op::is_finite(x);
}
}  // namespace complex_part

// x / y = x conj(y) / |y|^2, y scaled by a power of two, and x at the ends of the range.
template <class R>
FN C operator/(C x, C y) {
  using namespace complex_part;
  const R greatest = op::max(op::magnitude(y.re), op::magnitude(y.im));
  int by = 0;
  R a = x.re, b = x.im, c = y.re, d = y.im;
  if (greatest > 0 && finite(greatest)) {
    by = -exponent_of(greatest);
    c = scaled(c, by);
    d = scaled(d, by);
  }
  const R greatest_of_x = op::max(op::magnitude(a), op::magnitude(b));
  const int digits = sizeof(R) == 8 ? 53 : 24, top = sizeof(R) == 8 ? 1023 : 127;
  if (greatest_of_x > 0 && finite(greatest_of_x)) {
    const int exponent = exponent_of(greatest_of_x);
    const int of_x = exponent > top - 4 ? -4 : exponent < 2 * digits - top ? 2 * digits : 0;
    a = scaled(a, of_x);
    b = scaled(b, of_x);
    by -= of_x;
  }
  const R norm = product(c, c) + product(d, d);
  R re = scaled((product(a, c) + product(b, d)) / norm, by);
  R im = scaled((product(b, c) - product(a, d)) / norm, by);
  if (re != re && im != im) {
    if (norm == 0 && (a == a || b == b)) {
      re = op::with_sign(INFINITE(R), c) * a;
      im = op::with_sign(INFINITE(R), c) * b;
    } else if ((infinite(a) || infinite(b)) && finite(c) && finite(d)) {
      a = op::with_sign((R)(infinite(a) ? 1 : 0), a);
      b = op::with_sign((R)(infinite(b) ? 1 : 0), b);
      re = INFINITE(R) * (a * c + b * d);
      im = INFINITE(R) * (b * c - a * d);
    } else if ((infinite(c) || infinite(d)) && finite(a) && finite(b)) {
      c = op::with_sign((R)(infinite(c) ? 1 : 0), c);
      d = op::with_sign((R)(infinite(d) ? 1 : 0), d);
      re = (R)0 * (a * c + b * d);
      im = (R)0 * (b * c - a * d);
    }
  }
  return {re, im};
}

namespace op {
template <class R>
FN C complex(R re, R im) {
  return {re, im};
}
template <class R>
FN R real(C x) {
  return x.re;
}
template <class R>
FN R imag(C x) {
  return x.im;
}
template <class R>
FN C conj(C x) {
  return {x.re, -x.im};
}
template <class R>
FN R magnitude(C x) {
  return hypot(x.re, x.im);
}
template <class R>
FN R abs(C x) {
  return magnitude(x);
}
template <class R>
FN C reciprocal(C x) {
  return C{(R)1, (R)0} / x;
}
template <class R>
FN C scale(C x, R by) {
  return {x.re * by, x.im * by};
}
template <class R>
FN C times_i(C x) {
  return {-x.im, x.re};
}
template <class R>
FN C over_i(C x) {
  return {x.im, -x.re};
}
template <class R>
FN C sign(C x) {
  if (x.re == 0 && x.im == 0) return {(R)0, (R)0};
  const R most = max(magnitude(x.re), magnitude(x.im));
  if (is_finite(most)) x = {x.re / most, x.im / most};
  const R size = magnitude(x);
  return {x.re / size, x.im / size};
}
template <class R>
FN C exp(C x) {
  const R size = exp(x.re);
  if (x.im == 0) return {size, x.im};
  return {size * cos(x.im), size * sin(x.im)};
}
// 2^a (cos(b log 2) + i sin(b log 2)), b log 2 as the sum of two numbers; 2^a may overflow where the products
// do not.
template <class R>
FN C exp2(C x) {
  if (x.im == 0) return {exp2(x.re), x.im};
  const double log2 = 0.69314718055994528623, log2_rest = 2.319046813846299558e-17;
  const double a = x.re, b = x.im, p = b * log2, e = ::fma(b, log2_rest, ::fma(b, log2, -p));
  const double back = a > 1000 && a < 1164 ? 18446744073709551616.0 : 1.0;  // 2^64
  const double size = exp2(back > 1 ? a - 64 : a);
  double s, c, sin_e, cos_e;
  sin_cos(p, s, c);
  sin_cos(e, sin_e, cos_e);
  const double re = size * (c * cos_e - s * sin_e) * back, im = size * (s * cos_e + c * sin_e) * back;
  return complex_part::infinite(x.im) && a < 0 && size == 0 ? C{(R)0, (R)0} : C{(R)re, (R)im};
}
// expm1(a) cos b - 2 sin^2(b/2) + i e^a sin b
template <class R>
FN C expm1(C x) {
  if (x.im == 0) return {expm1(x.re), x.im};
  const R half = sin(x.im / 2);
  return {expm1(x.re) * cos(x.im) - 2 * half * half, exp(x.re) * sin(x.im)};
}
// log |x|, near the unit circle by log1p((|x| - 1) (|x| + 1)) / 2
template <class R>
FN R log_magnitude(C x) {
  const R a = max(magnitude(x.re), magnitude(x.im)), b = min(magnitude(x.re), magnitude(x.im));
  if (a > (R)0.5 && a < (R)2) return log1p((a - 1) * (a + 1) + b * b) / 2;
  if (a < (R)1e-30) {  // 2^60 as large, since subnormal numbers have few digits
    const R up = (R)1152921504606846976.0;
    return log(hypot(a * up, b * up)) - (R)41.58883083359671856503;
  }
  if (a > (R)1e37) return log(hypot(a / 2, b / 2)) + (R)0.69314718055994530942;  // hypot might overflow
  return log(hypot(a, b));
}
template <class R>
FN C log(C x) {
  return {log_magnitude(x), atan2(x.im, x.re)};
}
template <class R>
FN C log1p(C x) {
  if (magnitude(x.re) > (R)0.5 || magnitude(x.im) > (R)0.5) return log(C{1 + x.re, x.im});
  return {log1p(x.re * (2 + x.re) + x.im * x.im) / 2, atan2(x.im, 1 + x.re)};
}
template <class R>
FN C sqrt(C x) {
  if (complex_part::infinite(x.im)) return {INFINITE(R), x.im};
  const R a = magnitude(x.re), b = magnitude(x.im);
  if (a == 0 && b == 0) return {(R)0, x.im};
  R w;
  if (complex_part::infinite(a)) {
    w = a;
  } else if (a > (R)1e37 || b > (R)1e37) {
    w = 2 * sqrt((a / 4 + hypot(a / 4, b / 4)) / 2);
  } else if (a < (R)1e-30 && b < (R)1e-30) {
    const R up = (R)1152921504606846976.0;  // 2^60
    w = sqrt((a * up + hypot(a * up, b * up)) / 2) / (R)1073741824.0;
  } else {
    w = sqrt((a + hypot(a, b)) / 2);
  }
  const R other = complex_part::infinite(a) ? (R)0 : b / (2 * w);
  return x.re >= 0 ? C{w, with_sign(other, x.im)} : C{other, with_sign(w, x.im)};
}
template <class R>
FN C rsqrt(C x) {
  return reciprocal(sqrt(x));
}
template <class R>
FN C sinh(C x) {
  if (x.im == 0) return {sinh(x.re), x.im};
  if (x.re == 0 && !is_finite(x.im)) return {x.re, sin(x.im)};
  return {sinh(x.re) * cos(x.im), cosh(x.re) * sin(x.im)};
}
template <class R>
FN C cosh(C x) {
  if (x.im == 0) return {cosh(x.re), with_sign((R)1, x.re) * x.im};
  if (x.re == 0 && !is_finite(x.im)) return {cos(x.im), x.re};
  return {cosh(x.re) * cos(x.im), sinh(x.re) * sin(x.im)};
}
// tanh x = (1 + t^2) s c / (1 + s^2 + ...), in a form that does not overflow: with t = tan b, s = sinh a,
// k = cosh a, (k s (1 + t^2) + i t) / (1 + s^2 (1 + t^2))
template <class R>
FN C tanh(C x) {
  if (magnitude(x.re) > (R)20)
    return {with_sign((R)1, x.re), 4 * sin(x.im) * cos(x.im) * exp(-2 * magnitude(x.re))};
  const R t = tan(x.im), s = sinh(x.re), k = cosh(x.re), beta = 1 + t * t;
  if (!is_finite(beta)) return {k / s, 1 / t};
  const R under = 1 + beta * s * s;
  return {beta * k * s / under, t / under};
}
template <class R>
FN C sin(C x) {
  return over_i(sinh(times_i(x)));
}
template <class R>
FN C cos(C x) {
  return cosh(times_i(x));
}
template <class R>
FN C tan(C x) {
  return over_i(tanh(times_i(x)));
}
// Beyond that, 1 is nothing beside x: asin x and others are log 2x and an angle, where the products of roots
// might overflow.
template <class R>
FN bool is_far(C x) {
  return magnitude(x.re) > (R)1e15 || magnitude(x.im) > (R)1e15;
}
template <class R>
FN R log_twice(C x) {
  return log_magnitude(x) + (R)0.69314718055994530942;
}
template <class R>
FN C asin(C x) {
  if (is_far(x)) return {atan2(x.re, magnitude(x.im)), with_sign(log_twice(x), x.im)};
  const C below = sqrt(C{1 - x.re, -x.im}), above = sqrt(C{1 + x.re, x.im});
  return {atan2(x.re, (below * above).re), asinh((conj(below) * above).im)};
}
template <class R>
FN C acos(C x) {
  if (is_far(x)) return {atan2(magnitude(x.im), x.re), -with_sign(log_twice(x), x.im)};
  const C below = sqrt(C{1 - x.re, -x.im}), above = sqrt(C{1 + x.re, x.im});
  return {2 * atan2(below.re, above.re), asinh((conj(above) * below).im)};
}
template <class R>
FN C acosh(C x) {
  if (is_far(x)) return {log_twice(x), atan2(x.im, x.re)};
  const C below = sqrt(C{x.re - 1, x.im}), above = sqrt(C{x.re + 1, x.im});
  return {asinh((conj(below) * above).re), 2 * atan2(below.im, above.re)};
}
template <class R>
FN C asinh(C x) {
  return over_i(asin(times_i(x)));
}
// log1p(4a / ((1 - a)^2 + b^2)) / 4 + i atan2(2b, (1 - a)(1 + a) - b^2) / 2. Next to the poles the squares
// would underflow, and 1 is nothing beside the quotient.
template <class R>
FN C atanh(C x) {
  const R a = x.re, b = x.im, distance = magnitude(1 - magnitude(a));
  if (is_far(x)) {
    const C inverse = reciprocal(x);
    return {inverse.re, with_sign((R)1.57079632679489661923, b)};
  }
  R re;
  if (distance < (R)1e-9 && magnitude(b) < (R)1e-9) {
    re = log(4 * magnitude(a)) / 4 - log_magnitude(C{distance, b}) / 2;
  } else {
    re = log1p(4 * magnitude(a) / (distance * distance + b * b)) / 4;
  }
  return {with_sign(re, a), atan2(2 * b, (1 - a) * (1 + a) - b * b) / 2};
}
template <class R>
FN C atan(C x) {
  return over_i(atanh(times_i(x)));
}
template <class R>
FN C logistic(C x) {
  if (magnitude(x.re) < (R)1) {  // 1 + e^-x would cancel next to the poles
    const C half = scale(x, (R)0.5);
    return exp(half) / scale(cosh(half), (R)2);
  }
  const C one{(R)1, (R)0}, e = exp(x.re < 0 ? x : -x);
  return x.re < 0 ? e / (one + e) : one / (one + e);
}
template <class R>
FN C pow(C x, C y) {
  if (y.re == 0 && y.im == 0) return {(R)1, (R)0};
  if (x.re == 0 && x.im == 0) return y.re > 0 ? C{(R)0, (R)0} : C{NOT_A_NUMBER(R), NOT_A_NUMBER(R)};
  return exp(y * log(x));
}
template <class R>
FN C integer_pow(C x, i64 y) {
  const C one{(R)1, (R)0};
  if (y == 0) return one;
  return y < 0 ? inverse_power_of(one, x, 0 - (u64)y) : power_of(x, (u64)y);
}
template <class R, class From>
struct conversion<C, From> {
  FN C of(From x) { return {(R)x, (R)0}; }
};
template <class R, class From>
struct conversion<C, complex_of<From>> {
  FN C of(complex_of<From> x) { return {(R)x.re, (R)x.im}; }
};
}  // namespace op
#undef C

namespace monoid {
template <class R>
struct sum<complex_of<R>> {
  FN complex_of<R> none() { return {(R)0, (R)0}; }
  __device__ complex_of<R> operator()(complex_of<R> x, complex_of<R> y) const { return x + y; }
};
template <class R>
struct prod<complex_of<R>> {
  FN complex_of<R> none() { return {(R)1, (R)0}; }
  __device__ complex_of<R> operator()(complex_of<R> x, complex_of<R> y) const { return x * y; }
};
}  // namespace monoid
