// slicing.cpp - slice, pad and concatenate: each is linear, and their transposes are made of each other.
#include <algorithm>

#include "axes.hpp"
#include "factor_rules.hpp"
#include "rules.hpp"
#include "simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec bounds[] = {{"start_indices", AttributeKind::ints},
                                    {"limit_indices", AttributeKind::ints},
                                    {"strides", AttributeKind::ints}};
constexpr AttributeSpec padding_config[] = {{"padding_config", AttributeKind::int_lists}};
constexpr AttributeSpec dimension_attribute[] = {{"dimension", AttributeKind::integer}};

Value zero_like(Emitter& emitter, DType dtype) { return zeros(emitter, Type(dtype)); }

void infer_slice(InferContext& c) {
  const Type x = c.operand(0);
  const Ints& start = c.op().ints("start_indices");
  const Ints& limit = c.op().ints("limit_indices");
  const Ints& strides = c.op().ints("strides");
  const bool complete = start.size() == x.rank() && limit.size() == x.rank() && strides.size() == x.rank();
  c.require(complete, "expected ", x.rank(), " start_indices, limit_indices and strides for ", x, ", got ",
            detail::list(start), ", ", detail::list(limit), " and ", detail::list(strides));
  Shape shape(x.rank());
  for (std::size_t i = 0; i < x.rank(); ++i) {
    c.require(0 <= start[i] && start[i] <= limit[i] && limit[i] <= x.dim(i),
              "expected 0 <= start <= limit <= ", x.dim(i), " in dimension ", i, " of ", x, ", got start ",
              start[i], " and limit ", limit[i]);
    c.require(strides[i] >= 1, "expected strides >= 1, got ", detail::list(strides));
    shape[i] = start[i] == limit[i] ? 0 : (limit[i] - start[i] - 1) / strides[i] + 1;
  }
  c.result(x.dtype(), shape);
}

// Zeros around and between the elements of ct, so that each stands where it was taken from.
Derivatives transpose_slice(TransposeContext& c) {
  const Value ct = *c.cotangent();
  const Ints& start = c.op().ints("start_indices");
  const Ints& strides = c.op().ints("strides");
  IntLists config;
  for (std::size_t i = 0; i < ct.rank(); ++i) {
    const std::int64_t count = ct.shape()[i];
    const std::int64_t end = start[i] + (count == 0 ? 0 : 1 + (count - 1) * strides[i]);
    config.push_back({start[i], c.operand_type(0).dim(i) - end, count < 2 ? 0 : strides[i] - 1});
  }
  return ops::pad(ct, zero_like(c.emitter(), ct.dtype()), config);
}

Values batch_slice(BatchContext& c) {
  return emit_same(c,
                   {{"start_indices", prepended(0, c.op().ints("start_indices"))},
                    {"limit_indices", prepended(c.size(), c.op().ints("limit_indices"))},
                    {"strides", prepended(1, c.op().ints("strides"))}},
                   {c.operand(0)});
}

void infer_pad(InferContext& c) {
  const Type x = c.operand(0);
  const Type padding = c.operand(1);
  const IntLists& config = c.op().lists("padding_config");
  constexpr std::int64_t limit = std::int64_t{1} << 62;
  c.require(padding == Type(x.dtype()), "expected a padding value of type ", Type(x.dtype()), " for ", x,
            ", got ", padding);
  c.require(config.size() == x.rank(), "expected a padding_config of ", x.rank(), " entries for ", x,
            ", got ", config.size());
  Shape shape(x.rank());
  for (std::size_t i = 0; i < x.rank(); ++i) {
    c.require(config[i].size() == 3, "expected [low, high, interior] in padding_config, got ",
              detail::list(config[i]));
    c.require(config[i][2] >= 0, "expected interior padding >= 0, got ", detail::list(config[i]),
              " in dimension ", i);
    for (const std::int64_t amount : config[i]) {
      c.require(-limit <= amount && amount <= limit, "expected padding within 2^62, got ",
                detail::list(config[i]));
    }
    const std::int64_t between = x.dim(i) > 1 ? checked_mul(c, x.dim(i) - 1, config[i][2]) : 0;
    const std::int64_t dilated = checked_add(c, x.dim(i), between);
    shape[i] = checked_add(c, checked_add(c, dilated, config[i][0]), config[i][1]);
    c.require(shape[i] >= 0, "padding ", detail::list(config[i]), " cuts more than there is in dimension ", i,
              " of ", x);
  }
  give(c, x.dtype(), shape);
}

