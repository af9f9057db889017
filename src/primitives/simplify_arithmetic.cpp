// simplify_arithmetic.cpp - the rules of sums, products, powers and selections.
//
// Note [Exact]: x + 0 is no rule, since -0 + 0 is 0; x + (-0) and x - 0 are. -(a - b) is not b - a if they
// are equal. Division by a power of two is multiplication by its reciprocal, which is exact. Signs are moved
// through products of real numbers, not through sums, whose zeros they would change.
#include <array>
#include <cmath>
#include <functional>

#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

Literal number_literal(DType dtype, double value) {
  return is_integer(dtype) ? Literal::scalar(dtype, static_cast<std::int64_t>(value))
                           : Literal::scalar(dtype, value);
}
Value number_like(const SimplifyContext& c, Value x, double value) {
  return filled(c, x.type(), number_literal(x.dtype(), value));
}

// x, when the value is -x.
std::optional<Value> negated(const SimplifyContext& c, Value value) {
  const auto made = c.producer(value, neg);
  return made ? std::optional(c.input(*made)) : std::nullopt;
}

// The neutral element of addition: -0 where there is one.
bool is_neutral_zero(const SimplifyContext& c, Value value) {
  if (is_integer(value.dtype())) return is_number(c, value, 0.0);
  return is_number(c, value, -0.0) || (c.fast_math() && is_number(c, value, 0.0));
}

// Is 1/x exact, and neither it nor x subnormal?
bool has_exact_reciprocal(DType dtype, double x) {
  if (!is_floating(dtype)) return false;
  int exponent = 0;
  if (std::fabs(std::frexp(x, &exponent)) != 0.5) return false;
  const int limit = dtype == f64 ? 1000 : dtype == f16 ? 13 : 120;
  return exponent > -limit && exponent < limit;
}

// Values of one type whose elements are all integers of that value; nothing otherwise.
Values integer_result(const SimplifyContext& c, std::int64_t value) {
  const Type type = c.result_type();
  return filled(c, type,
                is_bool(type.dtype()) ? Literal::scalar(bool_, value) : Literal::scalar(type.dtype(), value));
}

// A value as a number times another, where that is seen at once or through a broadcast.
struct Scaled {
  double factor;
  Value rest;
};
std::optional<Scaled> scaled(const SimplifyContext& c, Value value) {
  if (const auto made = c.producer(value, mul)) {
    const Value x = c.input(*made, 0), y = c.input(*made, 1);
    if (const auto factor = number_of(c, y)) return Scaled{*factor, x};
    if (const auto factor = number_of(c, x)) return Scaled{*factor, y};
  }
  if (const auto made = c.producer(value, add); made && c.input(*made, 0) == c.input(*made, 1))
    return Scaled{2.0, c.input(*made)};
  return std::nullopt;
}
std::optional<Scaled> scaled_before_broadcast(const SimplifyContext& c, Value value) {
  const auto made = c.producer(value, broadcast_in_dim);
  if (!made) return scaled(c, value);
  std::optional<Scaled> inner = scaled(c, c.input(*made));
  if (inner) inner->rest = c.emitter().emit_one(made->op(), {&inner->rest, 1});
  return inner;
}

// (a x)(b y) = x y (a b), not exact where a x or b y overflows or is subnormal
Values product_of_scaled(const SimplifyContext& c) {
  if (!c.fast_math() || !is_floating(c.result_type().dtype())) return unchanged();
  const std::optional<Scaled> x = scaled_before_broadcast(c, c.operand(0));
  const std::optional<Scaled> y = x ? scaled_before_broadcast(c, c.operand(1)) : std::nullopt;
  if (!y) return unchanged();
  const Value product = ops::mul(x->rest, y->rest);
  return ops::mul(product, number_like(c, product, x->factor * y->factor));
}

// The number f(a, b) of two numbers of 32 or 64 bits, which is rounded to f32 once: 53 digits are more than
// twice 24, so rounding to f64 first does not change it (S. A. Figueroa, "When is double rounding
// innocuous?", 1995).
template <class F>
Values number_of_numbers(const SimplifyContext& c, const F& f) {
  const DType dtype = c.result_type().dtype();
  if (dtype != f32 && dtype != f64) return unchanged();
  const std::optional<double> a = number_of(c, c.operand(0)), b = a ? number_of(c, c.operand(1)) : a;
  return b ? Values(number_like(c, c.operand(0), f(*a, *b))) : unchanged();
}

