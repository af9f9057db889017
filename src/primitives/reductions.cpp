// reductions.cpp - sums, extrema, logsumexp, argmax and the logical reductions. Over no elements a sum is 0,
// a maximum -inf or the type's least, "and" true. For bools false is less than true. The product has a longer
// derivative rule: it is in reduce_prod.cpp.
#include <algorithm>

#include "axes.hpp"
#include "factor_rules.hpp"
#include "reductions.hpp"
#include "rules.hpp"
#include "simplify.hpp"
#include "slopes.hpp"
#include "softmax.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec index_attributes[] = {{"axis", AttributeKind::integer},
                                              {"index_dtype", AttributeKind::dtype}};

void infer_sum(InferContext& c) {
  require_numeric(c, 0);
  infer_reduction(c);
}

void infer_extremum(InferContext& c) {
  require_ordered(c, 0);
  infer_reduction(c);
}

void infer_logical(InferContext& c) {
  c.require(is_bool(c.operand(0).dtype()), "expected a bool operand, got ", c.operand(0));
  infer_reduction(c);
}

// The dtype that holds each count up to `count`: dtype, or the next that does. A sum of ones would overflow
// in f16 from 65,520 on, and in the others stay where one more rounds to the same.
DType counting_dtype(DType dtype, std::int64_t count) {
  constexpr std::int64_t exact_in_f32 = std::int64_t{1} << 24;
  if (dtype == f64) return f64;
  if (dtype == f32 || (dtype == f16 && count > 2048) || (dtype == bf16 && count > 256))
    return count > exact_in_f32 ? f64 : f32;
  return dtype;
}

// The elements that are the extremum share its tangent evenly: w = (x = y) / count of them, a residual.
Derivatives jvp_reduced_extremum(JvpContext& c) {
  const Ints& axes = c.op().ints("axes");
  const Value x = c.primal(0);
  const DType counting = counting_dtype(x.dtype(), num_elements(extents_at(x.shape(), axes)));
  const Value chosen = ops::convert_element_type(ops::eq(x, spread(c.result(), x.shape(), axes)), counting);
  const Value weight = ops::div(chosen, spread(ops::reduce_sum(chosen, axes), x.shape(), axes));
  const Value shares = ops::mul(narrow(*c.tangent(0), counting), weight);
  return narrow(ops::reduce_sum(shares, axes), x.dtype());
}

void infer_index(InferContext& c) {
  const Type x = c.operand(0);
  const std::int64_t axis = c.op().integer("axis");
  const DType dtype = c.op().dtype("index_dtype");
  require_ordered(c, 0);
  require_axis(c, "axis", axis, x.rank());
  c.require(is_integer(dtype), "expected index_dtype i32 or i64, got ", dtype);
  c.require(x.dim(static_cast<std::size_t>(axis)) > 0, "expected an element in dimension ", axis, " of ", x);
  give(c, dtype, extents_at(x.shape(), remaining(x.rank(), {axis})));
}

Values batch_index(BatchContext& c) {
  return emit_same(c, {{"axis", c.op().integer("axis") + 1}, {"index_dtype", c.op().dtype("index_dtype")}},
                   {c.operand(0)});
}

}  // namespace

void infer_reduction(InferContext& c) {
  const Ints& axes = c.op().ints("axes");
  const Type x = c.operand(0);
  require_axes(c, "axes", axes, x.rank());
  give(c, x.dtype(), extents_at(x.shape(), remaining(x.rank(), axes)));
}

Values batch_reduction(BatchContext& c) {
  return emit_same(c, {{"axes", shifted(c.op().ints("axes"))}}, {c.operand(0)});
}

// y = Σ x over `axes`          ct_x = ct spread over them
constinit const Primitive reduce_sum{.name = "reduce_sum",
                                     .attributes = reduction_axes,
                                     .traits = Trait::reduction | Trait::combines,
                                     .linearity = linearity::linear,
                                     .infer = infer_sum,
                                     .transpose = [](TransposeContext& c) -> Derivatives {
                                       return spread(*c.cotangent(), c.operand_type(0).shape(),
                                                     c.op().ints("axes"));
                                     },
                                     .batch = batch_reduction,
                                     .simplify = simplify_sum,
                                     .factors = factors_of_sum};

// y = max x over `axes`          dy = Σ w dx, w = (x = y) / count of x = y
constinit const Primitive reduce_max{.name = "reduce_max",
                                     .attributes = reduction_axes,
                                     .traits = Trait::reduction | Trait::combines,
                                     .infer = infer_extremum,
                                     .jvp = jvp_reduced_extremum,
                                     .batch = batch_reduction,
                                     .simplify = simplify_idempotent_reduction,
                                     .factors = factors_of_reduction};

