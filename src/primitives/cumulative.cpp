// cumulative.cpp - cumsum, cumprod, cummax, cummin and cumlogsumexp along an axis. Derivatives take work that
// grows with the extent n of the axis, in at most some 20 log2(n) operations, and no n x n matrix.
#include <limits>

#include "axes.hpp"
#include "factor_rules.hpp"
#include "slopes.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec cumulative_attributes[] = {{"axis", AttributeKind::integer},
                                                   {"reverse", AttributeKind::boolean}};

void infer_axis(InferContext& c) {
  require_axis(c, "axis", c.op().integer("axis"), c.operand(0).rank());
  c.result(c.operand(0));
}
void infer_number(InferContext& c) {
  require_numeric(c, 0);
  infer_axis(c);
}
void infer_real(InferContext& c) {
  require_real(c, 0);
  infer_axis(c);
}
void infer_floating(InferContext& c) {
  c.require(is_floating(c.operand(0).dtype()), "expected a floating operand, got ", c.operand(0));
  infer_axis(c);
}

Values batch_cumulative(BatchContext& c) {
  return emit_same(c, {{"axis", c.op().integer("axis") + 1}, {"reverse", c.op().boolean("reverse")}},
                   {c.operand(0)});
}

std::size_t axis_of(const JvpContext& c) { return static_cast<std::size_t>(c.op().integer("axis")); }

// Elements first, first + stride, … below last, of one axis.
Value part(Value x, std::size_t axis, std::int64_t first, std::int64_t last, std::int64_t stride = 1) {
  Ints start(x.rank(), 0);
  Ints limit = x.shape();
  Ints strides(x.rank(), 1);
  start[axis] = first;
  limit[axis] = last;
  strides[axis] = stride;
  return ops::slice(x, start, limit, strides);
}

// Adds `low` and `high` positions before and after the elements of one axis.
Value padded(Value x, std::size_t axis, std::int64_t low, std::int64_t high, std::int64_t value = 0) {
  if (low == 0 && high == 0) return x;
  IntLists config(x.rank(), Ints{0, 0, 0});
  config[axis] = {low, high, 0};
  return ops::pad(x, ops::full(*x.emitter(), Type(x.dtype()), static_cast<double>(value)), config);
}

// a_0, b_0, a_1, b_1, …, the first n of them.
Value interleaved(Value a, Value b, std::size_t axis, std::int64_t n) {
  const auto behind = static_cast<std::int64_t>(axis) + 1;
  Shape shape = a.shape();
  shape[axis] *= 2;
  const std::vector<Value> pair{ops::expand_dims(a, {behind}), ops::expand_dims(b, {behind})};
  return part(ops::reshape(ops::concatenate(pair, behind), shape), axis, 0, n);
}

// z_i = w_i z_{i-1} + b_i, z_0 = b_0, along an axis: linear in b.
//
// Note [Linear recurrences]: two steps at once are again such a step, z_{2k+1} = w_{2k+1} w_{2k} z_{2k-1} +
// (w_{2k+1} b_{2k} + b_{2k+1}). So a recurrence of half the length gives every second z, and one step from
// each of those the others; the recurrence of half the length is computed in the same way. It takes
// multiplications and additions only, so it is right with zeros among the w, and differentiable to any order.
// A product of the w may overflow where the b that it multiplies are 0: these stay 0.
// For odd n, a step is added and its result cut off.
Value recurrence(Value w, Value b, std::size_t axis) {
  struct Level {
    Value w, b;  // of the even positions
    std::int64_t n;
  };
  std::vector<Level> levels;
  for (std::int64_t n = b.shape()[axis]; n > 1; n = (n + 1) / 2) {
    const std::int64_t even = n + n % 2;
    w = padded(w, axis, 0, n % 2);
    b = padded(b, axis, 0, n % 2);
    const Value w_odd = part(w, axis, 1, even, 2);
    levels.push_back({part(w, axis, 0, even, 2), part(b, axis, 0, even, 2), n});
    const Value moved = ops::multiply_no_nan(levels.back().b, w_odd);
    b = ops::add(moved, part(b, axis, 1, even, 2));
    if (even > 2) w = ops::mul(w_odd, levels.back().w);
  }
  Value z = b;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    const std::int64_t half = (level->n + 1) / 2;
    Value even = level->b;
    if (half > 1) {
      const Value rate = part(level->w, axis, 1, half);
      const Value step = ops::multiply_no_nan(part(z, axis, 0, half - 1), rate);
      even = ops::add(even, padded(step, axis, 1, 0));
    }
    z = interleaved(even, z, axis, level->n);
  }
  return z;
}