// a (op) b as an operation on conditions or bits: with `neutral` the other one, with `absorbing` that.
Values simplify_lattice(SimplifyContext& c, double neutral, double absorbing) {
  if (c.operand(0) == c.operand(1)) return c.operand(0);
  for (const std::size_t i : {0U, 1U}) {
    if (is_number(c, c.operand(i), neutral)) return c.operand(1 - i);
    if (is_number(c, c.operand(i), absorbing)) return c.operand(i);
  }
  return simplify_elementwise(c);
}

}  // namespace

// -(-x) = x; -(x c) = x (-c)
Values simplify_neg(SimplifyContext& c) {
  if (const auto x = negated(c, c.operand())) return *x;
  if (const auto product = c.producer(c.operand(), mul); product && is_real(c.result_type()) && !c.shared()) {
    const Value x = c.input(*product, 0), y = c.input(*product, 1);
    if (const auto factor = number_of(c, y)) return ops::mul(x, number_like(c, y, -*factor));
    if (const auto factor = number_of(c, x)) return ops::mul(y, number_like(c, x, -*factor));
  }
  if (const auto difference = c.producer(c.operand(), sub); difference && c.fast_math() && !c.shared()) {
    const Value x = c.input(*difference, 0);
    return ops::sub(c.input(*difference, 1), x);
  }
  return simplify_elementwise(c);
}

// x + (-0) = x; x + (-y) = x - y
Values simplify_add(SimplifyContext& c) {
  if (Values number = number_of_numbers(c, std::plus<>()); !number.empty()) return number;
  const Value x = c.operand(0), y = c.operand(1);
  if (is_neutral_zero(c, y)) return x;
  if (is_neutral_zero(c, x)) return y;
  if (const auto opposite = negated(c, y)) return ops::sub(x, *opposite);
  if (const auto opposite = negated(c, x)) return ops::sub(y, *opposite);
  if (Values joined = sum_of_stretches(c); !joined.empty()) return joined;
  if (Values scattered = sum_with_scattered(c); !scattered.empty()) return scattered;
  return simplify_elementwise(c);
}

// x - 0 = x; -0 - x = -x; x - (-y) = x + y
Values simplify_sub(SimplifyContext& c) {
  if (Values number = number_of_numbers(c, std::minus<>()); !number.empty()) return number;
  const Value x = c.operand(0), y = c.operand(1);
  if (is_number(c, y, 0.0) || (c.fast_math() && is_number(c, y, -0.0))) return x;
  if (is_neutral_zero(c, x)) return ops::neg(y);
  if (x == y && is_integer(x.dtype())) return integer_result(c, 0);
  if (const auto opposite = negated(c, y)) return ops::add(x, *opposite);
  if (Values scattered = difference_with_scattered(c); !scattered.empty()) return scattered;
  return simplify_elementwise(c);
}

