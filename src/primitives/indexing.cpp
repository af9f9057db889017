// indexing.cpp - take and scatter_add, by an index for a whole slice or one for each position; each pair is
// each other's transpose, with the same mode. Mode "clip" clamps an index to the range, "drop" reads 0 and
// writes nothing.
#include "axes.hpp"
#include "factor_rules.hpp"
#include "rules.hpp"
#include "simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec indexing_attributes[] = {{"axis", AttributeKind::integer},
                                                 {"mode", AttributeKind::string, true, 0, "clip"}};

std::size_t axis_of(const Op& op) { return static_cast<std::size_t>(op.integer("axis")); }

// Checks axis, mode and indices, and returns the type of the elements that are read or written.
Type indexed_type(const InferContext& c, bool along) {
  const Type x = c.operand(0);
  const Type indices = c.operand(1);
  const std::int64_t axis = c.op().integer("axis");
  const std::string& mode = c.op().string("mode");
  require_axis(c, "axis", axis, x.rank());
  require_integer(c, 1);
  c.require(mode == "clip" || mode == "drop", "expected mode \"clip\" or \"drop\", got ",
            detail::in_quotes(mode));
  const auto at = static_cast<std::size_t>(axis);
  c.require(x.dim(at) > 0 || indices.size() == 0 || mode == "drop",
            "expected an element to clip to in dimension ", axis, " of ", x, " for indices ", indices);
  Shape shape = x.shape();
  const auto place = shape.begin() + axis;
  if (along) {
    bool fits = indices.rank() == x.rank();
    for (std::size_t k = 0; fits && k < x.rank(); ++k) fits = k == at || indices.dim(k) == x.dim(k);
    c.require(fits, "expected indices of the shape of ", x, " but for dimension ", axis, ", got ", indices);
    *place = indices.dim(at);
  } else {
    shape.insert(shape.erase(place), indices.shape().begin(), indices.shape().end());
  }
  try {
    return Type(x.dtype(), shape);
  } catch (const Error& error) {
    c.fail("result: ", error.what());
  }
}

template <bool Along>
void infer_read(InferContext& c) {
  c.result(indexed_type(c, Along));
}

template <bool Along>
void infer_write(InferContext& c) {
  require_numeric(c, 0);
  const Type updates = indexed_type(c, Along);
  c.require(c.operand(2) == updates, "expected updates of type ", updates, " for ", c.operand(0),
            " and indices ", c.operand(1), " on axis ", c.op().integer("axis"), ", got ", c.operand(2));
  c.result(c.operand(0));
}

using Read = Value (*)(Value, Value, std::int64_t, std::string_view, Where);
using Write = Value (*)(Value, Value, Value, std::int64_t, std::string_view, Where);

// ct_x: the cotangent is written into zeros at the positions that were read.
template <Write Scatter>
Derivatives transpose_read(TransposeContext& c) {
  const Value none = zeros(c.emitter(), c.operand_type(0));
  return {Scatter(none, c.operand(1), *c.cotangent(), c.op().integer("axis"), c.op().string("mode"), {}),
          std::nullopt};
}

template <Write Scatter>
Derivatives jvp_write(JvpContext& c) {
  if (!c.active(2)) return *c.tangent(0);
  const Value base = c.active(0) ? *c.tangent(0) : zeros(c.emitter(), c.primal(0).type());
  return Scatter(base, c.primal(1), *c.tangent(2), c.op().integer("axis"), c.op().string("mode"), {});
}

template <Read Gather>
Derivatives transpose_write(TransposeContext& c) {
  const Value ct = *c.cotangent();
  Derivatives result = Derivatives::absent(3);
  if (c.linear(0)) result.set(0, ct);
  if (c.linear(2)) result.set(2, Gather(ct, c.operand(1), c.op().integer("axis"), c.op().string("mode"), {}));
  return result;
}