// f on x, y and the tangent. If the op is `reverse`, all of them are reversed before, and the result after.
// Along an axis of one element or none the op is the identity.
template <class F>
Derivatives jvp_forward(const JvpContext& c, const F& f) {
  const std::size_t axis = axis_of(c);
  const Value t = *c.tangent(0);
  if (t.shape()[axis] < 2) return t;
  if (!c.op().boolean("reverse")) return f(c.primal(0), c.result(), t, axis);
  const Ints turned{static_cast<std::int64_t>(axis)};
  const Value x = ops::rev(c.primal(0), turned), y = ops::rev(c.result(), turned);
  return ops::rev(f(x, y, ops::rev(t, turned), axis), turned);
}

Derivatives jvp_cumprod(JvpContext& c) {
  return jvp_forward(c, [](Value x, Value y, Value t, std::size_t axis) {
    const Value before = padded(part(y, axis, 0, y.shape()[axis] - 1), axis, 1, 0, 1);
    return recurrence(x, ops::multiply_no_nan(t, before), axis);
  });
}

// e^(a - b), 1 where both are the same infinity.
Value ratio(Value a, Value b) {
  const Value size = ops::abs(b);
  const Value infinite = ops::eq(size, ops::full_like(b, std::numeric_limits<double>::infinity()));
  const Value alike = ops::logical_and(ops::eq(a, b), infinite);
  const Value difference = a - b;
  return ops::exp(ops::select_n(alike, difference, ops::full_like(b, 0.0)));
}

// Note [Records]: x_i is a record where no earlier x is as good. The last record up to i equals the extremum
// y_i, and its tangent is that of y_i. The greatest position of a record so far, itself a cummax, says which.
struct Records {
  Value is_record;  // of all elements, in the order of the op
  Value position;   // of the last record
};
template <Value (*Comparison)(Value, Value, Where)>
Records records_of(Value x, Value extremum, std::size_t axis, bool reverse) {
  const auto at = static_cast<std::int64_t>(axis);
  const std::int64_t n = x.shape()[axis], skipped = reverse ? 0 : 1;  // the first element is a record
  const Value here = part(x, axis, skipped, n - 1 + skipped);
  const Value before = part(extremum, axis, 1 - skipped, n - skipped);
  const Value better = ops::logical_not(Comparison(here, before, {}));
  const Value later = ops::logical_and(better, ops::eq(before, before));  // not even NaN comes after NaN
  const Value is_record = padded(later, axis, skipped, 1 - skipped, 1);
  const Type type(n > std::numeric_limits<std::int32_t>::max() ? i64 : i32, x.shape());
  const Value place = ops::iota(*x.emitter(), type, at);
  const std::int64_t first = reverse ? n - 1 : 0;
  const Value first_place = ops::full(*x.emitter(), type, Literal::scalar(type.dtype(), first));
  const Value records = ops::select_n(is_record, first_place, place);
  return {is_record, reverse ? ops::cummin(records, at, true) : ops::cummax(records, at, false)};
}

template <Value (*Comparison)(Value, Value, Where)>
Derivatives jvp_cumulative_extremum(JvpContext& c) {
  const std::size_t axis = axis_of(c);
  const Value t = *c.tangent(0);
  if (t.shape()[axis] < 2) return t;
  const Records records = records_of<Comparison>(c.primal(0), c.result(), axis, c.op().boolean("reverse"));
  return ops::take_along_axis(t, records.position, static_cast<std::int64_t>(axis));
}