// x 1 = x; x (-1) = -x; (-x)(-y) = x y; (-x) y = -(x y); (-x) c = x (-c). For integers also x 0 = 0.
Values simplify_mul(SimplifyContext& c) {
  if (!is_real(c.result_type())) return simplify_elementwise(c);
  if (Values number = number_of_numbers(c, std::multiplies<>()); !number.empty()) return number;
  for (const std::size_t i : {1U, 0U}) {
    const Value x = c.operand(1 - i), y = c.operand(i);
    const auto factor = number_of(c, y);
    if (!factor) continue;
    if (*factor == 1.0) return x;
    if (*factor == -1.0) return ops::neg(x);
    if (*factor == 0.0 && (is_integer(x.dtype()) || c.fast_math())) return y;
    if (const auto opposite = negated(c, x)) return ops::mul(*opposite, number_like(c, y, -*factor));
    const auto inner = c.producer(x, mul);
    if (c.fast_math() && inner && is_floating(x.dtype())) {  // (x a) b = x (a b)
      const Value left = c.input(*inner, 0), right = c.input(*inner, 1);
      if (const auto other = number_of(c, right)) return ops::mul(left, number_like(c, y, *factor * *other));
      if (const auto other = number_of(c, left)) return ops::mul(right, number_like(c, y, *factor * *other));
    }
    const auto sum = c.producer(x, add);
    if (c.fast_math() && sum && c.input(*sum, 0) == c.input(*sum, 1) &&
        is_floating(x.dtype())) {  // (x + x) c
      const Value term = c.input(*sum);
      return ops::mul(term, number_like(c, y, 2 * *factor));
    }
  }
  const Value x = c.operand(0), y = c.operand(1);
  const auto opposite_x = negated(c, x), opposite_y = negated(c, y);
  if (opposite_x && opposite_y) return ops::mul(*opposite_x, *opposite_y);
  if (opposite_x && !c.shared(0)) return ops::neg(ops::mul(*opposite_x, y));
  if (opposite_y && !c.shared(1)) return ops::neg(ops::mul(x, *opposite_y));
  if (Values product = product_of_scaled(c); !product.empty()) return product;
  return simplify_elementwise(c);
}

// x / 1 = x; x / (-1) = -x; x / 2^k = x 2^-k; (-x) / (-y) = x / y; (-x) / y = -(x / y)
Values simplify_div(SimplifyContext& c) {
  const Value x = c.operand(0), y = c.operand(1);
  if (!is_real(c.result_type())) return simplify_elementwise(c);
  if (const auto divisor = number_of(c, y)) {
    if (*divisor == 1.0) return x;
    if (*divisor == -1.0) return ops::neg(x);
    const bool inverts =
        c.fast_math() && is_floating(x.dtype()) && *divisor != 0.0 && std::isfinite(*divisor);
    if (inverts || has_exact_reciprocal(x.dtype(), *divisor))
      return ops::mul(x, number_like(c, y, 1.0 / *divisor));
  }
  if (is_floating(x.dtype())) {
    const auto opposite_x = negated(c, x), opposite_y = negated(c, y);
    if (opposite_x && opposite_y) return ops::div(*opposite_x, *opposite_y);
    if (opposite_x && !c.shared(0)) return ops::neg(ops::div(*opposite_x, y));
    if (opposite_y && !c.shared(1)) return ops::neg(ops::div(x, *opposite_y));
  }
  return simplify_elementwise(c);
}

namespace {

// As for products and quotients, except for the sign of zeros: (-x)(-y) = x y; (-x) y = -(x y)
Values with_signs_outside(SimplifyContext& c) {
  const Value x = c.operand(0), y = c.operand(1);
  const auto opposite_x = negated(c, x), opposite_y = negated(c, y);
  const auto emitted = [&](Value a, Value b) { return c.emitter().emit_one(c.op(), std::array{a, b}); };
  if (opposite_x && opposite_y) return emitted(*opposite_x, *opposite_y);
  if (opposite_x && !c.shared(0)) return ops::neg(emitted(*opposite_x, y));
  if (opposite_y && !c.shared(1)) return ops::neg(emitted(x, *opposite_y));
  return simplify_elementwise(c);
}

}  // namespace

// A finite factor that is not 0 makes it a product, in which a zero may have the other sign; 0 y = 0.
Values simplify_multiply_no_nan(SimplifyContext& c) {
  if (!is_real(c.result_type())) return simplify_elementwise(c);
  const Value x = c.operand(0), y = c.operand(1);
  const auto first = number_of(c, x), second = number_of(c, y);
  if (first && *first == 0.0) return x;
  if (second && *second == 0.0 && c.op().boolean("both")) return y;
  if ((first && std::isfinite(*first)) || (second && std::isfinite(*second))) return ops::mul(x, y);
  return with_signs_outside(c);
}

// A divisor other than 0 and NaN makes it a quotient: a zero may have the other sign.
Values simplify_divide_no_nan(SimplifyContext& c) {
  if (!is_real(c.result_type())) return simplify_elementwise(c);
  const auto divisor = number_of(c, c.operand(1));
  if (divisor && !std::isnan(*divisor) && *divisor != 0.0) return ops::div(c.operand(0), c.operand(1));
  return with_signs_outside(c);
}

