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
// would compute ct x first. u is x times two factors, since 1 / ‖x‖ may be outside of the range. The larger
// factor counts as constant: the derivative of the other one is multiplied by x times the constant, which is
// at most 1 again. An element that dominates, u² > 3/4, has a small du: see deviations.
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
  bool centered;   // of distances from the mean
  bool scaled;     // or are the squares of all numbers within the range?
  double divisor;  // of the length
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

Values scaled(std::span<const Value> x, Value c, const Ints& axes) {
  Values result;
  for (const Value part : x) result.push_back(part * spread_over(c, axes, part.shape()));
  return result;
}

Values distances(std::span<const Value> parts, const Lengths& of) {
  if (!of.centered) return Values(parts);
  Values result;
  for (const Value part : parts) {
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

// Numbers are scaled before their mean is computed, since their sum may overflow.
Value sum_of_scaled_squares(std::span<const Value> parts, Value c, const Lengths& of) {
  return sum_of_squares(distances(scaled(parts, c, of.axes), of), of.axes);
}

// The sum of the squares of c x, which is not made where all plain sums are within the range.
Value scaled_sum_where_needed(std::span<const Value> parts, Value plain, const Lengths& of) {
  GraphBuilder::Options options;
  options.record_where = false;
  const PrimitiveSet& primitives = plain.emitter()->primitives();
  GraphBuilder again("scaled squares", primitives, options), same("squares", primitives, options);
  Values operands(parts), in_again, in_same;
  operands.push_back(plain);
  for (const Value operand : operands) {
    const std::string name = detail::str("x", in_again.size());
    in_again.push_back(again.input(name, operand.type()));
    in_same.push_back(same.input(name, operand.type()));
  }
  const std::size_t last = parts.size();
  const Value c = scale_of(in_again[last]);
  const Value sum = sum_of_scaled_squares(std::span(in_again).first(last), c, of);
  const Graph branches[] = {again.build({sum}), same.build({in_same[last]})};
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

// A length and two factors with u / divisor = y near rest, for y = x, or for the distances of scaled x from
// their mean. near is far from the ends of the range or most of the product; rest is near 1, or 0 where ‖x‖
// is.
struct Length {
  Value length, near, rest, scale;
};
Value divided(Value x, double divisor) { return divisor == 1.0 ? x : x / ops::full_like(x, divisor); }
Length length_of(const Values& v) { return {v[0], v[1], v[2], v[3]}; }

Values length_and_factors(std::span<const Value> parts, const Lengths& of) {
  constexpr std::int64_t short_vector = 64;
  const Value plain = sum_of_squares(distances(parts, of), of.axes);
  const Value c = of.scaled ? scale_of(plain) : ops::full_like(plain, 1.0);
  Value sum = plain;
  if (of.scaled) {
    const bool is_short = elements_along(parts[0].shape(), of.axes) <= short_vector;
    sum = is_short ? sum_of_scaled_squares(parts, c, of) : scaled_sum_where_needed(parts, plain, of);
  }
  const Value zero = ops::full_like(sum, 0.0), one = ops::full_like(sum, 1.0), none = ops::eq(sum, zero);
  const Value r = ops::sqrt(ops::select_n(none, sum, one));
  const Values factors = factors_of(ops::reciprocal(r));
  const Value length = ops::select_n(none, divided(r, of.divisor) / c, zero);
  const Value near = divided(of.centered ? factors[0] : c * factors[0], of.divisor);
  return {length, near, ops::select_n(none, factors[1], zero), c};
}

// y of Length.
Values scaled_distances(std::span<const Value> parts, const Length& length, const Lengths& of) {
  if (!of.centered || !of.scaled) return distances(parts, of);
  return distances(scaled(parts, length.scale, of.axes), of);
}

// dx - s Σ g dx over the axes, for slopes g and shares s with Σ s g = 1. An element that dominates, s g >
// 3/4, has Σ g (s dx_there - s_there dx) over the others instead, whose terms do not cancel before they are
// added.
Values deviations(const Values& s, const Values& g, const Values& dx, const Ints& axes) {
  const std::size_t n = s.size();
  const auto total = [&](const Values& terms) {
    const Value first = ops::reduce_sum(terms[0], axes);
    return n == 1 ? first : first + ops::reduce_sum(terms[1], axes);
  };
  Values dominates, weights_of_others, terms_of_others, terms_of_dominant, result;
  for (std::size_t k = 0; k < n; ++k) {
    const Value weight = s[k] * g[k], term = g[k] * dx[k], zero = ops::full_like(weight, 0.0);
    dominates.push_back(ops::gt(weight, ops::full_like(weight, 0.75)));
    weights_of_others.push_back(ops::select_n(dominates[k], weight, zero));
    terms_of_others.push_back(ops::select_n(dominates[k], term, zero));
    terms_of_dominant.push_back(ops::select_n(dominates[k], zero, term));
  }
  const Value weight = total(weights_of_others), others = total(terms_of_others);
  const Value all = others + total(terms_of_dominant);
  for (std::size_t k = 0; k < n; ++k) {
    const auto spread = [&](Value row) { return spread_over(row, axes, s[k].shape()); };
    const Value from_all = s[k] * spread(all), from_others = s[k] * spread(others);
    const Value below = dx[k] * spread(weight);
    result.push_back(ops::select_n(dominates[k], dx[k] - from_all, below - from_others));
  }
  return result;
}

// f(residuals, v), which is linear in v and its own transpose.
template <class F>
Values self_adjoint(const char* name, const Values& residuals, const Values& v, const F& f) {
  GraphBuilder::Options options;
  options.record_where = false;
  GraphBuilder builder(name, v[0].emitter()->primitives(), options);
  Values residuals_in, v_in, operands = residuals;
  for (const Value each : residuals) {
    residuals_in.push_back(builder.input(detail::str("r", residuals_in.size()), each.type()));
  }
  for (const Value each : v) {
    v_in.push_back(builder.input(detail::str("v", v_in.size()), each.type()));
    operands.push_back(each);
  }
  const Graph graph = builder.build(f(residuals_in, v_in));
  return ops::linear_call(graph, graph, residuals.size(), operands);
}

// The direction u / divisor, of elements that are at most 1. Its rule counts the factors as functions of y.
Values direction_of(std::span<const Value> y, Value near, Value rest, const Lengths& of) {
  Values operands(y);
  operands.push_back(near);
  operands.push_back(rest);
  const std::size_t n = y.size();
  const auto multiplied = [&](std::span<const Value> v, const Value* factors) {
    return scaled(scaled(v, factors[0], of.axes), factors[1], of.axes);
  };
  return differentiated(
      "direction", operands, [&](const Values& v) { return multiplied(std::span(v).first(n), &v[n]); },
      [&](const Values& v, const Values& direction, const Values& dv) {
        Values residuals;
        for (const Value part : direction) {
          residuals.push_back(of.divisor == 1.0 ? part : part * ops::full_like(part, of.divisor));
        }
        residuals.push_back(v[n]);
        residuals.push_back(v[n + 1]);
        return self_adjoint("direction tangent", residuals, Values(std::span(dv).first(n)),
                            [&](const Values& r, const Values& dy) {
                              const auto u = Values(std::span(r).first(n));
                              return multiplied(deviations(u, u, dy, of.axes), &r[n]);
                            });
      });
}

// Σ u dx / divisor as one operation that keeps y and the two factors instead of u, which it makes again.
Value along_direction(std::span<const Value> y, Value near, Value rest, std::span<const Value> dx,
                      const Lengths& of) {
  GraphBuilder::Options options;
  options.record_where = false;
  const PrimitiveSet& primitives = near.emitter()->primitives();
  GraphBuilder forward("along", primitives, options), backward("along transposed", primitives, options);
  const std::size_t n = y.size();
  const auto direction = [&](GraphBuilder& builder) {
    Values inputs;
    for (const Value part : y) inputs.push_back(builder.input(detail::str("y", inputs.size()), part.type()));
    const Value near_in = builder.input("near", near.type()), rest_in = builder.input("rest", rest.type());
    return direction_of(inputs, near_in, rest_in, of);
  };
  const Values u = direction(forward), again = direction(backward);
  const Value cotangent = backward.input("ct", near.type());
  std::optional<Value> terms;
  Values cotangents, operands(y);
  for (std::size_t k = 0; k < n; ++k) {
    const Value term = forward.input(detail::str("dx", k), dx[k].type()) * u[k];
    terms = terms ? *terms + term : term;
    cotangents.push_back(spread_over(cotangent, of.axes, y[k].shape()) * again[k]);
  }
  operands.push_back(near);
  operands.push_back(rest);
  for (const Value part : dx) operands.push_back(part);
  return ops::linear_call(forward.build({ops::reduce_sum(*terms, of.axes)}), backward.build(cotangents),
                          n + 2, operands)[0];
}

// length_and_factors with a rule: the first factor and the scale count as constant.
Values differentiated_lengths(std::span<const Value> parts, const Lengths& of) {
  return differentiated(
      "lengths", parts, [&](const Values& v) { return length_and_factors(v, of); },
      [&](const Values& v, const Values& result, const Values& dv) {
        const Length length = length_of(result);
        const Values y = scaled_distances(v, length, of), dy = distances(dv, of);
        const Value change = along_direction(y, length.near, length.rest, dy, of);
        const Value near = of.centered ? length.near * length.scale : length.near;
        const Value squared = ops::full_like(near, of.divisor * of.divisor);
        const Value relative = near * length.rest * squared * length.rest;
        const Value constant = zeros(*near.emitter(), near.type());
        return Values{change, constant, change * -relative, constant};
      });
}

Value euclidean(Value x, const Ints& axes, bool centered, double divisor) {
  const Value wide = widened(x);
  Values parts{wide};
  if (is_complex(wide.dtype())) parts = {ops::real(wide), ops::imag(wide)};
  const Lengths of{axes, centered, x.dtype() != f16, divisor};
  const Value length = differentiated(
      "norm", parts, [&](const Values& v) { return Values{differentiated_lengths(v, of)[0]}; },
      [&](const Values& v, const Values&, const Values& dv) {
        const Length made = length_of(differentiated_lengths(v, of));
        const Values y = scaled_distances(v, made, of), dy = distances(dv, of);
        return Values{along_direction(y, made.near, made.rest, dy, of)};
      })[0];
  return convert(length, is_complex(x.dtype()) ? length.dtype() : x.dtype());
}

// ‖a‖ of order p, for numbers a >= 0 divided by the greatest (for a negative order by the least), which
// counts as constant. The slopes are 0 for an element 0 and for the length 0, and so are their derivatives.
struct PowerNorm {
  Value scale, relative_length, length;  // ‖a‖ / scale
  Value share;                           // a / ‖a‖
  Value no_slope;
};
PowerNorm power_norm_of(Value a, double p, const Ints& axes) {
  const Value extreme = p < 0.0 ? ops::reduce_min(a, axes) : ops::reduce_max(a, axes);
  const Value m = ops::stop_gradient(extreme), one = ops::full_like(m, 1.0);
  const Value none = ops::eq(m, ops::full_like(m, 0.0));
  const Value endless = ops::eq(m, ops::full_like(m, no_bound));
  const Value scale = ops::select_n(ops::logical_or(none, endless), m, one);
  const Value zero = ops::full_like(a, 0.0), is_zero = ops::eq(a, zero);
  const Value no_slope = ops::logical_or(is_zero, spread_over(none, axes, a.shape()));
  const Value relative = a / spread_over(scale, axes, a.shape());
  const Value ratio = ops::select_n(no_slope, relative, ops::full_like(a, 1.0));
  const Value powers = ops::select_n(no_slope, ops::pow(ratio, ops::full_like(ratio, p)), zero);
  const Value positive = ops::select_n(none, ops::reduce_sum(powers, axes), one);
  const Value relative_length = ops::pow(positive, ops::full_like(positive, 1.0 / p));
  const Value scaled = relative_length * scale, no_length = ops::full_like(m, 0.0);
  return {scale, relative_length, ops::select_n(none, scaled, no_length),
          ratio / spread_over(relative_length, axes, a.shape()), no_slope};
}

// The slopes g = s^(p-1), of shares s = a / ‖a‖          dg = (p - 1) s^(p-2) / ‖a‖ (da - s Σ g da)
// The root of the factor is in the range of the dtype even if the factor is not.
Value power_slopes(Value a, double p, const Ints& axes) {
  const auto of_share = [&](const PowerNorm& norm, double exponent) {
    const Value power = ops::pow(norm.share, ops::full_like(norm.share, exponent));
    return ops::select_n(norm.no_slope, power, ops::full_like(power, 0.0));
  };
  return differentiated(
      "norm slopes", {&a, 1},
      [&](const Values& v) { return Values{of_share(power_norm_of(v[0], p, axes), p - 1.0)}; },
      [&](const Values& v, const Values& g, const Values& dv) {
        const PowerNorm norm = power_norm_of(v[0], p, axes);
        const Value root_of_scale = ops::rsqrt(norm.scale), root_of_length = ops::rsqrt(norm.relative_length);
        const Value roots = spread_over(root_of_scale * root_of_length, axes, a.shape());
        const Value root = of_share(norm, (p - 2.0) / 2.0) * roots;
        return self_adjoint("norm slopes tangent", {norm.share, g[0], root}, dv,
                            [&](const Values& r, const Values& da) {
                              const Value change = deviations({r[0]}, {r[1]}, da, axes)[0];
                              const Value once = ops::multiply_no_nan(change, r[2]);
                              const Value other = r[2] * ops::full_like(r[2], p - 1.0);
                              return Values{ops::multiply_no_nan(once, other)};
                            });
      })[0];
}

Value power_norm(Value a, double p, const Ints& axes) {
  return differentiated(
      "norm", {&a, 1}, [&](const Values& v) { return Values{power_norm_of(v[0], p, axes).length}; },
      [&](const Values& v, const Values&, const Values& dv) {
        return Values{ops::reduce_sum(dv[0] * power_slopes(v[0], p, axes), axes)};
      })[0];
}

}  // namespace

Value norm_of(Value x, double ord, const Ints& axes) {
  if (ord == 2.0) return euclidean(x, axes, false, 1.0);
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

Value deviation_of(Value x, const Ints& axes, double divisor) { return euclidean(x, axes, true, divisor); }

}  // namespace tidu::frontend_detail