// Inverts a pad: removes the padding, puts zeros where elements were cropped, and keeps every (interior +
// 1)-th element.
Value unpad(Value ct, const IntLists& config) {
  IntLists around;
  Ints strides;
  bool cut = false;
  for (const Ints& entry : config) {
    around.push_back({-entry[0], -entry[1], 0});
    strides.push_back(entry[2] + 1);
    cut = cut || entry[0] < 0 || entry[1] < 0;
  }
  const auto rank = ct.rank();
  Shape start(rank, 0);
  Shape limit = ct.shape();
  if (cut) {
    ct = ops::pad(ct, zero_like(*ct.emitter(), ct.dtype()), around);
    return ops::slice(ct, start, ct.shape(), strides);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    start[i] = config[i][0];
    limit[i] -= config[i][1];
  }
  return ops::slice(ct, start, limit, strides);
}

// True where the result of a pad is the padding value.
Value padding_places(Emitter& emitter, const Shape& shape, const IntLists& config) {
  const Value inside = ops::full(emitter, Type(bool_, shape), 0.0);
  return ops::pad(inside, ops::full(emitter, Type(bool_), 1.0), config);
}

Derivatives transpose_pad(TransposeContext& c) {
  const Value ct = *c.cotangent();
  const IntLists& config = c.op().lists("padding_config");
  Derivatives result = Derivatives::absent(2);
  if (c.linear(0)) result.set(0, unpad(ct, config));
  if (c.linear(1)) {
    const Value places = padding_places(c.emitter(), c.operand_type(0).shape(), config);
    const Value mask = ops::convert_element_type(places, ct.dtype());
    result.set(1, ops::reduce_sum(ops::mul(ct, mask), range(0, static_cast<std::int64_t>(ct.rank()))));
  }
  return result;
}

// A padding value of its own for each example is selected where a pad of zeros into ones shows it.
Values batch_pad(BatchContext& c) {
  IntLists config = c.op().lists("padding_config");
  config.insert(config.begin(), Ints{0, 0, 0});
  const Value x = with_batch_axis(c, 0);
  if (!c.batched(1)) return emit_same(c, {{"padding_config", std::move(config)}}, {x, c.operand(1)});
  Emitter& emitter = c.emitter();
  const DType dtype = x.dtype();
  const Value places = padding_places(emitter, c.operand_type(0).shape(), c.op().lists("padding_config"));
  const Value padded = ops::pad(x, zero_like(emitter, dtype), config);
  const Value value = ops::broadcast_in_dim(c.operand(1), padded.shape(), {0});
  const Value everywhere =
      ops::broadcast_in_dim(places, padded.shape(), range(1, static_cast<std::int64_t>(padded.rank())));
  return ops::select_n(everywhere, padded, value);
}

void infer_concatenate(InferContext& c) {
  c.require(c.num_operands() > 0, "expected one operand or more, got none");
  const Type first = c.operand(0);
  const std::int64_t axis = c.op().integer("dimension");
  require_axis(c, "dimension", axis, first.rank());
  Shape shape = first.shape();
  std::int64_t& total = shape[static_cast<std::size_t>(axis)];
  for (std::size_t i = 1; i < c.num_operands(); ++i) {
    const Type x = c.operand(i);
    bool fits = x.dtype() == first.dtype() && x.rank() == first.rank();
    for (std::size_t k = 0; fits && k < x.rank(); ++k)
      fits = static_cast<std::int64_t>(k) == axis || x.dim(k) == first.dim(k);
    c.require(fits, "expected operands that agree but for dimension ", axis, ", got ", first, " and operand ",
              i, ' ', x);
    total = checked_add(c, total, x.dim(static_cast<std::size_t>(axis)));
  }
  give(c, first.dtype(), shape);
}

// One tangent alone is padded with zeros; among several, an absent one is a block of zeros.
Derivatives jvp_concatenate(JvpContext& c) {
  const auto axis = static_cast<std::size_t>(c.op().integer("dimension"));
  std::size_t count = 0;
  std::size_t last = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    if (!c.active(i)) continue;
    ++count;
    last = i;
  }
  if (count == 1) {
    for (std::size_t i = 0; i < last; ++i) before += c.primal(i).shape()[axis];
    const Value t = *c.tangent(last);
    IntLists config(t.rank(), Ints{0, 0, 0});
    config[axis] = {before, c.result().shape()[axis] - before - t.shape()[axis], 0};
    if (c.num_operands() == 1) return t;
    return ops::pad(t, zero_like(c.emitter(), t.dtype()), config);
  }
  std::vector<Value> pieces;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    pieces.push_back(c.active(i) ? *c.tangent(i) : zeros(c.emitter(), c.primal(i).type()));
  }
  return ops::concatenate(pieces, c.op().integer("dimension"));
}