// f(-x) = f(x); for real numbers f(|x|) = f(x)
Values simplify_even(SimplifyContext& c) {
  Value x = c.operand();
  if (const auto made = c.producer(x, abs); made && is_real(c.input(*made).type())) x = c.input(*made);
  if (const auto opposite = negated(c, x)) x = *opposite;
  if (x == c.operand()) return simplify_elementwise(c);
  return c.emitter().emit(c.op(), {&x, 1});
}

// x^0 = 1, x^1 = x
Values simplify_integer_pow(SimplifyContext& c) {
  const std::int64_t y = c.op().integer("y");
  if (y == 1 && is_real(c.result_type())) return c.operand();
  if (y == 0 && is_real(c.result_type())) return number_like(c, c.operand(), 1.0);
  return simplify_elementwise(c);
}

// (x < 0 ? p : 1) / (1 + p), p = e^-|x|
Values simplify_logistic(SimplifyContext& c) {
  const DType dtype = c.result_type().dtype();
  if (dtype != f32 && dtype != f64) return simplify_elementwise(c);
  const Value x = c.operand(), one = number_like(c, x, 1.0);
  const Value power = ops::exp(-ops::abs(x));
  const Value negative = ops::lt(x, number_like(c, x, 0.0));
  const Value above = ops::select_n(negative, one, power);
  return above / (one + power);
}

// A comparison of two numbers
Values simplify_comparison(SimplifyContext& c) {
  const std::optional<double> x = number_of(c, c.operand(0)), y = x ? number_of(c, c.operand(1)) : x;
  if (!y) return simplify_elementwise(c);
  const Primitive* const primitive = &c.op().primitive();
  const bool holds = primitive == &eq   ? *x == *y
                     : primitive == &ne ? *x != *y
                     : primitive == &lt ? *x < *y
                     : primitive == &le ? *x <= *y
                     : primitive == &gt ? *x > *y
                                        : *x >= *y;
  return filled(c, c.result_type(), Literal::scalar(bool_, std::int64_t{holds}));
}

Values simplify_idempotent(SimplifyContext& c) {
  return c.operand(0) == c.operand(1) ? Values(c.operand(0)) : simplify_elementwise(c);
}

Values simplify_and(SimplifyContext& c) {
  return simplify_lattice(c, is_bool(c.result_type().dtype()) ? 1.0 : -1.0, 0.0);
}
Values simplify_or(SimplifyContext& c) {
  return simplify_lattice(c, 0.0, is_bool(c.result_type().dtype()) ? 1.0 : -1.0);
}
// x xor 0 = x; x xor x = 0; x xor true = not x
Values simplify_xor(SimplifyContext& c) {
  if (c.operand(0) == c.operand(1)) return integer_result(c, 0);
  const double all = is_bool(c.result_type().dtype()) ? 1.0 : -1.0;
  for (const std::size_t i : {0U, 1U}) {
    if (is_number(c, c.operand(i), 0.0)) return c.operand(1 - i);
    if (is_number(c, c.operand(i), all)) return ops::logical_not(c.operand(1 - i));
  }
  return simplify_elementwise(c);
}

// not not x = x; not (x = y) is x != y, and vice versa; for integers also the order comparisons
Values simplify_not(SimplifyContext& c) {
  if (const auto made = c.producer(c.operand(), not_)) return c.input(*made);
  const auto made = c.producer(c.operand());
  if (made && made->num_inputs() == 2 && !c.shared()) {
    const Value x = c.input(*made, 0), y = c.input(*made, 1);
    const Primitive* const primitive = &made->primitive();
    if (primitive == &eq) return ops::ne(x, y);
    if (primitive == &ne) return ops::eq(x, y);
    if (is_integer(x.dtype())) {
      if (primitive == &lt) return ops::ge(x, y);
      if (primitive == &le) return ops::gt(x, y);
      if (primitive == &gt) return ops::le(x, y);
      if (primitive == &ge) return ops::lt(x, y);
    }
  }
  return simplify_elementwise(c);
}

