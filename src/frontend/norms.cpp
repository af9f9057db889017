// norms.cpp - see norms.hpp.
//
// Note [Scaled squares]: ‖x‖ = r / c with r² = Σ (c x)², where c is a power of two: 1 if the plain sum of
// squares is far from both ends of the range, else one that brings it there (Blue, A portable Fortran program
// to find the Euclidean norm of a vector, 1978, with one scale for a vector instead of one for an element). A
// second sum over a short vector costs little, since it is in cache; that over a long one is a branch that is
// not taken.
//
// Note [Derivatives of a length]: with the direction u = c x / r,
//   d‖x‖ = Σ u dx,   du = (dx - u Σ u dx) / ‖x‖,   u = 0 and du = 0 where ‖x‖ = 0.
// A cotangent is multiplied by u alone, whose elements are at most 1; the chain rule over squares and root
// would compute ct x first. u is x times two factors, and the larger factor of 1 / ‖x‖ counts as constant. So
// the derivative of the other one is multiplied by x times the constant, which is at most 1 again.
#include "frontend/norms.hpp"

#include <cmath>
#include <limits>

#include "frontend/broadcast.hpp"
#include "primitives/custom_derivative.hpp"
#include "tidu/primitives/control_flow.hpp"

namespace tidu::frontend_detail {
namespace {

using prim::differentiated;

constexpr double no_bound = std::numeric_limits<double>::infinity();

// A vector along `axes`, as one real array, or two of a complex one.
struct Lengths {
  Ints axes;
  bool centered;  // of distances from the mean
  bool scaled;    // or are the squares of all numbers within the range?
};

// The range in which the plain sum of squares is right to the last bits, and the factors that bring others
// into it.
struct SafeRange {
  double least, greatest, up, down;
  double min_factor, greatest_factor;  // of 1 / r, so that neither it nor c times it leaves the range
};
SafeRange safe_range_of(DType dtype) {
  if (dtype == f32) return {0x1p-100, 0x1p100, 0x1p100, 0x1p-75, 0x1p-45, 0x1p20};
  return {0x1p-900, 0x1p1000, 0x1p600, 0x1p-600, 0x1p-400, 0x1p400};
}

Value spread_over(Value reduced, const Ints& axes, const Shape& shape) {
  return broadcast(axes.empty() ? reduced : ops::expand_dims(reduced, axes), shape);
}

std::int64_t elements_along(const Shape& shape, const Ints& axes) {
  std::int64_t n = 1;
  for (const std::int64_t axis : axes) n *= shape[static_cast<std::size_t>(axis)];
  return n;
}

Value sum_of_squares(std::span<const Value> parts, const Ints& axes) {
  const Value first = ops::square(parts[0]);
  return ops::reduce_sum(parts.size() == 1 ? first : first + ops::square(parts[1]), axes);
}

Values distances(std::span<const Value> parts, const Lengths& of) {
  Values result;
  for (const Value part : parts) {
    if (!of.centered) {
      result.push_back(part);
      continue;
    }
    const Value total = ops::reduce_sum(part, of.axes);
    const auto n = static_cast<double>(elements_along(part.shape(), of.axes));
    result.push_back(part - spread_over(total / ops::full_like(total, n), of.axes, part.shape()));
  }
  return result;
}

Value at_most(Value x, double bound) { return ops::le(x, ops::full_like(x, bound)); }
Value at_least(Value x, double bound) { return ops::ge(x, ops::full_like(x, bound)); }

// Are the sums of all vectors within the range?
Value all_within(Value sums, const SafeRange& range) {
  Ints axes;
  for (std::size_t i = 0; i < sums.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  const Value least = axes.empty() ? sums : ops::reduce_min(sums, axes);
  const Value greatest = axes.empty() ? sums : ops::reduce_max(sums, axes);
  const Value not_small = at_least(least, range.least);
  return ops::logical_and(not_small, at_most(greatest, range.greatest));
}

// The power of two that brings a vector with that sum of squares into the range.
Value scale_of(Value sum) {
  const SafeRange range = safe_range_of(sum.dtype());
  const auto number = [&](double value) { return ops::full_like(sum, value); };
  const Value one = number(1.0), down = number(range.down), up = number(range.up);
  const Value large = ops::gt(sum, number(range.greatest)), small = ops::lt(sum, number(range.least));
  return ops::select_n(small, ops::select_n(large, one, down), up);
}

Value sum_of_scaled_squares(Values x, Value c, const Ints& axes) {
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = x[k] * spread_over(c, axes, x[k].shape());
  return sum_of_squares(x, axes);
}

// The sum of the squares of c x, which is not made where all plain sums are within the range.
Value scaled_sum_where_needed(std::span<const Value> parts, Value plain, const Lengths& of) {
  GraphBuilder::Options options;
  options.record_where = false;
  const PrimitiveSet& primitives = plain.emitter()->primitives();
  GraphBuilder scaled("scaled squares", primitives, options), same("squares", primitives, options);
  Values operands(parts), in_scaled, in_same;
  operands.push_back(plain);
  for (const Value operand : operands) {
    const std::string name = detail::str("x", in_scaled.size());
    in_scaled.push_back(scaled.input(name, operand.type()));
    in_same.push_back(same.input(name, operand.type()));
  }
  const std::size_t last = parts.size();
  const Value c = scale_of(in_scaled[last]);
  const Value sum = sum_of_scaled_squares(distances(std::span(in_scaled).first(last), of), c, of.axes);
  const Graph branches[] = {scaled.build({sum}), same.build({in_same[last]})};
  return ops::cond(all_within(plain, safe_range_of(plain.dtype())), branches, operands)[0];
}

// Factors of x > 0; the second is 1 except at the ends of the range.
Values factors_of(Value x) {
  const SafeRange range = safe_range_of(x.dtype());
  const auto number = [&](double value) { return ops::full_like(x, value); };
  const Value least = number(range.min_factor), greatest = number(range.greatest_factor), one = number(1.0);
  const Value more = x * number(1.0 / range.greatest_factor), less = x * number(1.0 / range.min_factor);
  const Value above = ops::gt(x, greatest), below = ops::lt(x, least);
  const Value near = ops::clamp(least, x, greatest);
  return {near, ops::select_n(below, ops::select_n(above, one, more), less)};
}

// ‖x‖, and two factors of 1 / ‖x‖, which itself may be outside of the range: one that is near to it, and one
// that is near 1, or 0 where ‖x‖ is.
Values length_and_factors(std::span<const Value> parts, const Lengths& of) {
  constexpr std::int64_t short_vector = 64;
  const Values x = distances(parts, of);
  const Value plain = sum_of_squares(x, of.axes);
  const Value c = of.scaled ? scale_of(plain) : ops::full_like(plain, 1.0);
  Value sum = plain;
  if (of.scaled) {
    sum = elements_along(x[0].shape(), of.axes) <= short_vector ? sum_of_scaled_squares(x, c, of.axes)
                                                                : scaled_sum_where_needed(parts, plain, of);
  }
  const Value zero = ops::full_like(sum, 0.0), one = ops::full_like(sum, 1.0), none = ops::eq(sum, zero);
  const Value r = ops::sqrt(ops::select_n(none, sum, one));
  const Values factors = factors_of(ops::reciprocal(r));
  return {ops::select_n(none, r / c, zero), c * factors[0], ops::select_n(none, factors[1], zero)};
}

// The direction u, of elements that are at most 1.
Value direction_of(Value x, Value near, Value rest, const Ints& axes) {
  const Value scaled = x * spread_over(near, axes, x.shape());
  return scaled * spread_over(rest, axes, x.shape());
}

// Σ u dx as one operation that keeps x and the two factors instead of u, which it makes again.
Value along_direction(std::span<const Value> x, Value near, Value rest, std::span<const Value> dx,
                      const Ints& axes) {
  GraphBuilder::Options options;
  options.record_where = false;
  const PrimitiveSet& primitives = near.emitter()->primitives();
  GraphBuilder forward("along", primitives, options), backward("along transposed", primitives, options);
  const auto residuals = [&](GraphBuilder& builder) {
    Values inputs;
    for (const Value part : x) inputs.push_back(builder.input(detail::str("x", inputs.size()), part.type()));
    inputs.push_back(builder.input("near", near.type()));
    inputs.push_back(builder.input("rest", rest.type()));
    return inputs;
  };
  const Values in_forward = residuals(forward), in_backward = residuals(backward);
  const Value cotangent = backward.input("ct", near.type());
  const std::size_t n = x.size();
  std::optional<Value> terms;
  Values cotangents, operands(x);
  for (std::size_t k = 0; k < n; ++k) {
    const Value u = direction_of(in_forward[k], in_forward[n], in_forward[n + 1], axes);
    const Value term = forward.input(detail::str("dx", k), dx[k].type()) * u;
    terms = terms ? *terms + term : term;
    const Value again = direction_of(in_backward[k], in_backward[n], in_backward[n + 1], axes);
    cotangents.push_back(spread_over(cotangent, axes, x[k].shape()) * again);
  }
  operands.push_back(near);
  operands.push_back(rest);
  for (const Value part : dx) operands.push_back(part);
  return ops::linear_call(forward.build({ops::reduce_sum(*terms, axes)}), backward.build(cotangents), n + 2,
                          operands)[0];
}

// x / 0 = 0
Value divided(Value x, Value length) {
  const Value none = ops::eq(length, ops::full_like(length, 0.0));
  return x / ops::select_n(none, length, ops::full_like(length, no_bound));
}

// length_and_factors with a rule: the first factor counts as constant.
Values differentiated_lengths(std::span<const Value> parts, const Lengths& of) {
  return differentiated(
      "lengths", parts, [&](const Values& v) { return length_and_factors(v, of); },
      [&](const Values& v, const Values& result, const Values& dv) {
        const Value length = result[0], near = result[1], rest = result[2];
        const Values x = distances(v, of), dx = distances(dv, of);
        const Value change = along_direction(x, near, rest, dx, of.axes);
        return Values{change, zeros(*near.emitter(), near.type()), change * -divided(rest, length)};
      });
}

Value euclidean(Value x, const Ints& axes, bool centered) {
  const Value wide = widened(x);
  Values parts{wide};
  if (is_complex(wide.dtype())) parts = {ops::real(wide), ops::imag(wide)};
  const Lengths of{axes, centered, x.dtype() != f16};
  const Value length = differentiated(
      "norm", parts, [&](const Values& v) { return Values{differentiated_lengths(v, of)[0]}; },
      [&](const Values& v, const Values&, const Values& dv) {
        const Values made = differentiated_lengths(v, of);
        const Values y = distances(v, of), dy = distances(dv, of);
        return Values{along_direction(y, made[1], made[2], dy, axes)};
      })[0];
  return convert(length, is_complex(x.dtype()) ? length.dtype() : x.dtype());
}

// ‖a‖ of order p, for numbers a >= 0 divided by the greatest (for a negative order by the least), which
// counts as constant; d‖a‖ = Σ (a / ‖a‖)^(p-1) da, without terms for an element 0 and for the length 0.
Values power_length_and_slopes(Value a, double p, const Ints& axes) {
  const Value extreme = p < 0.0 ? ops::reduce_min(a, axes) : ops::reduce_max(a, axes);
  const Value m = ops::stop_gradient(extreme), one = ops::full_like(m, 1.0);
  const Value none = ops::eq(m, ops::full_like(m, 0.0));
  const Value endless = ops::eq(m, ops::full_like(m, no_bound));
  const Value scale = ops::select_n(ops::logical_or(none, endless), m, one);
  const Value zero = ops::full_like(a, 0.0), is_zero = ops::eq(a, zero);
  const Value no_part = ops::logical_or(is_zero, spread_over(none, axes, a.shape()));
  const Value relative = a / spread_over(scale, axes, a.shape());
  const Value ratio = ops::select_n(no_part, relative, ops::full_like(a, 1.0));
  const Value powers = ops::select_n(no_part, ops::pow(ratio, ops::full_like(ratio, p)), zero);
  const Value total = ops::reduce_sum(powers, axes);
  const Value positive = ops::select_n(none, total, one);
  const Value length = ops::pow(positive, ops::full_like(total, 1.0 / p));
  const Value share = ratio / spread_over(length, axes, a.shape());
  const Value slopes = ops::pow(share, ops::full_like(share, p - 1.0));
  const Value scaled = length * scale, no_length = ops::full_like(m, 0.0);
  return {ops::select_n(none, scaled, no_length), ops::select_n(no_part, slopes, zero)};
}

Value power_norm(Value a, double p, const Ints& axes) {
  return differentiated(
      "norm", {&a, 1}, [&](const Values& v) { return Values{power_length_and_slopes(v[0], p, axes)[0]}; },
      [&](const Values& v, const Values&, const Values& dv) {
        return Values{ops::reduce_sum(dv[0] * power_length_and_slopes(v[0], p, axes)[1], axes)};
      })[0];
}

}  // namespace

Value norm_of(Value x, double ord, const Ints& axes) {
  if (ord == 2.0) return euclidean(x, axes, false);
  const Value size = ops::abs(widened(x));
  const auto narrowed = [&](Value length) {
    return convert(length, is_complex(x.dtype()) ? length.dtype() : x.dtype());
  };
  // Without elements it is 0, as all norms are.
  if (x.type().size() == 0 && ord >= 0.0) return narrowed(ops::reduce_sum(size, axes));
  if (ord == INFINITY) return narrowed(ops::reduce_max(size, axes));
  if (ord == -INFINITY) return narrowed(ops::reduce_min(size, axes));
  if (ord == 1.0) return narrowed(ops::reduce_sum(size, axes));
  if (ord == 0.0) {
    const Value zero = ops::full_like(size, 0.0);
    return narrowed(ops::reduce_sum(convert(ops::ne(size, zero), size.dtype()), axes));
  }
  return narrowed(power_norm(size, ord, axes));
}

Value deviation_of(Value x, const Ints& axes) { return euclidean(x, axes, true); }

}  // namespace tidu::frontend_detail
