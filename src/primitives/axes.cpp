// axes.cpp - checks of axes and arithmetic on lists of axes.
#include "axes.hpp"

#include <algorithm>
#include <numeric>

#include "tidu/primitives/structural.hpp"

namespace tidu::prim {

void require_axis(const InferContext& c, std::string_view what, std::int64_t axis, std::size_t rank) {
  c.require(axis >= 0 && static_cast<std::uint64_t>(axis) < rank, "expected ", what, " in [0, ", rank,
            "), got ", axis);
}

void require_axes(const InferContext& c, std::string_view what, const Ints& axes, std::size_t rank) {
  std::vector<bool> seen(rank, false);
  for (const std::int64_t axis : axes) {
    c.require(axis >= 0 && static_cast<std::uint64_t>(axis) < rank, "expected ", what, " in [0, ", rank,
              "), got ", detail::list(axes));
    c.require(!seen[static_cast<std::size_t>(axis)], "expected ", what, " without repetition, got ",
              detail::list(axes));
    seen[static_cast<std::size_t>(axis)] = true;
  }
}

void require_numeric(const InferContext& c, std::size_t i) {
  c.require(!is_bool(c.operand(i).dtype()), "expected an integer, floating or complex operand ", i, ", got ",
            c.operand(i));
}

void require_real(const InferContext& c, std::size_t i) {
  const DType dtype = c.operand(i).dtype();
  c.require(!is_bool(dtype) && !is_complex(dtype), "expected an integer or floating operand ", i, ", got ",
            c.operand(i));
}

void require_ordered(const InferContext& c, std::size_t i) {
  c.require(!is_complex(c.operand(i).dtype()), "expected a bool, integer or floating operand ", i, ", got ",
            c.operand(i));
}

void require_integer(const InferContext& c, std::size_t i) {
  c.require(is_integer(c.operand(i).dtype()), "expected operand ", i,
            " to hold indices of dtype i32 or i64, got ", c.operand(i));
}

void give(InferContext& c, DType dtype, const Shape& shape) {
  try {
    c.result(dtype, shape);
  } catch (const Error& error) {
    c.fail("result: ", error.what());
  }
}

std::int64_t checked_add(const InferContext& c, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  c.require(!__builtin_add_overflow(a, b, &sum), "expected extents below 2^63, got the sum of ", a, " and ",
            b);
  return sum;
}

std::int64_t checked_mul(const InferContext& c, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  c.require(!__builtin_mul_overflow(a, b, &product), "expected extents below 2^63, got the product of ", a,
            " and ", b);
  return product;
}

Ints range(std::int64_t first, std::int64_t last) {
  Ints list(static_cast<std::size_t>(std::max<std::int64_t>(last - first, 0)));
  std::iota(list.begin(), list.end(), first);
  return list;
}

Ints remaining(std::size_t rank, const Ints& axes, const Ints& more) {
  std::vector<bool> taken(rank, false);
  for (const std::int64_t axis : axes) taken[static_cast<std::size_t>(axis)] = true;
  for (const std::int64_t axis : more) taken[static_cast<std::size_t>(axis)] = true;
  Ints rest;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (!taken[axis]) rest.push_back(static_cast<std::int64_t>(axis));
  }
  return rest;
}

Ints remaining(std::size_t rank, const Ints& axes) { return remaining(rank, axes, {}); }

Ints shifted(Ints axes) {
  for (std::int64_t& axis : axes) ++axis;
  return axes;
}

Ints joined(std::initializer_list<Ints> lists) {
  Ints all;
  for (const Ints& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Ints prepended(std::int64_t leading, const Ints& list) {
  Ints all;
  all.reserve(list.size() + 1);
  all.push_back(leading);
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

Ints inverse_permutation(const Ints& permutation) {
  Ints inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return inverse;
}

Shape extents_at(const Shape& shape, const Ints& axes) {
  Shape extents;
  extents.reserve(axes.size());
  for (const std::int64_t axis : axes) extents.push_back(shape[static_cast<std::size_t>(axis)]);
  return extents;
}

std::int64_t normal_axis(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  return axis < 0 && axis >= -count ? axis + count : axis;
}

Ints normal_axes(Ints axes, std::size_t rank) {
  for (std::int64_t& axis : axes) axis = normal_axis(axis, rank);
  return axes;
}

Value move_axis(Value x, std::size_t from, std::size_t to) {
  if (from == to) return x;
  Ints permutation = remaining(x.rank(), {static_cast<std::int64_t>(from)});
  permutation.insert(permutation.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
  return ops::transpose(x, permutation);
}

Value spread(Value x, const Shape& shape, const Ints& reduced) {
  return ops::broadcast_in_dim(x, shape, remaining(shape.size(), reduced));
}

Value sum_of_none(Value x, Type type) {
  const Ints begin(x.rank(), 0);
  const Value none = ops::slice(x, begin, begin);
  const Value sum = ops::reduce_sum(none, range(0, static_cast<std::int64_t>(x.rank())));
  return ops::broadcast_in_dim(sum, type.shape(), {});
}

Value emit_same(const BatchContext& c, Attributes attributes, std::initializer_list<Value> operands) {
  return emit1(Op::make(c.op().primitive(), std::move(attributes)), operands);
}

}  // namespace tidu::prim
