// slopes.cpp - see slopes.hpp.
#include "primitives/slopes.hpp"

#include <numbers>

namespace tidu::prim {
namespace {

// e^-|x|, which neither overflows nor, where the slope is a number, underflows
Value decay(Value x) { return ops::exp(-ops::abs(x)); }

// e^(-x²), with the rounding error of x² put back: x² is `square` + `rest`, both exact, by Dekker's product
// ("A floating-point technique for extending the available precision", 1971). Beyond `end` the power is 0.
Value power_of_minus_square(Value x) {
  const bool is_f64 = x.dtype() == DType::f64;
  const double end = is_f64 ? 28.0 : 11.0, splitter = is_f64 ? 0x1p27 + 1.0 : 0x1p12 + 1.0;
  const Value near = bounded(x, end);
  const Value moved = near * like(x, splitter);
  const Value above = moved - near;
  const Value high = moved - above, low = near - high;
  const Value square = ops::square(near);
  const Value twice = high + high;
  const Value of_high = ops::square(high) - square, mixed = twice * low;
  const Value all_but_low = of_high + mixed;
  const Value rest = all_but_low + ops::square(low);
  const Value correction = like(x, 1.0) - rest;
  return ops::exp(-square) * correction;
}

// (1 - x) (1 + x), which is exact next to 1 and -1
Value one_minus_square(Value x) {
  const Value one = like(x, 1.0), below = one - x;
  return below * (one + x);
}

}  // namespace

Value bounded(Value x, double bound) {
  const Value least = like(x, -bound);
  return ops::clamp(least, x, like(x, bound));
}

Value slope_of_asin(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of asin", x, [](Value v) { return ops::rsqrt(one_minus_square(v)); },
      [](Value v, Value slope) { return product(v * slope, slope, slope); });
}

// 1/x² is the same to the last place beyond 2^30, and replaces the formula that might overflow there.
Value slope_of_atan(Value x) {
  return with_derivative(
      "slope of atan", x,
      [](Value v) {
        const double far = 0x1p30;
        const Value size = ops::abs(v), is_far = ops::gt(size, like(v, far));
        const Value squared = ops::square(bounded(v, far)), one = like(v, 1.0);
        const Value inverse = ops::square(ops::reciprocal(v));
        return ops::select_n(is_far, ops::reciprocal(one + squared), inverse);
      },
      [](Value v, Value slope) {
        const Value minus_two = like(v, -2.0);
        return product(v * slope, slope, minus_two);
      });
}

// (1/s) / sqrt((1/s)² + (x/s)²) with s the greater of 1 and |x|
Value slope_of_asinh(Value x) {
  return with_derivative(
      "slope of asinh", x,
      [](Value v) {
        const Value size = ops::abs(v);
        const Value scale = ops::reciprocal(ops::max(size, like(v, 1.0)));
        const Value squared = ops::square(scale);
        return scale * ops::rsqrt(squared + ops::square(v * scale));
      },
      [](Value v, Value slope) { return -product(v * slope, slope, slope); });
}

// Separate roots, for a large x, whose square would overflow.
Value slope_of_acosh(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of acosh", x,
      [](Value v) {
        const Value one = like(v, 1.0);
        const Value root = ops::rsqrt(v - one);
        return root * ops::rsqrt(v + one);
      },
      [](Value v, Value) {  // of the roots a and b: -(a / 2 (x - 1)) b - a (b / 2 (x + 1))
        const Value one = like(v, 1.0), minus_half = like(v, -0.5);
        const Value below = v - one, above = v + one;
        const Value a = ops::rsqrt(below), b = ops::rsqrt(above);
        const Value from_a = minus_half * a, from_b = minus_half * b;
        const Value first = (from_a / below) * b;
        return first + a * (from_b / above);
      });
}

Value slope_of_atanh(Value x) {
  return with_derivative<Slope::unbounded>(
      "slope of atanh", x, [](Value v) { return ops::reciprocal(one_minus_square(v)); },
      [](Value v, Value slope) { return product(v + v, slope, slope); });
}

// e^-2|x| (1 + |z|)²
Value slope_of_tanh(Value x, Value z) {
  return with_derivative(
      "slope of tanh", x, z,
      [](Value v, Value result) {
        const Value size = ops::abs(v), one = like(v, 1.0);
        const Value power = ops::exp(like(v, -2.0) * size);
        return power * ops::square(one + ops::abs(result));
      },
      [](Value, Value result, Value slope) { return (like(slope, -2.0) * result) * slope; });
}