Derivatives transpose_concatenate(TransposeContext& c) {
  const Value ct = *c.cotangent();
  const auto axis = static_cast<std::size_t>(c.op().integer("dimension"));
  Ints start(ct.rank(), 0);
  Ints limit = ct.shape();
  Derivatives result = Derivatives::absent(c.num_operands());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    start[axis] = offset;
    offset += c.operand_type(i).dim(axis);
    limit[axis] = offset;
    if (c.linear(i)) result.set(i, ops::slice(ct, start, limit));
  }
  return result;
}

Values batch_concatenate(BatchContext& c) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(with_batch_axis(c, i));
  return ops::concatenate(operands, c.op().integer("dimension") + 1);
}

}  // namespace

// y = x[start:limit:strides]          ct_x = ct padded with zeros, strides - 1 of them between its elements
constinit const Primitive slice{.name = "slice",
                                .attributes = bounds,
                                .traits = Trait::shape_only,
                                .linearity = linearity::linear,
                                .infer = infer_slice,
                                .transpose = transpose_slice,
                                .batch = batch_slice,
                                .simplify = simplify_slice,
                                .factors = factors_of_slice,
                                .resize = resize_limits};

// y = x with p around and between its elements          ct_x = slice of ct, ct_p = sum of ct over the
// positions of p
constinit const Primitive pad{.name = "pad",
                              .arity = 2,
                              .attributes = padding_config,
                              .traits = Trait::shape_only,
                              .linearity = linearity::linear,
                              .infer = infer_pad,
                              .jvp = [](JvpContext& c) -> Derivatives {
                                const auto piece = [&](std::size_t i) {
                                  return c.active(i) ? *c.tangent(i) : zeros(c.emitter(), c.primal(i).type());
                                };
                                const Value inside = piece(0);
                                return ops::pad(inside, piece(1), c.op().lists("padding_config"));
                              },
                              .transpose = transpose_pad,
                              .batch = batch_pad,
                              .simplify = simplify_pad,
                              .factors = factors_of_pad};

// y = the operands one after another along `dimension`          ct_i = slice of ct
constinit const Primitive concatenate{.name = "concatenate",
                                      .arity = variadic,
                                      .attributes = dimension_attribute,
                                      .traits = Trait::shape_only,
                                      .linearity = linearity::linear,
                                      .infer = infer_concatenate,
                                      .jvp = jvp_concatenate,
                                      .transpose = transpose_concatenate,
                                      .batch = batch_concatenate,
                                      .simplify = simplify_concatenate,
                                      .factors = factors_of_concatenate};

}  // namespace tidu::prim

namespace tidu::ops {

Value slice(Value x, const Ints& start_indices, const Ints& limit_indices, const Ints& strides, Where where) {
  const auto all = [](const Ints& list, std::int64_t value) {
    return std::all_of(list.begin(), list.end(), [=](std::int64_t entry) { return entry == value; });
  };
  const bool complete = start_indices.size() == x.rank() && (strides.empty() || strides.size() == x.rank());
  if (complete && limit_indices == x.shape() && all(start_indices, 0) && all(strides, 1)) return x;
  Ints steps = strides;
  if (steps.empty()) steps.assign(x.rank(), 1);
  return emit1(Op::make(prim::slice, {{"start_indices", start_indices},
                                      {"limit_indices", limit_indices},
                                      {"strides", std::move(steps)}}),
               {x}, where);
}

Value pad(Value x, Value padding_value, const IntLists& padding_config, Where where) {
  return emit1(Op::make(prim::pad, {{"padding_config", padding_config}}), {x, padding_value}, where);
}

Value concatenate(std::span<const Value> operands, std::int64_t dimension, Where where) {
  const std::size_t rank = operands.empty() ? 0 : operands[0].rank();
  return emit(Op::make(prim::concatenate, {{"dimension", prim::normal_axis(dimension, rank)}}), operands,
              where)[0];
}

}  // namespace tidu::ops
