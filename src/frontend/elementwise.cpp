// elementwise.cpp - element-wise functions of Arrays. Each is one graph of conversions, broadcasts and a
// primitive, made once per types.
#include <limits>

#include "frontend/broadcast.hpp"
#include "frontend/elementwise.hpp"
#include "frontend/lazy.hpp"
#include "tidu/frontend/functions.hpp"
#include "tidu/frontend/modes.hpp"

namespace tidu {
namespace frontend_detail {

std::vector<Value> promoted(std::span<const Value> values, DType common) {
  for (const Value& value : values) common = promote(common, value.dtype());
  std::vector<Value> converted;
  for (const Value& value : values) converted.push_back(convert(value, common));
  return converted;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view function) {
  Shape shape(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t m = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t n = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (m != n && m != 1 && n != 1) {
      throw Error(
          ErrorKind::type,
          detail::str('[', function, "] expected shapes that broadcast together, got ", detail::list(a),
                      " and ", detail::list(b), ": ", m, " and ", n, " differ, and neither is 1"));
    }
    shape[shape.size() - 1 - i] = m == 1 ? n : m;
  }
  return shape;
}

Value broadcast(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Ints dimensions;
  for (std::size_t i = 0; i < x.rank(); ++i)
    dimensions.push_back(static_cast<std::int64_t>(shape.size() - x.rank() + i));
  return ops::broadcast_in_dim(x, shape, dimensions);
}

Value as_bool(Value x) { return is_bool(x.dtype()) ? x : ops::ne(x, ops::full_like(x, 0.0)); }

}  // namespace frontend_detail

DType promote(DType a, DType b) {
  if (a == b) return a;
  const DType low = std::min(a, b), high = std::max(a, b);
  if (low == f16 && high == bf16) return f32;
  if (is_complex(high) && real_dtype(high) < real_dtype(low) && is_inexact(low)) return c128;
  return high;
}

namespace {

using frontend_detail::as_bool;
using frontend_detail::Binary;
using frontend_detail::binary;
using frontend_detail::broadcast;
using frontend_detail::broadcast_shapes;
using frontend_detail::convert;
using frontend_detail::inexact;
using frontend_detail::Input;
using frontend_detail::invoke;
using frontend_detail::of_32_bits;
using frontend_detail::Operand;
using frontend_detail::partner;
using frontend_detail::require_value;
using frontend_detail::Takes;
using frontend_detail::unary;

// Truth values: any number but 0 is true.
template <Binary F>
Array logical(const char* name, const ArrayLike& x, const ArrayLike& y) {
  const Operand left(name, x, partner(name, x, y)), right(name, y, partner(name, y, x));
  const Input operands[] = {left.input(), right.input()};
  return invoke(
      {name}, operands,
      [name](Emitter&, std::span<const Value> v) {
        const Shape shape = broadcast_shapes(v[0].shape(), v[1].shape(), name);
        const Value first = broadcast(as_bool(v[0]), shape);
        return F(first, broadcast(as_bool(v[1]), shape), Where{});
      },
      x.array() != nullptr ? x.where() : y.where());
}

// For complex numbers both parts.
Value finite(Value x, Where where) {
  if (!is_complex(x.dtype())) return ops::is_finite(x, where);
  const Value re = ops::is_finite(ops::real(x, where), where);
  return ops::logical_and(re, ops::is_finite(ops::imag(x, where), where), where);
}

// For complex numbers either part: if both are large, the absolute value may be infinite too.
Value infinite(Value x, Where where) {
  if (is_complex(x.dtype()))
    return ops::logical_or(infinite(ops::real(x, where), where), infinite(ops::imag(x, where), where), where);
  const Value size = ops::abs(x, where);
  return ops::eq(size, ops::full_like(size, std::numeric_limits<double>::infinity(), where), where);
}

// The operation of numbers, or that of bools: both, or one of them.
template <Binary F, Binary OfBools>
Value either(Value x, Value y, Where where) {
  return is_bool(x.dtype()) ? OfBools(x, y, where) : F(x, y, where);
}
constexpr Binary plus = either<ops::add, ops::logical_or>, times = either<ops::mul, ops::logical_and>;

// Are its elements whole numbers whatever they are?
bool is_whole(const Array& x, const char* name, Where where) {
  require_value(x, name, where);
  return !is_inexact(x.dtype());
}

// Assigns a lazy result to x instead of writing to x's memory, if that is not observable. So a hot sequence
// goes on. Elements on a device are never written to: x gets the result's memory there.
bool replace(Array& x, Array& result) {
  const frontend_detail::Context& c = frontend_detail::context();
  frontend_detail::Body &to = x.required(), &from = result.required();
  if (to.traced || from.traced || to.tensor.type() != from.tensor.type()) return false;
  if (to.tensor.device() != from.tensor.device()) return false;
  if (to.tensor.device() != 0 && from.references.load(std::memory_order_acquire) == 1) {
    to.tensor = std::move(from.tensor);
    to.extra->lazy_storage = nullptr;
    return true;
  }
  if (!c.hot_on || c.lazy != 0 || c.trace == nullptr) return false;
  if (!c.trace->may_replace(to.tensor, to.extra->lazy_storage, from.tensor)) return false;
  to.tensor = std::move(from.tensor);
  to.extra->lazy_storage = to.tensor.pending();
  return true;
}

// x OP= y: in place for a parameter while nothing is recorded, else a new Array.
Array& update(Array& x, Array&& result, Where where) {
  if (x.requires_grad() && x.is_leaf() && !grad_enabled())
    return replace(x, result) ? x : x.assign(result, where);
  return x = std::move(result);
}

}  // namespace

Array operator+(const ArrayLike& x, const ArrayLike& y) { return binary<plus>("add", x, y); }
Array operator-(const ArrayLike& x, const ArrayLike& y) { return binary<ops::sub>("subtract", x, y); }
Array operator*(const ArrayLike& x, const ArrayLike& y) { return binary<times>("multiply", x, y); }
Array operator/(const ArrayLike& x, const ArrayLike& y) {
  return binary<ops::div>("divide", x, y, Takes::inexact);
}
Array operator-(const ArrayLike& x) { return unary<ops::neg>("negative", *x.array(), x.where(), false); }
Array operator==(const ArrayLike& x, const ArrayLike& y) { return binary<ops::eq>("equal", x, y); }
Array operator!=(const ArrayLike& x, const ArrayLike& y) { return binary<ops::ne>("not_equal", x, y); }
Array operator<(const ArrayLike& x, const ArrayLike& y) { return binary<ops::lt>("less", x, y); }
Array operator<=(const ArrayLike& x, const ArrayLike& y) { return binary<ops::le>("less_equal", x, y); }
Array operator>(const ArrayLike& x, const ArrayLike& y) { return binary<ops::gt>("greater", x, y); }
Array operator>=(const ArrayLike& x, const ArrayLike& y) { return binary<ops::ge>("greater_equal", x, y); }
Array operator!(const Array& x) { return unary<ops::logical_not>("not", x, Where{}, false); }
Array operator&(const ArrayLike& x, const ArrayLike& y) { return binary<ops::logical_and>("and", x, y); }
Array operator|(const ArrayLike& x, const ArrayLike& y) { return binary<ops::logical_or>("or", x, y); }

Array& Array::operator+=(const ArrayLike& y) & {
  return update(*this, binary<plus>("add", ArrayLike(*this, y.where()), y), y.where());
}
Array& Array::operator-=(const ArrayLike& y) & {
  return update(*this, binary<ops::sub>("subtract", ArrayLike(*this, y.where()), y), y.where());
}
Array& Array::operator*=(const ArrayLike& y) & {
  return update(*this, binary<times>("multiply", ArrayLike(*this, y.where()), y), y.where());
}
Array& Array::operator/=(const ArrayLike& y) & {
  return update(*this, binary<ops::div>("divide", ArrayLike(*this, y.where()), y, Takes::inexact), y.where());
}

Array exp(const Array& x, Where where) { return unary<ops::exp>("exp", x, where); }
Array exp2(const Array& x, Where where) { return unary<ops::exp2>("exp2", x, where); }
Array expm1(const Array& x, Where where) { return unary<ops::expm1>("expm1", x, where); }
Array log(const Array& x, Where where) { return unary<ops::log>("log", x, where); }
Array log1p(const Array& x, Where where) { return unary<ops::log1p>("log1p", x, where); }
Array sqrt(const Array& x, Where where) { return unary<ops::sqrt>("sqrt", x, where); }
Array rsqrt(const Array& x, Where where) { return unary<ops::rsqrt>("rsqrt", x, where); }
Array cbrt(const Array& x, Where where) { return unary<ops::cbrt>("cbrt", x, where); }
Array sin(const Array& x, Where where) { return unary<ops::sin>("sin", x, where); }
Array cos(const Array& x, Where where) { return unary<ops::cos>("cos", x, where); }
Array tan(const Array& x, Where where) { return unary<ops::tan>("tan", x, where); }
Array asin(const Array& x, Where where) { return unary<ops::asin>("asin", x, where); }
Array acos(const Array& x, Where where) { return unary<ops::acos>("acos", x, where); }
Array atan(const Array& x, Where where) { return unary<ops::atan>("atan", x, where); }
Array sinh(const Array& x, Where where) { return unary<ops::sinh>("sinh", x, where); }
Array cosh(const Array& x, Where where) { return unary<ops::cosh>("cosh", x, where); }
Array tanh(const Array& x, Where where) { return unary<ops::tanh>("tanh", x, where); }
Array asinh(const Array& x, Where where) { return unary<ops::asinh>("asinh", x, where); }
Array acosh(const Array& x, Where where) { return unary<ops::acosh>("acosh", x, where); }
Array atanh(const Array& x, Where where) { return unary<ops::atanh>("atanh", x, where); }
Array logistic(const Array& x, Where where) { return unary<ops::logistic>("logistic", x, where); }
Array erf(const Array& x, Where where) { return unary<ops::erf>("erf", x, where); }
Array erfc(const Array& x, Where where) { return unary<ops::erfc>("erfc", x, where); }
Array erf_inv(const Array& x, Where where) { return unary<ops::erf_inv>("erf_inv", x, where); }
Array lgamma(const Array& x, Where where) { return unary<ops::lgamma>("lgamma", x, where); }
Array digamma(const Array& x, Where where) { return unary<ops::digamma>("digamma", x, where); }
Array reciprocal(const Array& x, Where where) { return unary<ops::reciprocal>("reciprocal", x, where); }
Array floor(const Array& x, Where where) {
  return is_whole(x, "floor", where) ? x : unary<ops::floor>("floor", x, where);
}
Array ceil(const Array& x, Where where) {
  return is_whole(x, "ceil", where) ? x : unary<ops::ceil>("ceil", x, where);
}
Array isfinite(const Array& x, Where where) { return unary<finite>("isfinite", x, where); }
Array polygamma(std::int64_t n, const Array& x, Where where) {
  if (n < 0) {
    frontend_detail::refuse(ErrorKind::invalid_argument, "polygamma", detail::str("expected n >= 0, got ", n),
                            where);
  }
  if (n == 0) return digamma(x, where);
  const Input operands[] = {x};
  const std::int64_t static_args[] = {n};
  return invoke(
      {"polygamma", static_args}, operands,
      [n](Emitter&, std::span<const Value> v) {
        return ops::polygamma(convert(v[0], inexact(v[0].dtype())), n);
      },
      where);
}
Array isnan(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"isnan"}, operands, [](Emitter&, std::span<const Value> v) { return ops::ne(v[0], v[0]); }, where);
}
Array isinf(const Array& x, Where where) { return unary<infinite>("isinf", x, where); }
Array square(const Array& x, Where where) { return unary<ops::square>("square", x, where, false); }
Array abs(const Array& x, Where where) { return unary<ops::abs>("abs", x, where, false); }
Array sign(const Array& x, Where where) { return unary<ops::sign>("sign", x, where, false); }
Array stop_gradient(const Array& x, Where where) {
  return unary<ops::stop_gradient>("stop_gradient", x, where, false);
}