Values batch_along(BatchContext& c) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(with_batch_axis(c, i));
  return emit(
      Op::make(c.op().primitive(), {{"axis", c.op().integer("axis") + 1}, {"mode", c.op().string("mode")}}),
      operands);
}

// Note [Flat indices]: if indices differ between examples, the examples are concatenated along the indexed
// axis, [size, n, rest] viewed as [size * n, rest], and example b uses index + b n. An index is first clamped
// to [0, n) or, if it is to be dropped, becomes -1, so that none reaches a neighbour.
Value flat_indices(BatchContext& c, std::int64_t n) {
  Emitter& emitter = c.emitter();
  Value indices = c.operand(1);
  if (num_elements({c.size(), n}) > std::int64_t{0x7fffffff})
    indices = ops::convert_element_type(indices, i64);
  const DType dtype = indices.dtype();
  const auto filled = [&](const Shape& shape, std::int64_t value) {
    return ops::full(emitter, Type(dtype, shape), Literal::scalar(dtype, value));
  };
  const Value numbers = ops::iota(emitter, Type(dtype, {c.size()}), 0);
  const Value firsts = ops::mul(numbers, filled({c.size()}, n));
  const Value offsets = ops::broadcast_in_dim(firsts, indices.shape(), {0});
  if (c.op().string("mode") == "clip") {
    const std::int64_t last = n > 0 ? n - 1 : 0;  // with n = 0 there are no indices
    const Value least = filled({}, 0);
    return ops::add(ops::clamp(least, indices, filled({}, last)), offsets);
  }
  const Value from_first = ops::ge(indices, filled(indices.shape(), 0));
  const Value inside = ops::logical_and(from_first, ops::lt(indices, filled(indices.shape(), n)));
  const Value nowhere = filled(indices.shape(), -1);
  return ops::select_n(inside, nowhere, ops::add(indices, offsets));
}

// [size, before, n, after] as [size * n, before, after].
Value lay_out(Value x, std::size_t axis) {
  x = move_axis(x, axis + 1, 1);
  Shape shape(x.shape().begin() + 1, x.shape().end());
  shape[0] = num_elements({x.shape()[0], x.shape()[1]});
  return ops::reshape(x, shape);
}

Values batch_take(BatchContext& c) {
  const std::size_t axis = axis_of(c.op());
  const std::int64_t at = c.op().integer("axis");
  const std::string& mode = c.op().string("mode");
  if (!c.batched(1)) return ops::take(c.operand(0), c.operand(1), at + 1, mode);
  if (!c.batched(0)) return move_axis(ops::take(c.operand(0), c.operand(1), at, mode), axis, 0);
  const Value rows = lay_out(c.operand(0), axis);
  const Value flat = ops::take(rows, flat_indices(c, c.operand_type(0).dim(axis)), 0, mode);
  // [size, indices, before, after] -> [size, before, indices, after]
  const std::int64_t indices = static_cast<std::int64_t>(c.operand_type(1).rank());
  const std::int64_t rank = static_cast<std::int64_t>(flat.rank());
  return ops::transpose(
      flat,
      joined(
          {{0}, range(1 + indices, 1 + indices + at), range(1, 1 + indices), range(1 + indices + at, rank)}));
}

Values batch_scatter(BatchContext& c) {
  const std::size_t axis = axis_of(c.op());
  const std::int64_t at = c.op().integer("axis");
  const std::string& mode = c.op().string("mode");
  const Value x = with_batch_axis(c, 0);
  const Value updates = with_batch_axis(c, 2);
  if (!c.batched(1)) return ops::scatter_add(x, c.operand(1), updates, at + 1, mode);
  // [size, before, indices, after] -> [size, indices, before, after]
  const std::int64_t indices = static_cast<std::int64_t>(c.operand_type(1).rank());
  const std::int64_t rank = static_cast<std::int64_t>(updates.rank());
  const Value moved = ops::transpose(
      updates,
      joined({{0}, range(1 + at, 1 + at + indices), range(1, 1 + at), range(1 + at + indices, rank)}));
  const Value rows = lay_out(x, axis);
  const Value flat = ops::scatter_add(rows, flat_indices(c, c.operand_type(0).dim(axis)), moved, 0, mode);
  const Shape rest(flat.shape().begin() + 1, flat.shape().end());
  const Value split = ops::reshape(flat, prepended(c.size(), prepended(c.operand_type(0).dim(axis), rest)));
  return move_axis(split, 1, axis + 1);
}

}  // namespace

