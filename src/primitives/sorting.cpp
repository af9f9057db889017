// sorting.cpp - sort and top_k. Both permute elements along an axis in an order that the values define, and
// permute tangents in the same way.
#include <limits>

#include "axes.hpp"
#include "rules.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec sort_attributes[] = {{"dimension", AttributeKind::integer},
                                             {"num_keys", AttributeKind::integer}};
constexpr AttributeSpec top_k_attributes[] = {{"k", AttributeKind::integer}};

Op sort_along(std::int64_t dimension, std::int64_t num_keys) {
  return Op::make(sort, {{"dimension", dimension}, {"num_keys", num_keys}});
}

void infer_sort(InferContext& c) {
  c.require(c.num_operands() > 0, "expected one operand or more, got none");
  const Type first = c.operand(0);
  const std::int64_t keys = c.op().integer("num_keys");
  require_axis(c, "dimension", c.op().integer("dimension"), first.rank());
  c.require(keys >= 1 && static_cast<std::uint64_t>(keys) <= c.num_operands(),
            "expected num_keys from 1 to the number of operands, ", c.num_operands(), ", got ", keys);
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    c.require(c.operand(i).shape() == first.shape(), "expected operands of one shape, got ", first,
              " and operand ", i, ' ', c.operand(i));
    c.result(c.operand(i));
  }
}

// The permutation is an iota that is sorted along with the keys.
Derivatives jvp_sort(JvpContext& c) {
  const std::int64_t dimension = c.op().integer("dimension");
  const auto keys = static_cast<std::size_t>(c.op().integer("num_keys"));
  const Shape& shape = c.primal(0).shape();
  const std::int64_t n = shape[static_cast<std::size_t>(dimension)];
  const DType dtype = n > std::numeric_limits<std::int32_t>::max() ? i64 : i32;
  std::vector<Value> operands(c.primals().begin(), c.primals().begin() + static_cast<std::ptrdiff_t>(keys));
  operands.push_back(ops::iota(c.emitter(), Type(dtype, shape), dimension));
  const Value order = c.emitter().emit(sort_along(dimension, c.op().integer("num_keys")), operands)[keys];
  Derivatives result;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    result.push_back(c.active(i) ? std::optional(ops::take_along_axis(*c.tangent(i), order, dimension))
                                 : std::nullopt);
  }
  return result;
}

Values batch_sort(BatchContext& c) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(with_batch_axis(c, i));
  return c.emitter().emit(sort_along(c.op().integer("dimension") + 1, c.op().integer("num_keys")), operands);
}

void infer_top_k(InferContext& c) {
  const Type x = c.operand(0);
  const std::int64_t k = c.op().integer("k");
  c.require(!is_complex(x.dtype()), "expected a bool, integer or floating operand, got ", x);
  c.require(x.rank() > 0, "expected an operand with an axis, got ", x);
  Shape shape = x.shape();
  c.require(0 <= k && k <= shape.back(), "expected k in [0, ", shape.back(),
            "], the extent of the last axis of ", x, ", got ", k);
  shape.back() = k;
  c.result(x.dtype(), shape);
  c.result(i32, shape);
}

}  // namespace

// y_i = x_i[…, π, …] along `dimension`, π sorting the keys          dy_i = dx_i[…, π, …]
constinit const Primitive sort{.name = "sort",
                               .arity = variadic,
                               .num_outputs = variadic,
                               .attributes = sort_attributes,
                               .infer = infer_sort,
                               .jvp = jvp_sort,
                               .batch = batch_sort};

// y, π = the k greatest of the last axis and where they are          dy = dx[…, π]
constinit const Primitive top_k{
    .name = "top_k",
    .num_outputs = 2,
    .attributes = top_k_attributes,
    .infer = infer_top_k,
    .jvp = [](JvpContext& c) -> Derivatives {
      return {ops::take_along_axis(*c.tangent(0), c.result(1), -1), std::nullopt};
    },
    .batch = [](BatchContext& c) -> Values { return ops::top_k(c.operand(0), c.op().integer("k")); }};

}  // namespace tidu::prim

namespace tidu::ops {

Values sort(std::span<const Value> operands, std::int64_t dimension, std::int64_t num_keys, Where where) {
  const std::size_t rank = operands.empty() ? 0 : operands[0].rank();
  return emit(prim::sort_along(prim::normal_axis(dimension, rank), num_keys), operands, where);
}

Value sort(Value x, std::int64_t dimension, Where where) {
  return emit1(prim::sort_along(prim::normal_axis(dimension, x.rank()), 1), {x}, where);
}

Values top_k(Value x, std::int64_t k, Where where) {
  return emit(Op::make(prim::top_k, {{"k", k}}), std::span(&x, 1), where);
}

}  // namespace tidu::ops