Array round(const Array& x, Where where) {
  if (is_whole(x, "round", where)) return x;
  const Input operands[] = {x};
  return invoke(
      {"round"}, operands, [](Emitter&, std::span<const Value> v) { return ops::round(v[0]); }, where);
}

Array real(const Array& x, Where where) {
  require_value(x, "real", where);
  return is_complex(x.dtype()) ? unary<ops::real>("real", x, where) : x;
}
Array imag(const Array& x, Where where) {
  require_value(x, "imag", where);
  return is_complex(x.dtype()) ? unary<ops::imag>("imag", x, where) : zeros_like(x, where);
}
Array conj(const Array& x, Where where) {
  require_value(x, "conj", where);
  return is_complex(x.dtype()) ? unary<ops::conj>("conj", x, where) : x;
}

Array relu(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"relu"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const Value zero = ops::full_like(v[0], 0.0);
        return ops::select_n(ops::le(v[0], zero), v[0], zero);  // NaN is not below 0, and stays
      },
      where);
}

// max(x, 0) + log(1 + exp(-|x|)), where the sign of x is a constant, 1 at 0. The derivatives of max and abs
// at 0 are means of both sides and would make the second derivative 0 there instead of 1/4.
Array softplus(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"softplus"}, operands,
      [](Emitter&, std::span<const Value> v) {
        return of_32_bits(convert(v[0], inexact(v[0].dtype())), [](Value y) {
          const Value zero = ops::full_like(y, 0.0);
          const Value positive = ops::ge(y, zero);
          const Value one = ops::full_like(y, 1.0);
          const Value minus_sign = ops::select_n(positive, one, ops::full_like(y, -1.0));
          const Value ramp = ops::select_n(positive, zero, y);
          return ramp + ops::log1p(ops::exp(minus_sign * y));
        });
      },
      where);
}