// e^-|x| times the square of the logistic function of |x|
Value slope_of_logistic(Value x, Value z) {
  return with_derivative(
      "slope of logistic", x, z,
      [](Value v, Value result) {
        const Value negative = ops::lt(v, like(v, 0.0));
        const Value of_size = ops::select_n(negative, result, like(v, 1.0) - result);
        const Value squared = ops::square(of_size);
        return decay(v) * squared;
      },
      [](Value v, Value, Value slope) { return -(ops::tanh(like(v, 0.5) * v) * slope); });
}

Value slope_of_erf(Value x) {
  return with_derivative(
      "slope of erf", x,
      [](Value v) {
        const Value factor = like(v, 2.0 * std::numbers::inv_sqrtpi);
        return factor * power_of_minus_square(v);
      },
      [](Value v, Value slope) {
        const Value near = bounded(v, 40.0);  // an infinity times 0 would be NaN
        return (like(v, -2.0) * near) * slope;
      });
}

Value slope_of_erf_inv(Value x, Value z) {
  return with_derivative<Slope::unbounded>(
      "slope of erf_inv", x, z,
      [](Value, Value result) {
        const Value power = ops::exp(ops::square(result));
        return like(power, 0.5 / std::numbers::inv_sqrtpi) * power;
      },
      [](Value, Value result, Value slope) { return product(result + result, slope, slope); });
}

Value slope_of_reciprocal(Value x, Value z) {
  return with_derivative<Slope::unbounded>(
      "slope of reciprocal", x, z, [](Value, Value result) { return -ops::square(result); },
      [](Value, Value result, Value slope) { return -(slope * (result + result)); });
}

namespace {

Value is_finite_and_nonzero(Value x) {
  const Value finite = is_finite_number(x);
  return ops::logical_and(finite, ops::ne(x, like(x, 0.0)));
}

// factor x^(y-1). The difference y - 1 is exact where y is 1/2 or more. Below, its error times ln x would be
// that of the power, some 100 units in the last place, so the power is x^y / x there. If y < 0 that is the
// product of two halves, since x^y may be subnormal where x^y / x times a factor is not. Where x is 0,
// infinite or NaN the power is x^(y-1), and x where y is 0.
Value scaled_power_below(Value x, Value y, Value factor) {
  const Value zero = like(y, 0.0), one = like(y, 1.0);
  const Value ordinary = is_finite_and_nonzero(x);
  const Value part = real_part(y);
  const Value by_quotient = ops::logical_and(ordinary, ops::lt(part, like(part, 0.5)));
  const Value by_halves = ops::logical_and(by_quotient, ops::lt(part, like(part, 0.0)));
  const Value is_zero = ops::eq(y, zero), whole = ops::select_n(is_zero, y - one, one);
  const Value divided = ops::select_n(by_halves, y, like(y, 0.5) * y);
  const Value power = ops::pow(x, ops::select_n(by_quotient, whole, divided));
  const Value divisor = ops::select_n(by_quotient, one, x);
  const Value quotient = ops::multiply_no_nan(factor, power) / divisor;
  return ops::multiply_no_nan(quotient, ops::select_n(by_halves, one, power));
}

// y (y - 1) x^(y-2), of the slope y x^(y-1): the difference y - 2 is exact where y is 1 or more.
Value second_slope_of_pow(Value x, Value y, Value slope) {
  const Value one = like(y, 1.0), part = real_part(y), below = y - one;
  const Value ordinary = is_finite_and_nonzero(x);
  const Value by_quotient = ops::logical_and(ordinary, ops::lt(part, like(part, 1.0)));
  const Value divisor = ops::select_n(by_quotient, one, x);
  const Value quotient = ops::multiply_no_nan(slope, below) / divisor;
  const Value factor = y * below, is_zero = ops::eq(factor, like(y, 0.0));
  const Value power = ops::pow(x, ops::select_n(is_zero, below - one, one));
  return ops::select_n(by_quotient, ops::multiply_no_nan(factor, power), quotient);
}

}  // namespace

Value slope_of_pow(Value x, Value y) {
  return differentiated(
      "slope of pow", std::array{x, y},
      [](const Values& v) { return Values{scaled_power_below(v[0], v[1], v[1])}; },
      [](const Values& v, const Values& slope, const Values& dv) {
        const Value one = like(v[1], 1.0), is_zero = ops::eq(v[0], like(v[0], 0.0));
        const Value growth = one + v[1] * ops::log(ops::select_n(is_zero, v[0], one));
        const Value by_y = scaled_power_below(v[0], v[1], growth);
        const Value from_x = ops::multiply_no_nan(dv[0], second_slope_of_pow(v[0], v[1], slope[0]));
        return Values{from_x + ops::multiply_no_nan(dv[1], by_y)};
      })[0];
}

}  // namespace tidu::prim
