// dynamic.cpp - dynamic_slice and dynamic_update_slice: a window at a position given by operands, one scalar
// for each dimension, clamped so that the whole window lies inside. Linear in the arrays; their transposes
// are made of each other.
#include <limits>

#include "axes.hpp"
#include "rules.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec slice_attributes[] = {{"slice_sizes", AttributeKind::ints}};
constexpr std::int64_t max_i32 = std::numeric_limits<std::int32_t>::max();

// The operands from `first` on are start indices: scalars of one integer dtype, as many as x has dimensions.
void require_starts(const InferContext& c, std::size_t first) {
  c.require(c.num_operands() >= first, "expected ", first == 1 ? "an array" : "an array, an update",
            " and start indices, got ", c.num_operands(), " operands");
  const Type x = c.operand(0);
  c.require(c.num_operands() == first + x.rank(), "expected ", x.rank(), " start indices for ", x, ", got ",
            c.num_operands() - first);
  for (std::size_t i = first; i < c.num_operands(); ++i) {
    const Type start = c.operand(i);
    c.require(start.rank() == 0 && is_integer(start.dtype()) && start == c.operand(first),
              "expected start indices that are scalars, all i32 or all i64, got ", c.operand(first),
              " for dimension 0 and ", start, " for dimension ", i - first);
  }
}

void infer_dynamic_slice(InferContext& c) {
  require_starts(c, 1);
  const Type x = c.operand(0);
  const Ints& sizes = c.op().ints("slice_sizes");
  c.require(sizes.size() == x.rank(), "expected ", x.rank(), " slice_sizes for ", x, ", got ",
            detail::list(sizes));
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    c.require(0 <= sizes[k] && sizes[k] <= x.dim(k), "expected slice_sizes in [0, ", x.dim(k),
              "] in dimension ", k, " of ", x, ", got ", detail::list(sizes));
  }
  c.result(x.dtype(), sizes);
}

void infer_update(InferContext& c) {
  require_starts(c, 2);
  const Type x = c.operand(0);
  const Type update = c.operand(1);
  bool fits = update.dtype() == x.dtype() && update.rank() == x.rank();
  for (std::size_t k = 0; fits && k < x.rank(); ++k) fits = update.dim(k) <= x.dim(k);
  c.require(fits, "expected an update of x's dtype and rank that is nowhere larger than x, ", x, ", got ",
            update);
  c.result(x);
}

template <class Context>
std::vector<Value> starts_of(const Context& c, std::size_t first) {
  std::vector<Value> starts;
  for (std::size_t i = first; i < c.num_operands(); ++i) starts.push_back(c.operand(i));
  return starts;
}

Derivatives transpose_dynamic_slice(TransposeContext& c) {
  Derivatives result = Derivatives::absent(c.num_operands());
  const Value none = zeros(c.emitter(), c.operand_type(0));
  result.set(0, ops::dynamic_update_slice(none, *c.cotangent(), starts_of(c, 1)));
  return result;
}

Derivatives transpose_update(TransposeContext& c) {
  const Value ct = *c.cotangent();
  const std::vector<Value> starts = starts_of(c, 2);
  Derivatives result = Derivatives::absent(c.num_operands());
  if (c.linear(0)) {
    result.set(0, ops::dynamic_update_slice(ct, zeros(c.emitter(), c.operand_type(1)), starts));
  }
  if (c.linear(1)) result.set(1, ops::dynamic_slice(ct, starts, c.operand_type(1).shape()));
  return result;
}

// --- batch rules

bool any_batched(const BatchContext& c, std::size_t first) {
  for (std::size_t i = first; i < c.num_operands(); ++i) {
    if (c.batched(i)) return true;
  }
  return false;
}

// The same start indices after a zero for the leading axis.
std::vector<Value> starts_behind_zero(const BatchContext& c, std::size_t first) {
  std::vector<Value> starts = starts_of(c, first);
  const DType dtype = starts.empty() ? i32 : starts[0].dtype();
  starts.insert(starts.begin(), ops::full(c.emitter(), Type(dtype), 0.0));
  return starts;
}

Value scalar(Emitter& emitter, DType dtype, std::int64_t value) {
  return ops::full(emitter, Type(dtype), Literal::scalar(dtype, value));
}
Value scaled(Value x, std::int64_t factor) {
  if (factor == 1) return x;
  return ops::mul(x, ops::broadcast_scalar(scalar(*x.emitter(), x.dtype(), factor), x.shape()));
}
Value plus(const std::optional<Value>& sum, Value term) { return sum ? ops::add(*sum, term) : term; }

// The dtype that counts the elements of both shapes.
DType counting_dtype(const Shape& shape) { return num_elements(shape) > max_i32 ? i64 : i32; }

// The begin of the window: the start index `operand`, one for each example, clamped to [0, last].
Value begin_of(const BatchContext& c, std::size_t operand, std::int64_t last, DType dtype) {
  Value start = c.operand(operand);
  if (last > max_i32) start = ops::convert_element_type(start, i64);
  Emitter& emitter = c.emitter();
  const DType own = start.dtype();
  const Value least = scalar(emitter, own, 0);
  start = ops::clamp(least, start, scalar(emitter, own, last));
  return ops::broadcast_in_dim(ops::convert_element_type(start, dtype), {c.size()},
                               c.batched(operand) ? Ints{0} : Ints{});
}

// [size, n], each row of x an example's elements in order.
Value flat_rows(Value x, std::int64_t size) {
  const Shape example(x.shape().begin() + 1, x.shape().end());
  return ops::reshape(x, {size, num_elements(example)});
}