Array integer_pow(const Array& x, std::int64_t y, Where where) {
  const Input operands[] = {x};
  const std::int64_t static_args[] = {y};
  return invoke(
      {"integer_pow", static_args}, operands,
      [y](Emitter&, std::span<const Value> v) {
        return ops::integer_pow(y < 0 ? convert(v[0], inexact(v[0].dtype())) : v[0], y);
      },
      where);
}

Array pow(const ArrayLike& x, const ArrayLike& y) {
  if (x.array() != nullptr) require_value(*x.array(), "pow", x.where());
  if (x.array() != nullptr && y.array() == nullptr && !y.imaginary()) {
    const DType dtype = x.array()->dtype();
    const double exponent = y.number().value();
    // A small integer exponent: right for a negative base too, and cheaper.
    const bool small = exponent >= -64 && exponent <= 64 && exponent == std::trunc(exponent);
    if (small && (is_inexact(dtype) || (is_integer(y.dtype()) && exponent < 0)))
      return integer_pow(*x.array(), static_cast<std::int64_t>(exponent), x.where());
    // An integer power of integers is an integer, however large the exponent.
    if (is_integer(y.dtype()) && exponent >= 0 && !is_inexact(dtype)) {
      const Array base = is_bool(dtype) ? astype(*x.array(), y.dtype(), x.where()) : *x.array();
      return integer_pow(base, y.number().whole(), x.where());
    }
  }
  return binary<ops::pow>("pow", x, y, Takes::inexact);
}
Array maximum(const ArrayLike& x, const ArrayLike& y) { return binary<ops::max>("maximum", x, y); }
Array minimum(const ArrayLike& x, const ArrayLike& y) { return binary<ops::min>("minimum", x, y); }
Array atan2(const ArrayLike& y, const ArrayLike& x) {
  return binary<ops::atan2>("atan2", y, x, Takes::inexact);
}
Array rem(const ArrayLike& x, const ArrayLike& y) { return binary<ops::rem>("rem", x, y); }
Array nextafter(const ArrayLike& x, const ArrayLike& y) {
  return binary<ops::nextafter>("nextafter", x, y, Takes::inexact);
}
Array complex(const ArrayLike& re, const ArrayLike& im) {
  return binary<ops::complex>("complex", re, im, Takes::parts);
}
Array logical_and(const ArrayLike& x, const ArrayLike& y) {
  return logical<ops::logical_and>("logical_and", x, y);
}
Array logical_or(const ArrayLike& x, const ArrayLike& y) {
  return logical<ops::logical_or>("logical_or", x, y);
}
Array logical_xor(const ArrayLike& x, const ArrayLike& y) {
  return logical<ops::logical_xor>("logical_xor", x, y);
}
Array logical_not(const Array& x, Where where) {
  const Input operands[] = {x};
  return invoke(
      {"logical_not"}, operands,
      [](Emitter&, std::span<const Value> v) { return ops::logical_not(as_bool(v[0])); }, where);
}

