// slopes_complex.cpp - first derivatives of elementary functions of one complex number: see slopes.hpp. The
// formulas are products of factors that are exact next to a pole or a zero; 1 - z² or 1 + z² would cancel
// there, and overflow far away. W. Kahan, "Branch cuts for complex elementary functions" (1987), has these
// factors.
#include "primitives/slopes.hpp"

namespace tidu::prim {
namespace {

// 1 + i x and 1 - i x by their parts, since the sign of a part that is 0 says on which side of a cut x lies
Value one_plus_i(Value x) {
  const Value imaginary = ops::imag(x), one = like(imaginary, 1.0), real = one - imaginary;
  return ops::complex(real, ops::real(x));
}
Value one_minus_i(Value x) {
  const Value imaginary = ops::imag(x), one = like(imaginary, 1.0), real = one + imaginary;
  return ops::complex(real, -ops::real(x));
}
// x + 1 and 1 - x, likewise
Value one_plus(Value x) {
  const Value turned = -x, below = turned - like(x, 1.0);
  return -below;
}
Value one_minus(Value x) {
  const Value below = x - like(x, 1.0);
  return -below;
}

using Factor = Value (*)(Value);
Value product_of_roots(Value x, Factor a, Factor b) {
  const Value root = ops::rsqrt(a(x));
  return ops::multiply_no_nan(root, ops::rsqrt(b(x)));
}
Value product_of_reciprocals(Value x, Factor a, Factor b) {
  const Value one = ops::reciprocal(a(x));
  return ops::multiply_no_nan(one, ops::reciprocal(b(x)));
}
// 1 / x²
Value inverse_square(Value x) { return ops::square(ops::reciprocal(x)); }

}  // namespace

Value complex_slope_of_asin(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of asin", x, [](Value v) { return product_of_roots(v, one_minus, one_plus); },
      [](Value v, Value slope) { return product(v * slope, slope, slope); });
}

Value complex_slope_of_asinh(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of asinh", x, [](Value v) { return product_of_roots(v, one_minus_i, one_plus_i); },
      [](Value v, Value slope) { return -product(v * slope, slope, slope); });
}

Value complex_slope_of_acosh(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of acosh", x,
      [](Value v) {
        return product_of_roots(
            v, [](Value w) { return w - like(w, 1.0); }, one_plus);
      },
      [](Value v, Value slope) { return -product(v * slope, slope, slope); });
}

Value complex_slope_of_atan(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of atan", x, [](Value v) { return product_of_reciprocals(v, one_minus_i, one_plus_i); },
      [](Value v, Value slope) {
        const Value minus_two = like(slope, -2.0);
        return product(v * slope, slope, minus_two);
      });
}

Value complex_slope_of_atanh(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of atanh", x, [](Value v) { return product_of_reciprocals(v, one_minus, one_plus); },
      [](Value v, Value slope) {
        const Value two = like(slope, 2.0);
        return product(v * slope, slope, two);
      });
}

Value complex_slope_of_tan(Value x, Value z) {
  return with_derivative(
      "slope of tan", x, z, [](Value v, Value) { return inverse_square(ops::cos(v)); },
      [](Value, Value result, Value slope) { return (result + result) * slope; });
}

Value complex_slope_of_tanh(Value x, Value z) {
  return with_derivative(
      "slope of tanh", x, z, [](Value v, Value) { return inverse_square(ops::cosh(v)); },
      [](Value, Value result, Value slope) { return -((result + result) * slope); });
}

Value complex_slope_of_logistic(Value x) {
  return with_derivative(
      "slope of logistic", x,
      [](Value v) {
        const Value half = like(v, 0.5) * v, power = ops::cosh(half);
        return inverse_square(power + power);
      },
      [](Value v, Value slope) { return -(ops::tanh(like(v, 0.5) * v) * slope); });
}

}  // namespace tidu::prim
