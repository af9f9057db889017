// matrices.cpp - see matrices.hpp.
#include "matrices.hpp"

#include <limits>

#include "elementwise_rules.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

Ints batch_axes(std::size_t rank) { return range(0, static_cast<std::int64_t>(rank) - 2); }

// Row or column numbers; they are small integers also for f64 and c128 matrices.
Value numbers(Emitter& emitter, const Shape& shape, std::int64_t from_end) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const bool wide = shape[shape.size() - 1] > most || shape[shape.size() - 2] > most;
  const auto axis = static_cast<std::int64_t>(shape.size()) - from_end;
  return ops::iota(emitter, Type(wide ? i64 : i32, shape), axis, {});
}

}  // namespace

void require_matrix(const InferContext& c, std::size_t i) {
  const Type x = c.operand(i);
  c.require(is_inexact(x.dtype()), "expected a floating or complex operand",
            c.num_operands() == 1 ? "" : detail::str(' ', i), ", got ", x);
  c.require(x.rank() >= 2, "expected matrices, of two axes or more, got ", x);
}

void require_square(const InferContext& c, std::size_t i) {
  require_matrix(c, i);
  const Type x = c.operand(i);
  c.require(rows_of(x) == columns_of(x), "expected square matrices, got ", x);
}

Shape vector_shape(Type type, std::int64_t extent) {
  Shape shape(type.shape().begin(), type.shape().end() - 2);
  shape.push_back(extent);
  return shape;
}

Shape matrix_shape(Type type, std::int64_t rows, std::int64_t columns) {
  Shape shape = vector_shape(type, rows);
  shape.push_back(columns);
  return shape;
}

Values batch_matrices(BatchContext& c) {
  Values operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(with_batch_axis(c, i));
  return c.emitter().emit(c.op(), operands);
}

Value matrix_product(Value x, As x_as, Value y, As y_as) {
  const auto last = static_cast<std::int64_t>(x.rank()) - 1;
  const Ints batch = batch_axes(x.rank());
  if (x_as == As::adjoint) x = conjugate(x);
  if (y_as == As::adjoint) y = conjugate(y);
  return ops::dot_general(
      x, y, {{x_as == As::is ? last : last - 1}, {y_as == As::is ? last - 1 : last}, batch, batch}, {});
}

Value transposed(Value x) {
  Ints permutation = range(0, static_cast<std::int64_t>(x.rank()));
  std::swap(permutation[x.rank() - 1], permutation[x.rank() - 2]);
  return ops::transpose(x, permutation, {});
}

Value adjoint(Value x) { return conjugate(transposed(x)); }

Value in_part(Emitter& emitter, const Shape& shape, Part part) {
  const Value row = numbers(emitter, shape, 2), column = numbers(emitter, shape, 1);
  switch (part) {
    case Part::lower: return ops::ge(row, column, {});
    case Part::strictly_lower: return ops::gt(row, column, {});
    case Part::upper: return ops::le(row, column, {});
    default: return ops::lt(row, column, {});
  }
}

Value part_of(Value x, Part part) {
  Emitter& emitter = *x.emitter();
  const Value inside = in_part(emitter, x.shape(), part);
  return ops::select_n(inside, zeros(emitter, x.type()), x, {});
}

Value identity(Emitter& emitter, Type type) {
  const Value rows = numbers(emitter, type.shape(), 2);
  const Value on_diagonal = ops::eq(rows, numbers(emitter, type.shape(), 1), {});
  return ops::convert_element_type(on_diagonal, type.dtype(), {});
}

Value diagonal(Value x) {
  const std::int64_t n = columns_of(x.type());
  const Value rows = ops::reshape(x, vector_shape(x.type(), n * n), {});
  Ints start(rows.rank(), 0), strides(rows.rank(), 1);
  strides.back() = n + 1;
  return ops::slice(rows, start, rows.shape(), strides, {});
}

Value by_column(Value s, const Shape& shape) {
  Ints axes = range(0, static_cast<std::int64_t>(shape.size()) - 1);
  ++axes.back();
  return ops::broadcast_in_dim(s, shape, axes, {});
}

Value by_row(Value s, const Shape& shape) {
  return ops::broadcast_in_dim(s, shape, range(0, static_cast<std::int64_t>(shape.size()) - 1), {});
}

Value leading_block(Value x, std::int64_t rows, std::int64_t columns) {
  return ops::slice(x, Ints(x.rank(), 0), matrix_shape(x.type(), rows, columns), {}, {});
}

}  // namespace tidu::prim
