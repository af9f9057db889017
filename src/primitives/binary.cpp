// binary.cpp - records of arithmetic and bitwise operations of two operands x and y of one type, with result
// z.
#include <array>

#include "primitives/slopes.hpp"

namespace tidu::prim {
namespace {

constexpr Primitive binary(std::string_view name, Primitive::InferRule infer, Primitive::JvpRule jvp,
                           Primitive::SimplifyRule simplify = simplify_elementwise) {
  return {
      .name = name,
      .arity = 2,
      .traits = Trait::elementwise,
      .infer = infer,
      .jvp = jvp,
      .batch = batch_elementwise,
      .simplify = simplify,
  };
}

constexpr Primitive bitwise(std::string_view name, Primitive::SimplifyRule simplify) {
  return {
      .name = name,
      .arity = 2,
      .traits = Trait::elementwise | Trait::no_tangent,
      .infer = infer_of<kinds::bits>,
      .batch = batch_elementwise,
      .simplify = simplify,
  };
}

Value y_of(const JvpContext& c) { return c.primal(1); }

// dz = t_x a() + t_y b(), of the tangents that are there, by this multiplication. a and b may be of 32 bits
// where the operands have 16.
template <Value (*multiply)(Value, Value, Where), class A, class B>
Derivatives partials(JvpContext& c, A&& a, B&& b) {
  const DType dtype = x_of(c).dtype();
  const std::optional<Value> from_x =
      map(c.tangent(0), [&](Value t) { return multiply(t, narrow(a(), dtype), ops::Source::current()); });
  const std::optional<Value> from_y =
      map(c.tangent(1), [&](Value t) { return multiply(t, narrow(b(), dtype), ops::Source::current()); });
  return sum(from_x, from_y);
}

// The weight of `chosen` where z is the greater (or lesser) of `chosen` and `other`: 1, 1/2 in a tie, else 0.
Value share(Value chosen, Value other, Value z) {
  const Value tie = ops::eq(other, z), whole = like(z, 1.0);
  const Value when_chosen = ops::select_n(tie, whole, like(z, 0.5));
  const Value is_chosen = ops::eq(chosen, z);
  return ops::select_n(is_chosen, like(z, 0.0), when_chosen);
}

Derivatives jvp_extremum(JvpContext& c) {
  const Value x = x_of(c), y = y_of(c), z = z_of(c);
  return partials<ops::mul>(
      c, [&] { return share(x, y, z); }, [&] { return share(y, x, z); });
}

constexpr AttributeSpec multiply_no_nan_attributes[] = {
    {.name = "both", .kind = AttributeKind::boolean, .has_default = true}};

Value multiply_no_nan_of_both(Value x, Value y, Where = Where()) {
  static const Op op = Op::make(multiply_no_nan, {{"both", true}});
  return x.emitter()->emit_one(op, std::array{x, y});
}

// The dividend's tangent and cotangent are divided by y so that a 0 stays one: by divide_no_nan for y = 0.
// `divide` is the primitive's own function. `multiply` multiplies the tangent of y by its factor, which is 0
// if the dividend of divide_no_nan is.
template <Value (*divide)(Value, Value, Where), Value (*multiply)(Value, Value, Where)>
Derivatives jvp_quotient(JvpContext& c) {
  constexpr Where where{};
  if (has_16_bits(x_of(c).dtype())) {  // t / y alone may overflow where the derivative by y does not
    const std::optional<Value> from_x =
        map(c.tangent(0), [&](Value t) { return ops::divide_no_nan(t, y_of(c), where); });
    const std::optional<Value> from_y = map(c.tangent(1), [&](Value t) {
      const Value x = wide(x_of(c)), y = wide(y_of(c));
      const Value quotient = divide(x, y, where), slope = divide(quotient, y, where);
      return multiply(t, narrow(-slope, t.dtype()), where);
    });
    return sum(from_x, from_y);
  }
  if (!c.active(0)) return multiply(*c.tangent(1), -divide(z_of(c), y_of(c), where), where);
  if (!c.active(1)) return ops::divide_no_nan(*c.tangent(0), y_of(c), where);
  const Value change = *c.tangent(0) - multiply(*c.tangent(1), z_of(c), where);
  return ops::divide_no_nan(change, y_of(c), where);
}
Derivatives transpose_quotient(TransposeContext& c) {
  return {ops::divide_no_nan(*c.cotangent(), conjugate(c.operand(1))), std::nullopt};
}

}  // namespace

// z = x + y          linear: ct_x = ct_y = ct
constinit const Primitive add{
    .name = "add",
    .arity = 2,
    .traits = Trait::elementwise | Trait::additive,
    .linearity = linearity::linear,
    .infer = infer_of<kinds::number>,
    .jvp = [](JvpContext& c) -> Derivatives { return sum(c.tangent(0), c.tangent(1)); },
    .transpose = [](TransposeContext& c) -> Derivatives {
      Derivatives result = Derivatives::absent(2);
      for (std::size_t i = 0; i < 2; ++i) {
        if (c.linear(i)) result.set(i, c.cotangent());
      }
      return result;
    },
    .batch = batch_elementwise,
    .simplify = simplify_add,
};

// z = x - y          linear: ct_x = ct, ct_y = -ct
constinit const Primitive sub{
    .name = "sub",
    .arity = 2,
    .traits = Trait::elementwise,
    .linearity = linearity::linear,
    .infer = infer_of<kinds::number>,
    .jvp = [](JvpContext& c) -> Derivatives {
      if (!c.active(1)) return c.tangent(0);
      return c.active(0) ? ops::sub(*c.tangent(0), *c.tangent(1)) : ops::neg(*c.tangent(1));
    },
    .transpose = [](TransposeContext& c) -> Derivatives {
      Derivatives result = Derivatives::absent(2);
      if (c.linear(0)) result.set(0, c.cotangent());
      if (c.linear(1)) result.set(1, ops::neg(*c.cotangent()));
      return result;
    },
    .batch = batch_elementwise,
    .simplify = simplify_sub,
};

// z = x y            bilinear: ct_x = ct conj(y), ct_y = ct conj(x)
constinit const Primitive mul{
    .name = "mul",
    .arity = 2,
    .traits = Trait::elementwise,
    .linearity = linearity::bilinear,
    .infer = infer_of<kinds::number>,
    .transpose = [](TransposeContext& c) -> Derivatives {
      if (c.linear(0)) return {ops::mul(*c.cotangent(), conjugate(c.operand(1))), std::nullopt};
      return {std::nullopt, ops::mul(*c.cotangent(), conjugate(c.operand(0)))};
    },
    .batch = batch_elementwise,
    .simplify = simplify_mul,
};

// z = x / y          dz = (dx - z dy) / y; linear in x: ct_x = ct / conj(y), both 0 where the dividend is
constinit const Primitive div{
    .name = "div",
    .arity = 2,
    .traits = Trait::elementwise,
    .linearity = linearity::linear_in(0b01),
    .infer = infer_of<kinds::number>,
    .jvp = jvp_quotient<ops::div, ops::multiply_no_nan>,
    .transpose = transpose_quotient,
    .batch = batch_elementwise,
    .simplify = simplify_div,
};

// z = x y, but x if x is 0, whatever y is; with `both`, also y if y is 0, whatever x is
// (tf.math.multiply_no_nan, with its operands exchanged). bilinear: dz = dx y + x dy, ct_x = ct conj(y), ct_y
// = conj(x) ct, the second terms with `both`: 0 if x = 0 and if dy or ct is 0
constinit const Primitive multiply_no_nan{
    .name = "multiply_no_nan",
    .arity = 2,
    .attributes = multiply_no_nan_attributes,
    .traits = Trait::elementwise | Trait::inexact,
    .linearity = linearity::bilinear,
    .infer = infer_of<kinds::inexact>,
    .jvp = [](JvpContext& c) -> Derivatives {
      const std::optional<Value> from_x = map(c.tangent(0), [&](Value t) {
        return c.emitter().emit_one(c.op(), std::array{t, y_of(c)});
      });
      const std::optional<Value> from_y =
          map(c.tangent(1), [&](Value t) { return multiply_no_nan_of_both(x_of(c), t); });
      return sum(from_x, from_y);
    },
    .transpose = [](TransposeContext& c) -> Derivatives {
      if (c.linear(0)) {
        const Value y = conjugate(c.operand(1));
        return {c.emitter().emit_one(c.op(), std::array{*c.cotangent(), y}), std::nullopt};
      }
      return {std::nullopt, multiply_no_nan_of_both(conjugate(c.operand(0)), *c.cotangent())};
    },
    .batch = batch_elementwise,
    .simplify = simplify_multiply_no_nan,
};

// z = x / y, and where x is 0, whatever y is, x           dz and ct_x as of div
constinit const Primitive divide_no_nan{
    .name = "divide_no_nan",
    .arity = 2,
    .traits = Trait::elementwise | Trait::inexact,
    .linearity = linearity::linear_in(0b01),
    .infer = infer_of<kinds::inexact>,
    .jvp = jvp_quotient<ops::divide_no_nan, multiply_no_nan_of_both>,
    .transpose = transpose_quotient,
    .batch = batch_elementwise,
    .simplify = simplify_divide_no_nan,
};

// z = x^y            dz = y x^(y-1) dx + z ln(x) dy, with ln(1) for ln(0): if y is an integer, all
// derivatives by x at x = 0 are those of the polynomial
constinit const Primitive pow{
    .name = "pow",
    .arity = 2,
    .traits = Trait::elementwise | Trait::inexact,
    .infer = infer_of<kinds::inexact>,
    .jvp = [](JvpContext& c) -> Derivatives {
      const Value x = wide(x_of(c)), y = wide(y_of(c));
      return partials<ops::multiply_no_nan>(
          c, [&] { return slope_of_pow(x, y); },
          [&] {
            const Value is_zero = ops::eq(x, like(x, 0.0));
            const Value z = wide(z_of(c));
            return ops::multiply_no_nan(z, ops::log(ops::select_n(is_zero, x, like(x, 1.0))));
          });
    },
    .batch = batch_elementwise,
    .simplify = simplify_elementwise,
};

// z = max(x, y)      dz = dx where x > y, dy where x < y, (dx + dy) / 2 where x = y
constinit const Primitive max = binary("max", infer_of<kinds::ordered>, jvp_extremum, simplify_idempotent);

// z = min(x, y)      dz = dx where x < y, dy where x > y, (dx + dy) / 2 where x = y
constinit const Primitive min = binary("min", infer_of<kinds::ordered>, jvp_extremum, simplify_idempotent);

// z = atan2(x, y), the angle of y + x i        dz = (y dx - x dy) / (x^2 + y^2), of x and y divided by the
// greater of both: the squares neither overflow nor underflow. That counts as constant, since it cancels.
constinit const Primitive atan2{
    .name = "atan2",
    .arity = 2,
    .traits = Trait::elementwise | Trait::inexact,
    .infer = infer_of<Kinds::floats>,
    .jvp = [](JvpContext& c) -> Derivatives {
      const Value x = wide(x_of(c)), y = wide(y_of(c)), one = like(x, 1.0);
      const Value size = ops::abs(x), greater = ops::stop_gradient(ops::max(size, ops::abs(y)));
      const Value finite = ops::is_finite(greater);
      const Value ordinary = ops::logical_and(ops::gt(greater, like(x, 0.0)), finite);
      const Value scale = ops::select_n(ordinary, one, greater);
      const Value a = x / scale, b = y / scale;
      const Value squared = ops::square(a), norm = squared + ops::square(b);
      return partials<ops::multiply_no_nan>(
          c, [&] { return b / norm / scale; }, [&] { return -(a / norm / scale); });
    },
    .batch = batch_elementwise,
    .simplify = simplify_elementwise,
};

// z = x - y n, n = trunc(x / y)                dz = dx - n dy; n is the whole number next to (x - z) / y,
// where x / y itself may be rounded up to the one above
constinit const Primitive rem = binary("rem", infer_of<kinds::real>, [](JvpContext& c) -> Derivatives {
  if (!c.active(1)) return c.tangent(0);
  const Value x = wide(x_of(c)), multiple = x - wide(z_of(c));
  const Value whole = narrow(ops::round(multiple / wide(y_of(c))), x_of(c).dtype());
  if (!c.active(0)) return ops::multiply_no_nan(*c.tangent(1), -whole);
  return *c.tangent(0) - ops::multiply_no_nan(*c.tangent(1), whole);
});

// z: the number next to x in the direction of y
constinit const Primitive nextafter{
    .name = "nextafter",
    .arity = 2,
    .traits = Trait::elementwise | Trait::inexact | Trait::no_tangent,
    .infer = infer_of<Kinds::floats>,
    .batch = batch_elementwise,
    .simplify = simplify_elementwise,
};

constinit const Primitive and_ = bitwise("and", simplify_and);
constinit const Primitive or_ = bitwise("or", simplify_or);
constinit const Primitive xor_ = bitwise("xor", simplify_xor);

}  // namespace tidu::prim