// y = min x over `axes`          dy = Σ w dx, w = (x = y) / count of x = y
constinit const Primitive reduce_min{.name = "reduce_min",
                                     .attributes = reduction_axes,
                                     .traits = Trait::reduction | Trait::combines,
                                     .infer = infer_extremum,
                                     .jvp = jvp_reduced_extremum,
                                     .batch = batch_reduction,
                                     .simplify = simplify_idempotent_reduction,
                                     .factors = factors_of_reduction};

// y = is every x true along `axes`?
constinit const Primitive reduce_and{.name = "reduce_and",
                                     .attributes = reduction_axes,
                                     .traits = Trait::reduction | Trait::combines | Trait::no_tangent,
                                     .infer = infer_logical,
                                     .batch = batch_reduction,
                                     .simplify = simplify_idempotent_reduction,
                                     .factors = factors_of_reduction};

// y = is any x true along `axes`?
constinit const Primitive reduce_or{.name = "reduce_or",
                                    .attributes = reduction_axes,
                                    .traits = Trait::reduction | Trait::combines | Trait::no_tangent,
                                    .infer = infer_logical,
                                    .batch = batch_reduction,
                                    .simplify = simplify_idempotent_reduction,
                                    .factors = factors_of_reduction};

// y = index of the first maximum along `axis`; a NaN counts as the maximum
constinit const Primitive argmax{.name = "argmax",
                                 .attributes = index_attributes,
                                 .traits = Trait::reduction | Trait::no_tangent,
                                 .infer = infer_index,
                                 .batch = batch_index,
                                 .factors = factors_of_index};

// y = index of the first minimum along `axis`; a NaN counts as the minimum
constinit const Primitive argmin{.name = "argmin",
                                 .attributes = index_attributes,
                                 .traits = Trait::reduction | Trait::no_tangent,
                                 .infer = infer_index,
                                 .batch = batch_index,
                                 .factors = factors_of_index};

// y = log Σ exp x over `axes`          dy = Σ p dx, p = softmax x; see softmax.hpp
constinit const Primitive logsumexp{
    .name = "logsumexp",
    .attributes = reduction_axes,
    .traits = Trait::reduction,
    .infer =
        [](InferContext& c) {
          c.require(is_floating(c.operand(0).dtype()), "expected a floating operand, got ", c.operand(0));
          infer_reduction(c);
        },
    .jvp = [](JvpContext& c) -> Derivatives {
      const Ints& axes = c.op().ints("axes");
      const DType dtype = c.primal(0).dtype();
      const Value p = shares_of(wide(c.primal(0)), axes);
      return narrow(ops::reduce_sum(ops::mul(wide(*c.tangent(0)), p), axes), dtype);
    },
    .batch = batch_reduction,
    .factors = factors_of_reduction};

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Value reduce(const Primitive& primitive, Value x, const Ints& axes, Where where) {
  Ints sorted = prim::normal_axes(axes, x.rank());
  std::sort(sorted.begin(), sorted.end());
  return emit1(Op::make(primitive, {{"axes", std::move(sorted)}}), {x}, where);
}

Value index_of(const Primitive& primitive, Value x, std::int64_t axis, DType index_dtype, Where where) {
  return emit1(
      Op::make(primitive, {{"axis", prim::normal_axis(axis, x.rank())}, {"index_dtype", index_dtype}}), {x},
      where);
}

}  // namespace

Value reduce_sum(Value x, const Ints& axes, Where where) { return reduce(prim::reduce_sum, x, axes, where); }
Value reduce_prod(Value x, const Ints& axes, Where where) {
  return reduce(prim::reduce_prod, x, axes, where);
}
Value reduce_max(Value x, const Ints& axes, Where where) { return reduce(prim::reduce_max, x, axes, where); }
Value reduce_min(Value x, const Ints& axes, Where where) { return reduce(prim::reduce_min, x, axes, where); }
Value reduce_and(Value x, const Ints& axes, Where where) { return reduce(prim::reduce_and, x, axes, where); }
Value reduce_or(Value x, const Ints& axes, Where where) { return reduce(prim::reduce_or, x, axes, where); }
Value logsumexp(Value x, const Ints& axes, Where where) { return reduce(prim::logsumexp, x, axes, where); }

Value argmax(Value x, std::int64_t axis, DType index_dtype, Where where) {
  return index_of(prim::argmax, x, axis, index_dtype, where);
}

Value argmin(Value x, std::int64_t axis, DType index_dtype, Where where) {
  return index_of(prim::argmin, x, axis, index_dtype, where);
}

}  // namespace tidu::ops