// Note [Weights that sum to one]: with the running maximum m, which element r is the first to equal,
// p_i = e^(m_{i-1} - m_i) and q_i = e^(x_i - m_i),
//   dy_i = Σ w_j dx_j / Σ w_j over j <= i,   w_j = e^(x_j - m_i).
// The rounded y is not used: e^(y_{i-1} - y_i) would be off by a factor of e if one unit in the last place of
// y is 1. Numbers of 16 bits are computed in f32. The maximum counts as constant, since no weight depends on
// it. Equal infinities have equal weights, as in logsumexp.
// Element r may exceed all others by far, as in Note [Saturated softmax], and Σ w_j may round to w_r = 1. So
// sums S over the others are kept apart, S_i = p_i S_{i-1} + b_i. A record i is the new r; its b_i is the
// weighted element of the last r. If the others weigh less than r,
//   dy_i = dx_r + (S_i(w dx) - dx_r S_i(w)) / (w_r + S_i(w)),
// whose derivatives have no terms that cancel.
Derivatives jvp_cumlogsumexp(JvpContext& c) {
  return jvp_forward(c, [](Value narrow_x, Value, Value narrow_t, std::size_t axis) {
    const Value x = wide(narrow_x), t = wide(narrow_t);
    const auto at = static_cast<std::int64_t>(axis);
    const std::int64_t n = x.shape()[axis];
    const Value m = ops::stop_gradient(ops::cummax(x, at, false));
    const Value before = part(m, axis, 0, n - 1);
    const Value p = padded(ratio(before, part(m, axis, 1, n)), axis, 1, 0, 1);
    const Records records = records_of<ops::le>(x, m, axis, false);
    const auto at_record = [&](Value v) { return ops::take_along_axis(v, records.position, at); };
    const auto sum_of_others = [&](Value v, Value v_at_record) {
      const Value last = padded(part(v_at_record, axis, 0, n - 1), axis, 1, 0);
      return recurrence(p, ops::select_n(records.is_record, v, last * p), axis);
    };
    const Value w = ratio(x, m), w_r = at_record(w), others = sum_of_others(w, w_r);
    const Value weighted = t * w, weighted_r = at_record(weighted);
    const Value weighted_others = sum_of_others(weighted, weighted_r), t_r = at_record(t);
    const Value sum = w_r + others, dominates = ops::lt(others, ops::full_like(others, 1.0));
    const Value from_r = (weighted_others - t_r * others) / sum;
    const Value mean = (weighted_r + weighted_others) / sum;
    return narrow(ops::select_n(dominates, mean, t_r + from_r), narrow_x.dtype());
  });
}

}  // namespace

// y_i = Σ x_j over j <= i along `axis` (j >= i when reverse)          ct_x = cumsum(ct) the other way
constinit const Primitive cumsum{.name = "cumsum",
                                 .attributes = cumulative_attributes,
                                 .linearity = linearity::linear,
                                 .infer = infer_number,
                                 .transpose = [](TransposeContext& c) -> Derivatives {
                                   return ops::cumsum(*c.cotangent(), c.op().integer("axis"),
                                                      !c.op().boolean("reverse"));
                                 },
                                 .batch = batch_cumulative,
                                 .factors = factors_along};

// y_i = x_i y_{i-1}          dy_i = x_i dy_{i-1} + y_{i-1} dx_i
constinit const Primitive cumprod{.name = "cumprod",
                                  .attributes = cumulative_attributes,
                                  .infer = infer_number,
                                  .jvp = jvp_cumprod,
                                  .batch = batch_cumulative,
                                  .factors = factors_along};

// y_i = max(y_{i-1}, x_i)          dy_i = dx_j, x_j the first in the order of the op that equals y_i
constinit const Primitive cummax{.name = "cummax",
                                 .attributes = cumulative_attributes,
                                 .infer = infer_real,
                                 .jvp = jvp_cumulative_extremum<ops::le>,
                                 .batch = batch_cumulative,
                                 .factors = factors_along};

// y_i = min(y_{i-1}, x_i)          dy_i = dx_j, x_j the first in the order of the op that equals y_i
constinit const Primitive cummin{.name = "cummin",
                                 .attributes = cumulative_attributes,
                                 .infer = infer_real,
                                 .jvp = jvp_cumulative_extremum<ops::ge>,
                                 .batch = batch_cumulative,
                                 .factors = factors_along};

// y_i = log(e^y_{i-1} + e^x_i)          dy_i = Σ e^(x_j - y_i) dx_j over j <= i, see Note [Weights that sum
// to one]; elements that are the infinite maximum share evenly
constinit const Primitive cumlogsumexp{.name = "cumlogsumexp",
                                       .attributes = cumulative_attributes,
                                       .infer = infer_floating,
                                       .jvp = jvp_cumlogsumexp,
                                       .batch = batch_cumulative,
                                       .factors = factors_along};

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Value along(const Primitive& primitive, Value x, std::int64_t axis, bool reverse, Where where) {
  return emit1(Op::make(primitive, {{"axis", prim::normal_axis(axis, x.rank())}, {"reverse", reverse}}), {x},
               where);
}

}  // namespace

Value cumsum(Value x, std::int64_t axis, bool reverse, Where where) {
  return along(prim::cumsum, x, axis, reverse, where);
}
Value cumprod(Value x, std::int64_t axis, bool reverse, Where where) {
  return along(prim::cumprod, x, axis, reverse, where);
}
Value cummax(Value x, std::int64_t axis, bool reverse, Where where) {
  return along(prim::cummax, x, axis, reverse, where);
}
Value cummin(Value x, std::int64_t axis, bool reverse, Where where) {
  return along(prim::cummin, x, axis, reverse, where);
}
Value cumlogsumexp(Value x, std::int64_t axis, bool reverse, Where where) {
  return along(prim::cumlogsumexp, x, axis, reverse, where);
}

}  // namespace tidu::ops