// Note [Windows by index]: if starts differ between examples, element i of example b's window is element
// begin_b + i of x, both in row-major order: one gather with size times window many indices.
Values batch_dynamic_slice(BatchContext& c) {
  const Ints& sizes = c.op().ints("slice_sizes");
  if (!any_batched(c, 1)) {
    return ops::dynamic_slice(c.operand(0), starts_behind_zero(c, 1), prepended(c.size(), sizes));
  }
  const Shape result = prepended(c.size(), sizes);
  if (num_elements(sizes) == 0) return ops::slice(with_batch_axis(c, 0), Ints(result.size(), 0), result);
  const Shape& dims = c.operand_type(0).shape();
  const DType dtype = counting_dtype(dims);
  std::optional<Value> begin;  // [size]
  std::optional<Value> within;
  std::int64_t stride = 1;
  for (std::size_t k = dims.size(); k-- > 0; stride *= dims[k]) {
    const std::int64_t last = dims[k] - sizes[k];
    if (last > 0) begin = plus(begin, scaled(begin_of(c, k + 1, last, dtype), stride));
    if (sizes[k] > 1) {
      const Value along = ops::iota(c.emitter(), Type(dtype, {sizes[k]}), 0);
      within =
          plus(within, ops::broadcast_in_dim(scaled(along, stride), sizes, {static_cast<std::int64_t>(k)}));
    }
  }
  if (!begin) return with_batch_axis(c, 0);  // the windows are all of x
  const Shape flat{c.size(), num_elements(sizes)};
  Value indices = ops::broadcast_in_dim(*begin, flat, {0});
  if (within) {
    indices = ops::add(indices, ops::broadcast_in_dim(ops::reshape(*within, {flat[1]}), flat, {1}));
  }
  if (c.batched(0)) {
    return ops::reshape(ops::take_along_axis(flat_rows(c.operand(0), c.size()), indices, 1), result);
  }
  return ops::reshape(ops::take(ops::reshape(c.operand(0), {num_elements(dims)}), indices, 0), result);
}

// Every element of the result asks whether it lies in its example's window, and which element of the update
// it then is.
Values batch_update(BatchContext& c) {
  const Shape& sizes = c.operand_type(1).shape();
  const Value x = with_batch_axis(c, 0);
  const Value update = with_batch_axis(c, 1);
  if (!any_batched(c, 2)) return ops::dynamic_update_slice(x, update, starts_behind_zero(c, 2));
  if (num_elements(sizes) == 0) return x;
  const Shape& dims = c.operand_type(0).shape();
  const DType dtype = counting_dtype(dims);
  Emitter& emitter = c.emitter();
  std::optional<Value> inside;
  std::optional<Value> index;
  std::int64_t stride = 1;
  for (std::size_t k = dims.size(); k-- > 0; stride *= sizes[k]) {
    const auto axis = static_cast<std::int64_t>(k) + 1;
    const std::int64_t last = dims[k] - sizes[k];
    if (last == 0) {
      const Value along = scaled(ops::iota(emitter, Type(dtype, {dims[k]}), 0), stride);
      index = plus(index, ops::broadcast_in_dim(along, x.shape(), {axis}));
      continue;
    }
    const Type rows(dtype, {c.size(), dims[k]});
    const Value begin = ops::broadcast_in_dim(begin_of(c, k + 2, last, dtype), rows.shape(), {0});
    const Value from_begin = ops::sub(ops::iota(emitter, rows, 1), begin);
    const Value least = scalar(emitter, dtype, 0);
    const Value clipped = ops::clamp(least, from_begin, scalar(emitter, dtype, sizes[k] - 1));
    const Value here = ops::broadcast_in_dim(ops::eq(clipped, from_begin), x.shape(), {0, axis});
    inside = inside ? ops::logical_and(*inside, here) : here;
    index = plus(index, ops::broadcast_in_dim(scaled(clipped, stride), x.shape(), {0, axis}));
  }
  if (!inside) return update;  // it is all of x
  const Value rows = flat_rows(update, c.size());
  const Value taken = ops::take_along_axis(rows, flat_rows(*index, c.size()), 1);
  return ops::select_n(*inside, x, ops::reshape(taken, x.shape()));
}

}  // namespace

// y = x[start : start + slice_sizes]          ct_x = dynamic_update_slice(0, ct, start)
constinit const Primitive dynamic_slice{.name = "dynamic_slice",
                                        .arity = variadic,
                                        .attributes = slice_attributes,
                                        .traits = Trait::shape_only,
                                        .linearity = linearity::linear_in(0b01),
                                        .infer = infer_dynamic_slice,
                                        .transpose = transpose_dynamic_slice,
                                        .batch = batch_dynamic_slice};

// y = x with u at x[start : start + u.shape]
// ct_x = dynamic_update_slice(ct, 0, start), ct_u = dynamic_slice(ct, start)
constinit const Primitive dynamic_update_slice{.name = "dynamic_update_slice",
                                               .arity = variadic,
                                               .traits = Trait::shape_only,
                                               .linearity = linearity::linear_in(0b11),
                                               .infer = infer_update,
                                               .transpose = transpose_update,
                                               .batch = batch_update};

}  // namespace tidu::prim

namespace tidu::ops {

Value dynamic_slice(Value x, std::span<const Value> starts, const Ints& slice_sizes, Where where) {
  std::vector<Value> operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit_one(Op::make(prim::dynamic_slice, {{"slice_sizes", slice_sizes}}), operands, where);
}

Value dynamic_update_slice(Value x, Value update, std::span<const Value> starts, Where where) {
  std::vector<Value> operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit_one(plain_op<prim::dynamic_update_slice>(), operands, where);
}

}  // namespace tidu::ops