// One case for all; the case that a constant chooses; not p chooses the other one; a case that the same
// condition has chosen before
Values simplify_select_n(SimplifyContext& c) {
  const Value which = c.operand(0);
  const std::size_t cases = c.num_operands() - 1;
  bool equal = true;
  for (std::size_t i = 2; i <= cases; ++i) equal = equal && c.operand(i) == c.operand(1);
  if (equal) return c.operand(1);
  if (const auto chosen = number_of(c, which)) {
    const double last = static_cast<double>(cases - 1);
    return c.operand(1 + static_cast<std::size_t>(std::fmin(std::fmax(*chosen, 0.0), last)));
  }
  if (cases == 2 && is_bool(which.dtype())) {
    const Value on_false = c.operand(1), on_true = c.operand(2);
    if (const auto opposite = c.producer(which, not_))
      return ops::select_n(c.input(*opposite), on_true, on_false);
    const auto first = c.producer(on_false, select_n), second = c.producer(on_true, select_n);
    const bool again_first = first && c.input(*first) == which,
               again_second = second && c.input(*second) == which;
    if (again_first || again_second) {
      return ops::select_n(which, again_first ? c.input(*first, 1) : on_false,
                           again_second ? c.input(*second, 2) : on_true);
    }
    if (const auto mask = mask_of_counts(c, which, c.result_type().dtype()))
      return ops::select_n(*mask, on_false, on_true);
  }
  return simplify_elementwise(c);
}

namespace {

// Does every number of `from` have an equal one in `to`, to which it is converted?
bool keeps_values(DType from, DType to) {
  if (from == to) return true;
  if (is_bool(from)) return true;
  const DType part = real_dtype(to);
  switch (from) {
    case DType::i32: return to == i64 || part == f64;
    case DType::f16: return part == f32 || part == f64;
    case DType::bf16: return part == f32 || part == f64;
    case DType::f32: return part == f64 || to == c64;
    case DType::f64: return to == c128;
    case DType::c64: return to == c128;
    default: return false;
  }
}

}  // namespace

// To the dtype that x has, x; over a dtype in between that holds all values of x, at once; 16 bits that are
// padded or scattered into zeros are first made f32
Values simplify_convert(SimplifyContext& c) {
  const DType to = c.op().dtype("new_dtype");
  const Value x = c.operand();
  if (x.dtype() == to) return x;
  if (const auto made = c.producer(x, convert_element_type)) {
    const Value source = c.input(*made);
    if (keeps_values(source.dtype(), x.dtype())) return ops::convert_element_type(source, to);
  }
  if (to == f32 && accumulation_dtype(x.dtype()) == f32 && x.dtype() != f32) {
    if (Values padded = widened_stretch(c, to); !padded.empty()) return padded;
    if (Values scattered = widened_scattered(c, to); !scattered.empty()) return scattered;
  }
  if (is_bool(x.dtype())) {
    if (const auto mask = mask_of_counts(c, x, to)) return ops::convert_element_type(*mask, to);
  }
  return simplify_elementwise(c);
}

// Re(x + y i) = x; Re(conj z) = Re z
Values simplify_real(SimplifyContext& c) {
  if (const auto made = c.producer(c.operand(), complex)) return c.input(*made, 0);
  if (const auto made = c.producer(c.operand(), conj)) return ops::real(c.input(*made));
  return simplify_elementwise(c);
}
// Im(x + y i) = y; Im(conj z) = -Im z
Values simplify_imag(SimplifyContext& c) {
  if (const auto made = c.producer(c.operand(), complex)) return c.input(*made, 1);
  if (const auto made = c.producer(c.operand(), conj)) return ops::neg(ops::imag(c.input(*made)));
  return simplify_elementwise(c);
}
// Re z + Im z i = z
Values simplify_complex(SimplifyContext& c) {
  const auto re = c.producer(c.operand(0), real), im = c.producer(c.operand(1), imag);
  if (re && im && c.input(*re) == c.input(*im) && c.input(*re).type() == c.result_type()) return c.input(*re);
  return simplify_elementwise(c);
}
// conj(conj z) = z
Values simplify_conj(SimplifyContext& c) {
  if (const auto made = c.producer(c.operand(), conj)) return c.input(*made);
  return simplify_elementwise(c);
}

}  // namespace tidu::prim