Array where(const Array& condition, const ArrayLike& x, const ArrayLike& y) {
  const Operand left("where", x, partner("where", x, y)), right("where", y, partner("where", y, x));
  const Input operands[] = {condition, left.input(), right.input()};
  return invoke(
      {"where"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const DType common = promote(v[1].dtype(), v[2].dtype());
        const Shape shape =
            broadcast_shapes(v[0].shape(), broadcast_shapes(v[1].shape(), v[2].shape(), "where"), "where");
        const Value chosen = broadcast(as_bool(v[0]), shape),
                    on_true = broadcast(convert(v[1], common), shape);
        return ops::select_n(chosen, broadcast(convert(v[2], common), shape), on_true);
      },
      x.array() != nullptr ? x.where() : y.where());
}

Array clip(const Array& x, const ArrayLike& lo, const ArrayLike& hi) {
  require_value(x, "clip", lo.where());
  const Operand low("clip", lo, x.dtype()), high("clip", hi, x.dtype());
  const Input operands[] = {low.input(), x, high.input()};
  return invoke(
      {"clip"}, operands,
      [](Emitter&, std::span<const Value> v) {
        const DType common = promote(promote(v[0].dtype(), v[1].dtype()), v[2].dtype());
        const Shape shape =
            broadcast_shapes(v[1].shape(), broadcast_shapes(v[0].shape(), v[2].shape(), "clip"), "clip");
        const auto bound = [&](Value b) {
          return b.rank() == 0 ? convert(b, common) : broadcast(convert(b, common), shape);
        };
        const Value least = bound(v[0]), value = broadcast(convert(v[1], common), shape);
        return ops::clamp(least, value, bound(v[2]));
      },
      lo.where());
}

}  // namespace tidu
