// elementwise.hpp - constants, unary, complex, binary, comparison and ternary primitives of the standard set:
// their records (tidu::prim) and the functions that emit them (tidu::ops). Semantics and names are those of
// jax.lax; there is no implicit broadcasting and no implicit conversion. Every function throws Error (type)
// when the operands do not fit.
#pragma once

#include <complex>
#include <vector>

#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Without operands.
extern const Primitive constant, iota, full;
/// With one operand.
extern const Primitive neg, abs, sign, floor, ceil, round, exp, exp2, expm1, log, log1p, sqrt, rsqrt, cbrt,
    sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh, logistic, erf, erfc, erf_inv,
    lgamma, digamma, polygamma, square, reciprocal, is_finite, not_, integer_pow;
/// Complex and real parts.
extern const Primitive real, imag, complex, conj;
/// With two operands of one type.
extern const Primitive add, sub, mul, div, multiply_no_nan, divide_no_nan, pow, max, min, atan2, rem,
    nextafter, and_, or_, xor_;
/// Comparisons; the result is bool.
extern const Primitive eq, ne, lt, le, gt, ge;
/// With three operands and more.
extern const Primitive select_n, clamp;

/// The records of this header, in the order of the documentation's table.
std::vector<const Primitive*> elementwise_primitives();

}  // namespace tidu::prim

