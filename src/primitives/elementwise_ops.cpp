// elementwise_ops.cpp - the functions that emit the element-wise primitives.
#include <array>

#include "tidu/graph/error.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::ops {
namespace {

template <const Primitive& P>
Value unary(Value x, Where where) {
  return emit_one(plain_op<P>(), std::span(&x, 1), where);
}

template <const Primitive& P>
Value binary(Value x, Value y, Where where) {
  const std::array operands{x, y};
  return emit_one(plain_op<P>(), operands, where);
}

Value with_attribute(const Primitive& primitive, std::string_view name, Attribute value, Value x,
                     Where where) {
  return emit(Op::make(primitive, {{std::string(name), std::move(value)}}), std::span(&x, 1), where)[0];
}

}  // namespace

Value neg(Value x, Where where) { return unary<prim::neg>(x, where); }
Value abs(Value x, Where where) { return unary<prim::abs>(x, where); }
Value sign(Value x, Where where) { return unary<prim::sign>(x, where); }
Value floor(Value x, Where where) { return unary<prim::floor>(x, where); }
Value ceil(Value x, Where where) { return unary<prim::ceil>(x, where); }
Value exp(Value x, Where where) { return unary<prim::exp>(x, where); }
Value exp2(Value x, Where where) { return unary<prim::exp2>(x, where); }
Value expm1(Value x, Where where) { return unary<prim::expm1>(x, where); }
Value log(Value x, Where where) { return unary<prim::log>(x, where); }
Value log1p(Value x, Where where) { return unary<prim::log1p>(x, where); }
Value sqrt(Value x, Where where) { return unary<prim::sqrt>(x, where); }
Value rsqrt(Value x, Where where) { return unary<prim::rsqrt>(x, where); }
Value cbrt(Value x, Where where) { return unary<prim::cbrt>(x, where); }
Value sin(Value x, Where where) { return unary<prim::sin>(x, where); }
Value cos(Value x, Where where) { return unary<prim::cos>(x, where); }
Value tan(Value x, Where where) { return unary<prim::tan>(x, where); }
Value asin(Value x, Where where) { return unary<prim::asin>(x, where); }
Value acos(Value x, Where where) { return unary<prim::acos>(x, where); }
Value atan(Value x, Where where) { return unary<prim::atan>(x, where); }
Value sinh(Value x, Where where) { return unary<prim::sinh>(x, where); }
Value cosh(Value x, Where where) { return unary<prim::cosh>(x, where); }
Value tanh(Value x, Where where) { return unary<prim::tanh>(x, where); }
Value asinh(Value x, Where where) { return unary<prim::asinh>(x, where); }
Value acosh(Value x, Where where) { return unary<prim::acosh>(x, where); }
Value atanh(Value x, Where where) { return unary<prim::atanh>(x, where); }
Value logistic(Value x, Where where) { return unary<prim::logistic>(x, where); }
Value erf(Value x, Where where) { return unary<prim::erf>(x, where); }
Value erfc(Value x, Where where) { return unary<prim::erfc>(x, where); }
Value erf_inv(Value x, Where where) { return unary<prim::erf_inv>(x, where); }
Value lgamma(Value x, Where where) { return unary<prim::lgamma>(x, where); }
Value digamma(Value x, Where where) { return unary<prim::digamma>(x, where); }
Value square(Value x, Where where) { return unary<prim::square>(x, where); }
Value reciprocal(Value x, Where where) { return unary<prim::reciprocal>(x, where); }
Value is_finite(Value x, Where where) { return unary<prim::is_finite>(x, where); }
Value logical_not(Value x, Where where) { return unary<prim::not_>(x, where); }

Value round(Value x, std::string_view rounding_method, Where where) {
  return with_attribute(prim::round, "rounding_method", rounding_method, x, where);
}
Value polygamma(Value x, std::int64_t m, Where where) {
  return m == 0 ? digamma(x, where) : with_attribute(prim::polygamma, "m", m, x, where);
}
Value integer_pow(Value x, std::int64_t y, Where where) {
  return with_attribute(prim::integer_pow, "y", y, x, where);
}

Value real(Value x, Where where) { return unary<prim::real>(x, where); }
Value imag(Value x, Where where) { return unary<prim::imag>(x, where); }
Value conj(Value x, Where where) { return unary<prim::conj>(x, where); }
Value complex(Value re, Value im, Where where) { return binary<prim::complex>(re, im, where); }

Value add(Value x, Value y, Where where) { return binary<prim::add>(x, y, where); }
Value sub(Value x, Value y, Where where) { return binary<prim::sub>(x, y, where); }
Value mul(Value x, Value y, Where where) { return binary<prim::mul>(x, y, where); }
Value div(Value x, Value y, Where where) { return binary<prim::div>(x, y, where); }
Value multiply_no_nan(Value x, Value y, Where where) { return binary<prim::multiply_no_nan>(x, y, where); }
Value divide_no_nan(Value x, Value y, Where where) { return binary<prim::divide_no_nan>(x, y, where); }
Value pow(Value x, Value y, Where where) { return binary<prim::pow>(x, y, where); }
Value max(Value x, Value y, Where where) { return binary<prim::max>(x, y, where); }
Value min(Value x, Value y, Where where) { return binary<prim::min>(x, y, where); }
Value atan2(Value y, Value x, Where where) { return binary<prim::atan2>(y, x, where); }
Value rem(Value x, Value y, Where where) { return binary<prim::rem>(x, y, where); }
Value nextafter(Value x, Value y, Where where) { return binary<prim::nextafter>(x, y, where); }
Value logical_and(Value x, Value y, Where where) { return binary<prim::and_>(x, y, where); }
Value logical_or(Value x, Value y, Where where) { return binary<prim::or_>(x, y, where); }
Value logical_xor(Value x, Value y, Where where) { return binary<prim::xor_>(x, y, where); }

Value eq(Value x, Value y, Where where) { return binary<prim::eq>(x, y, where); }
Value ne(Value x, Value y, Where where) { return binary<prim::ne>(x, y, where); }
Value lt(Value x, Value y, Where where) { return binary<prim::lt>(x, y, where); }
Value le(Value x, Value y, Where where) { return binary<prim::le>(x, y, where); }
Value gt(Value x, Value y, Where where) { return binary<prim::gt>(x, y, where); }
Value ge(Value x, Value y, Where where) { return binary<prim::ge>(x, y, where); }

Value select_n(Value which, std::span<const Value> cases, Where where) {
  Values operands(which);
  for (const Value& value : cases) operands.push_back(value);
  return emit(plain_op<prim::select_n>(), operands, where)[0];
}
Value select_n(Value which, Value on_false, Value on_true, Where where) {
  const std::array operands{which, on_false, on_true};
  return emit(plain_op<prim::select_n>(), operands, where)[0];
}
Value clamp(Value lo, Value x, Value hi, Where where) {
  const std::array operands{lo, x, hi};
  return emit(plain_op<prim::clamp>(), operands, where)[0];
}

}  // namespace tidu::ops
