// arithmetic.cpp - element-wise functions of Arrays that consist of several primitives: floor division and
// remainders, logarithms of other bases, sums and lengths without overflow, and comparisons with a tolerance.
#include <bit>
#include <cmath>
#include <limits>

#include "frontend/elementwise.hpp"
#include "primitives/slopes.hpp"
#include "tidu/frontend/functions.hpp"

namespace tidu {
namespace {

using frontend_detail::binary;
using frontend_detail::broadcast;
using frontend_detail::broadcast_shapes;
using frontend_detail::convert;
using frontend_detail::inexact;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::of_32_bits;
using frontend_detail::Operand;
using frontend_detail::require_value;
using frontend_detail::Takes;
using frontend_detail::unary;
using frontend_detail::widened;

constexpr double infinity = std::numeric_limits<double>::infinity();

Value zero_of(Value x) { return ops::full_like(x, 0.0); }
Value one_of(Value x) { return ops::full_like(x, 1.0); }

// True if the remainder of x by y, which has the sign of x, is not 0 and needs the sign of y.
Value on_other_side(Value remainder, Value y) {
  const Value zero = zero_of(y);
  const Value differ = ops::ne(ops::lt(remainder, zero), ops::lt(y, zero));
  return ops::logical_and(differ, ops::ne(remainder, zero));
}

Value mod_of(Value x, Value y, Where) {
  const Value remainder = ops::rem(x, y);
  return ops::select_n(on_other_side(remainder, y), remainder, remainder + y);
}

// For floating numbers an integer up to the rounding of the quotient. For y = 0 the quotient itself.
Value floor_quotient(Value x, Value y, Where) {
  const Value remainder = ops::rem(x, y), by_zero = ops::eq(y, zero_of(y));
  const Value quotient = is_inexact(x.dtype()) ? (x - remainder) / y : x / y;
  const Value floored = ops::select_n(on_other_side(remainder, y), quotient, quotient - one_of(quotient));
  return ops::select_n(by_zero, is_inexact(x.dtype()) ? ops::round(floored) : floored,
                       ops::stop_gradient(x / y));
}

Value whole_part(Value x, Where) {
  return ops::select_n(ops::lt(x, zero_of(x)), ops::floor(x), ops::ceil(x));
}

// ln(x) / ln(base): dx / ln(base) / x, of which 1 / x alone may overflow.
Value logarithm(const char* name, Value v, double base) {
  return of_32_bits(v, [&](Value x) {
    const double scale = std::log(base);
    return prim::differentiated(
        name, {&x, 1},
        [&](const Values& y) {
          const Value log = ops::log(y[0]);
          return Values{log / ops::full_like(y[0], scale)};
        },
        [&](const Values& y, const Values&, const Values& dy) {
          const Value scaled = dy[0] * ops::full_like(y[0], 1.0 / scale);
          return Values{ops::divide_no_nan(scaled, y[0])};
        })[0];
  });
}
Value log2_of(Value x, Where) { return logarithm("log2", x, 2.0); }
Value log10_of(Value x, Where) { return logarithm("log10", x, 10.0); }

Value is_infinite(Value x) { return ops::eq(ops::abs(x), ops::full_like(x, infinity)); }

// |x + y i|, whose derivative, the sign of x + y i, is 0 at the origin and at most 1 anywhere.
Value hypot_of(Value x, Value y, Where) {
  if (is_complex(x.dtype()))
    throw Error(ErrorKind::type, "[hypot] " + frontend_detail::expected_real(x.type()));
  const Value re = widened(x), im = widened(y);
  const Value operands[] = {re, im};
  const Value distance = prim::differentiated(
      "hypot", operands, [](const Values& v) { return Values{ops::abs(ops::complex(v[0], v[1]))}; },
      [](const Values& v, const Values&, const Values& dv) {
        // The derivative of one part of the sign may overflow where that of the other does not.
        const Value sign = ops::sign(ops::complex(v[0], v[1]));
        const Value by_re = ops::multiply_no_nan(dv[0], ops::real(sign));
        const Value by_im = ops::multiply_no_nan(dv[1], ops::imag(sign));
        return Values{by_re + by_im};
      })[0];
  return convert(distance, x.dtype());
}

// max(x, y) + log(1 + exp(-|x - y|)), with the maximum by select_n: max and abs would give the mean of both
// sides at x = y, and so a second derivative of 0. For two equal infinities it is their mean.
Value logaddexp_of(Value left, Value right, Where) {
  const Value x = widened(left), y = widened(right);
  const Value alike = ops::logical_and(ops::eq(x, y), is_infinite(x));
  const Value difference = ops::select_n(alike, y - x, zero_of(x));
  const Value second = ops::ge(difference, zero_of(x));
  const Value below = ops::select_n(second, difference, -difference);
  const Value more = ops::log1p(ops::exp(below));
  const Value result =
      ops::select_n(alike, ops::select_n(second, x, y) + more, ops::full_like(x, 0.5) * (x + y));
  return convert(result, left.dtype());
}

double greatest_finite(DType dtype) {
  switch (dtype) {
    case f16: return 65504.0;
    case bf16: return 0x1.fep127;
    case f32: return static_cast<double>(std::numeric_limits<float>::max());
    default: return std::numeric_limits<double>::max();
  }
}

std::int64_t bits_of(double number) { return std::bit_cast<std::int64_t>(number); }

// The absolute difference of floating or complex numbers is small, or they are the same infinity.
Value close_of(Value x, Value y, double rtol, double atol, bool equal_nan) {
  const Value size = ops::abs(y);
  const Value allowed = ops::full_like(size, atol) + ops::full_like(size, rtol) * size;
  const Value finite = ops::lt(size, ops::full_like(size, infinity));
  const Value near = ops::logical_and(ops::le(ops::abs(x - y), allowed), finite);
  const Value close = ops::logical_or(near, ops::eq(x, y));
  if (!equal_nan) return close;
  return ops::logical_or(close, ops::logical_and(ops::ne(x, x), ops::ne(y, y)));
}

Array compared(const char* name, const Array& x, const Array& y, double rtol, double atol, bool equal_nan,
               Where where, bool all) {
  const std::int64_t static_args[] = {bits_of(rtol), bits_of(atol), equal_nan ? 1 : 0};
  const Input operands[] = {x, y};
  return invoke(
      {name, static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const DType common = inexact(promote(v[0].dtype(), v[1].dtype()));
        const Shape shape = broadcast_shapes(v[0].shape(), v[1].shape(), name);
        const Value left = broadcast(convert(v[0], common), shape);
        const Value close = close_of(left, broadcast(convert(v[1], common), shape), rtol, atol, equal_nan);
        if (!all) return close;
        Ints axes;
        for (std::size_t i = 0; i < shape.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
        return ops::reduce_and(close, axes);
      },
      where);
}

}  // namespace

Array mod(const ArrayLike& x, const ArrayLike& y) { return binary<mod_of>("mod", x, y); }
Array floor_divide(const ArrayLike& x, const ArrayLike& y) {
  return binary<floor_quotient>("floor_divide", x, y);
}
Array trunc(const Array& x, Where where) {
  require_value(x, "trunc", where);
  return is_inexact(x.dtype()) ? unary<whole_part>("trunc", x, where) : x;
}
Array log2(const Array& x, Where where) { return unary<log2_of>("log2", x, where); }
Array log10(const Array& x, Where where) { return unary<log10_of>("log10", x, where); }
Array hypot(const ArrayLike& x, const ArrayLike& y) {
  return binary<hypot_of>("hypot", x, y, Takes::inexact);
}
Array logaddexp(const ArrayLike& x, const ArrayLike& y) {
  return binary<logaddexp_of>("logaddexp", x, y, Takes::inexact);
}

Array nan_to_num(const Array& x, double nan, std::optional<double> posinf, std::optional<double> neginf,
                 Where where) {
  require_value(x, "nan_to_num", where);
  if (!is_inexact(x.dtype())) return x;
  const std::int64_t static_args[] = {bits_of(nan), posinf ? 1 : 0, bits_of(posinf.value_or(0.0)),
                                      neginf ? 1 : 0, bits_of(neginf.value_or(0.0))};
  const Input operands[] = {x};
  return invoke(
      {"nan_to_num", static_args}, operands,
      [&](Emitter&, std::span<const Value> v) {
        const auto finite = [&](Value part) {
          const double greatest = greatest_finite(part.dtype());
          const Value top = ops::full_like(part, posinf.value_or(greatest));
          const Value bottom = ops::full_like(part, neginf.value_or(-greatest));
          const Value number = ops::select_n(ops::ne(part, part), part, ops::full_like(part, nan));
          const Value below = ops::select_n(ops::eq(part, ops::full_like(part, infinity)), number, top);
          return ops::select_n(ops::eq(part, ops::full_like(part, -infinity)), below, bottom);
        };
        if (!is_complex(v[0].dtype())) return finite(v[0]);
        const Value re = finite(ops::real(v[0]));
        return ops::complex(re, finite(ops::imag(v[0])));
      },
      where);
}

Array isclose(const ArrayLike& x, const ArrayLike& y, double rtol, double atol, bool equal_nan) {
  return compared("isclose", Operand::beside("isclose", x, y), Operand::beside("isclose", y, x), rtol, atol,
                  equal_nan, x.where(), false);
}
Array allclose(const ArrayLike& x, const ArrayLike& y, double rtol, double atol, bool equal_nan) {
  return compared("allclose", Operand::beside("allclose", x, y), Operand::beside("allclose", y, x), rtol,
                  atol, equal_nan, x.where(), true);
}

Array array_equal(const ArrayLike& left, const ArrayLike& right) {
  const Where where = left.where();
  const Array x = Operand::beside("array_equal", left, right);
  const Array y = Operand::beside("array_equal", right, left);
  require_value(x, "array_equal", where);
  require_value(y, "array_equal", where);
  if (x.shape() != y.shape()) return Array(false);
  const Input operands[] = {x, y};
  return invoke(
      {"array_equal"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[0].dtype(), v[1].dtype());
        const Value elements = convert(v[0], common);
        Ints axes;
        for (std::size_t i = 0; i < elements.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
        return ops::reduce_and(ops::eq(elements, convert(v[1], common)), axes);
      },
      where);
}

}  // namespace tidu