namespace tidu::ops {

/// The source location of the caller.
using Source = Where;

/// A tensor of constants.
Value constant(Emitter& emitter, const Literal& value, Where where = Source::current());
/// 0, 1, 2, … along `dimension` of a value of `type`.
Value iota(Emitter& emitter, Type type, std::int64_t dimension, Where where = Source::current());
/// `value` everywhere, converted to the dtype of `type`. The op of a value and type seen before is found
/// without a look-up of its attributes.
Value full(Emitter& emitter, Type type, double value, Where where = Source::current());
Value full(Emitter& emitter, Type type, const Literal& scalar, Where where = Source::current());
/// full of x's type, on x's emitter.
Value full_like(Value x, double value, Where where = Source::current());

/// The primitive of that name, like those that follow.
Value neg(Value x, Where where = Source::current());
Value abs(Value x, Where where = Source::current());
Value sign(Value x, Where where = Source::current());
Value floor(Value x, Where where = Source::current());
Value ceil(Value x, Where where = Source::current());
/// rounding_method: "to_nearest_even" or "away_from_zero".
Value round(Value x, std::string_view rounding_method = "to_nearest_even", Where where = Source::current());
/// The primitive of that name, like those that follow.
Value exp(Value x, Where where = Source::current());
Value exp2(Value x, Where where = Source::current());
Value expm1(Value x, Where where = Source::current());
Value log(Value x, Where where = Source::current());
Value log1p(Value x, Where where = Source::current());
Value sqrt(Value x, Where where = Source::current());
Value rsqrt(Value x, Where where = Source::current());
Value cbrt(Value x, Where where = Source::current());
Value sin(Value x, Where where = Source::current());
Value cos(Value x, Where where = Source::current());
Value tan(Value x, Where where = Source::current());
Value asin(Value x, Where where = Source::current());
Value acos(Value x, Where where = Source::current());
Value atan(Value x, Where where = Source::current());
Value sinh(Value x, Where where = Source::current());
Value cosh(Value x, Where where = Source::current());
Value tanh(Value x, Where where = Source::current());
Value asinh(Value x, Where where = Source::current());
Value acosh(Value x, Where where = Source::current());
Value atanh(Value x, Where where = Source::current());
Value logistic(Value x, Where where = Source::current());
Value erf(Value x, Where where = Source::current());
Value erfc(Value x, Where where = Source::current());
Value erf_inv(Value x, Where where = Source::current());
Value lgamma(Value x, Where where = Source::current());
Value digamma(Value x, Where where = Source::current());
/// The m-th derivative of digamma, m >= 1 (m = 0 is digamma).
Value polygamma(Value x, std::int64_t m, Where where = Source::current());
/// The primitive of that name, like those that follow.
Value square(Value x, Where where = Source::current());
Value reciprocal(Value x, Where where = Source::current());
Value is_finite(Value x, Where where = Source::current());
/// The primitive `not`.
Value logical_not(Value x, Where where = Source::current());
/// x to the integer power y, which may be negative.
Value integer_pow(Value x, std::int64_t y, Where where = Source::current());

/// The part of a complex number that the name says, as a real number.
Value real(Value x, Where where = Source::current());
Value imag(Value x, Where where = Source::current());
/// re + i im.
Value complex(Value re, Value im, Where where = Source::current());
/// The complex conjugate.
Value conj(Value x, Where where = Source::current());

/// The primitive of that name, like those that follow.
Value add(Value x, Value y, Where where = Source::current());
Value sub(Value x, Value y, Where where = Source::current());
Value mul(Value x, Value y, Where where = Source::current());
Value div(Value x, Value y, Where where = Source::current());
/// x y, but x if that is 0, even if y is infinite or NaN: a tangent times a derivative. (In TensorFlow's
/// tf.math.multiply_no_nan it is the second operand whose zero wins.)
Value multiply_no_nan(Value x, Value y, Where where = Source::current());
/// x / y, but x where that is 0, even if y is 0 or NaN: a tangent over the divisor of a function.
/// (TensorFlow's tf.math.divide_no_nan is 0 where y is 0.)
Value divide_no_nan(Value x, Value y, Where where = Source::current());
Value pow(Value x, Value y, Where where = Source::current());
Value max(Value x, Value y, Where where = Source::current());
Value min(Value x, Value y, Where where = Source::current());
/// The angle of the point (x, y).
Value atan2(Value y, Value x, Where where = Source::current());
/// The remainder with the sign of x.
Value rem(Value x, Value y, Where where = Source::current());
/// The next number after x toward y.
Value nextafter(Value x, Value y, Where where = Source::current());
/// The primitives `and`, `or`, `xor`.
Value logical_and(Value x, Value y, Where where = Source::current());
Value logical_or(Value x, Value y, Where where = Source::current());
Value logical_xor(Value x, Value y, Where where = Source::current());

/// The comparison of that name, like those that follow.
Value eq(Value x, Value y, Where where = Source::current());
Value ne(Value x, Value y, Where where = Source::current());
Value lt(Value x, Value y, Where where = Source::current());
Value le(Value x, Value y, Where where = Source::current());
Value gt(Value x, Value y, Where where = Source::current());
Value ge(Value x, Value y, Where where = Source::current());

/// cases[which]: `which` is bool (two cases, false first) or i32, a scalar or of the cases' shape.
Value select_n(Value which, std::span<const Value> cases, Where where = Source::current());
Value select_n(Value which, Value on_false, Value on_true, Where where = Source::current());
/// x between lo and hi, which are scalars or have the shape of x.
Value clamp(Value lo, Value x, Value hi, Where where = Source::current());

}  // namespace tidu::ops

namespace tidu {

/// An operand of an operator and the source location of the operator.
struct Located {
  Value value;  ///< the operand
  Where where;  ///< where the operator stands
  /// The location is that of the call.
  Located(Value v, Where place = Where::current()) : value(v), where(place) {}
};
/// As the function of ops that the operator is short for.
inline Value operator+(Located x, Located y) { return ops::add(x.value, y.value, x.where); }
inline Value operator-(Located x, Located y) { return ops::sub(x.value, y.value, x.where); }
inline Value operator*(Located x, Located y) { return ops::mul(x.value, y.value, x.where); }
inline Value operator/(Located x, Located y) { return ops::div(x.value, y.value, x.where); }
/// As ops::neg.
inline Value operator-(Located x) { return ops::neg(x.value, x.where); }

}  // namespace tidu