// y = x[…, indices, …] on `axis`          ct_x = scatter_add(0, indices, ct)
constinit const Primitive take{.name = "take",
                               .arity = 2,
                               .attributes = indexing_attributes,
                               .traits = Trait::shape_only,
                               .linearity = linearity::linear_in(0b01),
                               .infer = infer_read<false>,
                               .transpose = transpose_read<ops::scatter_add>,
                               .batch = batch_take,
                               .simplify = simplify_take,
                               .factors = factors_of_take};

// y = x, plus updates at x[…, indices, …] on `axis`          ct_x = ct, ct_updates = take(ct, indices)
constinit const Primitive scatter_add{.name = "scatter_add",
                                      .arity = 3,
                                      .attributes = indexing_attributes,
                                      .linearity = linearity::linear_in(0b101),
                                      .infer = infer_write<false>,
                                      .jvp = jvp_write<ops::scatter_add>,
                                      .transpose = transpose_write<ops::take>,
                                      .batch = batch_scatter,
                                      .simplify = simplify_scatter_add};

// y[p] = x[p with indices[p] on `axis`]          ct_x = scatter_add_along_axis(0, indices, ct)
constinit const Primitive take_along_axis{.name = "take_along_axis",
                                          .arity = 2,
                                          .attributes = indexing_attributes,
                                          .traits = Trait::shape_only,
                                          .linearity = linearity::linear_in(0b01),
                                          .infer = infer_read<true>,
                                          .transpose = transpose_read<ops::scatter_add_along_axis>,
                                          .batch = batch_along,
                                          .factors = factors_of_take_along};

// y = x, plus updates[p] at x[p with indices[p] on `axis`]          ct_x = ct, ct_updates =
// take_along_axis(ct, indices)
constinit const Primitive scatter_add_along_axis{.name = "scatter_add_along_axis",
                                                 .arity = 3,
                                                 .attributes = indexing_attributes,
                                                 .linearity = linearity::linear_in(0b101),
                                                 .infer = infer_write<true>,
                                                 .jvp = jvp_write<ops::scatter_add_along_axis>,
                                                 .transpose = transpose_write<ops::take_along_axis>,
                                                 .batch = batch_along};

}  // namespace tidu::prim

namespace tidu::ops {
namespace {

Op indexing(const Primitive& primitive, Value x, std::int64_t axis, std::string_view mode) {
  return Op::make(primitive, {{"axis", prim::normal_axis(axis, x.rank())}, {"mode", mode}});
}

}  // namespace

Value take(Value x, Value indices, std::int64_t axis, std::string_view mode, Where where) {
  return emit1(indexing(prim::take, x, axis, mode), {x, indices}, where);
}

Value scatter_add(Value x, Value indices, Value updates, std::int64_t axis, std::string_view mode,
                  Where where) {
  return emit1(indexing(prim::scatter_add, x, axis, mode), {x, indices, updates}, where);
}

Value take_along_axis(Value x, Value indices, std::int64_t axis, std::string_view mode, Where where) {
  return emit1(indexing(prim::take_along_axis, x, axis, mode), {x, indices}, where);
}

Value scatter_add_along_axis(Value x, Value indices, Value updates, std::int64_t axis, std::string_view mode,
                             Where where) {
  return emit1(indexing(prim::scatter_add_along_axis, x, axis, mode), {x, indices, updates}, where);
}

}  // namespace tidu::ops
