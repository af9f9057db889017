// simplify_matmuls.cpp - the rules of reductions and of dot_general.
//
// Note [Absorbed transposes]: a matmul reads a transposed operand by other dimension numbers. Its free axes
// must keep their order, which is that of the result. So must several contracted ones, which define the order
// of summation. Matmuls of matrices so cost no more. If axes are not contiguous in memory, the executor
// transposes the operand itself, as the transpose would have done.
#include "primitives/simplify_matmuls.hpp"

#include <algorithm>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

bool has_ones_only(const Shape& shape, const Ints& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](std::int64_t axis) { return shape[at(axis)] == 1; });
}

// Axes that are longer than 1, in the order given, ascend.
bool ascends(const Shape& shape, const Ints& axes) {
  std::int64_t last = -1;
  for (const std::int64_t axis : axes) {
    if (shape[at(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// Is walking these axes in this order walking one axis?
bool is_one_axis(const Shape& shape, const Ints& axes) {
  std::int64_t last = -1;
  for (const std::int64_t axis : axes) {
    if (shape[at(axis)] == 1) continue;
    for (std::int64_t between = last + 1; last >= 0 && between < axis; ++between) {
      if (shape[at(between)] != 1) return false;
    }
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// One operand of a matmul: the operand before its transpose, and its lists of dimension numbers.
struct Operand {
  Value value;
  Ints contracting, batch;
};

// The operand before it was transposed, if the product can read that.
bool absorb_transpose(const SimplifyContext& c, Operand& operand, bool shared) {
  const auto made = c.producer(operand.value, transpose);
  if (!made) return false;
  const Value source = c.input(*made);
  const Op op = made->op();
  const Ints& order = op.ints("permutation");
  const Ints free = extents_at(order, remaining(order.size(), operand.contracting, operand.batch));
  const Ints contracting = extents_at(order, operand.contracting), batch = extents_at(order, operand.batch);
  if (!std::is_sorted(free.begin(), free.end())) return false;
  // A value with other readers is computed in its own order in any case: only a rewrite without cost gains.
  if (shared && !lies_as_matrices(source.shape(), batch, free, contracting)) return false;
  operand = {source, contracting, batch};
  return true;
}

// Is there one order only in which to sum: one contracted axis, or all in the order in which they lie?
bool has_one_order(const Operand& lhs, const Operand& rhs) {
  const Shape& shape = lhs.value.shape();
  const auto more = [&](std::int64_t axis) { return shape[at(axis)] != 1; };
  if (std::count_if(lhs.contracting.begin(), lhs.contracting.end(), more) < 2) return true;
  return ascends(shape, lhs.contracting) && ascends(rhs.value.shape(), rhs.contracting);
}

Values product(const Operand& lhs, const Operand& rhs) {
  return ops::dot_general(lhs.value, rhs.value, {lhs.contracting, rhs.contracting, lhs.batch, rhs.batch});
}

// Reductions over single elements.
Values reduce_units(SimplifyContext& c, const Ints& axes) {
  if (!has_ones_only(c.operand().shape(), axes)) return unchanged();
  return ops::reshape(c.operand(), c.result_type().shape());
}

}  // namespace

bool lies_as_matrices(const Shape& shape, const Ints& batch, const Ints& free, const Ints& contracting) {
  std::int64_t inner = static_cast<std::int64_t>(shape.size()) - 1;
  while (inner >= 0 && shape[at(inner)] == 1) --inner;
  const auto in_batch = std::find(batch.begin(), batch.end(), inner) != batch.end();
  return !in_batch && is_one_axis(shape, batch) && is_one_axis(shape, free) &&
         is_one_axis(shape, contracting);
}

// Over axes of extent 1: x + 0, of integers x
Values simplify_sum(SimplifyContext& c) {
  const Value x = c.operand();
  if (x.type().size() == 0) return unchanged();
  if (!has_ones_only(x.shape(), c.op().ints("axes"))) return sum_of_scattered(c);
  const Value flat = ops::reshape(x, c.result_type().shape());
  if (is_integer(x.dtype()) || c.fast_math()) return flat;
  if (x.type().size() == 1) return unchanged();
  return ops::add(flat, ops::full_like(flat, 0.0));
}

// Over axes of extent 1: x; over axes that x was broadcast to and no others: x before that
Values simplify_idempotent_reduction(SimplifyContext& c) {
  const Ints& axes = c.op().ints("axes");
  if (c.operand().type().size() == 0) return unchanged();
  if (Values result = reduce_units(c, axes); !result.empty()) return result;
  if (const auto element = c.splat(c.operand())) return filled(c, c.result_type(), *element);
  const auto made = c.producer(c.operand(), broadcast_in_dim);
  if (!made) return unchanged();
  const Value x = c.input(*made);
  const Op op = made->op();
  const Ints& broadcast_dims = op.ints("broadcast_dimensions");
  const Ints kept = remaining(c.operand().rank(), axes);
  Ints dimensions;
  Shape own;
  for (std::size_t i = 0; i < broadcast_dims.size(); ++i) {
    if (x.shape()[i] == 1) continue;
    const auto found = std::find(kept.begin(), kept.end(), broadcast_dims[i]);
    if (found == kept.end()) return unchanged();
    dimensions.push_back(found - kept.begin());
    own.push_back(x.shape()[i]);
  }
  return ops::broadcast_in_dim(ops::reshape(x, own), c.result_type().shape(), dimensions);
}

namespace {

// The axes of a product that those of an operand are which it keeps; `free`: the first one of its own.
Ints axes_in_product(const Operand& operand, std::int64_t free) {
  Ints axes_in_result;
  for (const std::int64_t axis : remaining(operand.value.rank(), operand.contracting)) {
    const auto in_batch = std::find(operand.batch.begin(), operand.batch.end(), axis);
    axes_in_result.push_back(in_batch == operand.batch.end() ? free++ : in_batch - operand.batch.begin());
  }
  return axes_in_result;
}

// Nothing to sum over, and rows of the result are long enough for vectors: a product of broadcasts, which
// others join. Those of a batch are for row fusions (docs/schedule.md), whose rows may be shorter.
Values outer_product(SimplifyContext& c, const Operand& lhs, const Operand& rhs) {
  constexpr std::int64_t min_row = 64, min_row_of_batch = 16;
  if (!lhs.contracting.empty() || lhs.value.rank() == 0 || !is_real(lhs.value.type())) return unchanged();
  const Shape& shape = c.result_type().shape();
  const auto batch = static_cast<std::int64_t>(lhs.batch.size());
  const auto left = static_cast<std::int64_t>(lhs.value.rank());
  std::int64_t row = 1;
  for (std::size_t axis = lhs.value.rank(); axis < shape.size(); ++axis) row *= shape[axis];
  if (row < (batch == 0 ? min_row : min_row_of_batch)) return unchanged();
  const Ints of_left = axes_in_product(lhs, batch), of_right = axes_in_product(rhs, left);
  if (!std::is_sorted(of_left.begin(), of_left.end()) || !std::is_sorted(of_right.begin(), of_right.end()))
    return unchanged();
  const Value columns = ops::broadcast_in_dim(lhs.value, shape, of_left);
  const Value rows = ops::broadcast_in_dim(rhs.value, shape, of_right);
  return columns * rows;
}

// By ones alone, as in the gradient of a sum of a product: sums of the other operand, broadcast.
Values sums_by_ones(SimplifyContext& c, const Operand& ones, const Operand& other, bool is_left) {
  if (other.contracting.empty() || !is_real(other.value.type()) || !is_number(c, ones.value, 1.0))
    return unchanged();
  Ints axes = other.contracting;
  std::sort(axes.begin(), axes.end());
  const Shape& shape = c.result_type().shape();
  const auto batch = static_cast<std::int64_t>(other.batch.size());
  // The free axes of rhs follow those of lhs.
  const auto left = static_cast<std::int64_t>(ones.value.rank() - ones.contracting.size());
  const Ints broadcast_dims = axes_in_product(other, is_left ? left : batch);
  if (!std::is_sorted(broadcast_dims.begin(), broadcast_dims.end())) return unchanged();
  return ops::broadcast_in_dim(ops::reduce_sum(other.value, axes), shape, broadcast_dims);
}

}  // namespace

Values simplify_dot(SimplifyContext& c) {
  const IntLists& numbers = c.op().lists("dimension_numbers");
  Operand lhs{c.operand(0), numbers[0], numbers[2]}, rhs{c.operand(1), numbers[1], numbers[3]};
  if (Values products = outer_product(c, lhs, rhs); !products.empty()) return products;
  if (!has_one_order(lhs, rhs)) return unchanged();
  if (Values sums = sums_by_ones(c, lhs, rhs, true); !sums.empty()) return sums;
  if (Values sums = sums_by_ones(c, rhs, lhs, false); !sums.empty()) return sums;
  const bool left = absorb_transpose(c, lhs, c.shared(0)), right = absorb_transpose(c, rhs, c.shared(1));
  if (!left && !right) return product_before_transpose(c);
  return has_one_order(lhs, rhs) ? product(lhs, rhs) : unchanged();
}

// Axes of the result: batch, those of lhs, those of rhs.
Values transposed_product(const SimplifyContext& c, const Operation& made, const Ints& permutation) {
  const Op op = made.op();
  const IntLists& numbers = op.lists("dimension_numbers");
  Operand lhs{c.input(made, 0), numbers[0], numbers[2]}, rhs{c.input(made, 1), numbers[1], numbers[3]};
  if (!has_one_order(lhs, rhs)) return unchanged();
  const auto batch = static_cast<std::int64_t>(lhs.batch.size());
  const auto left = static_cast<std::int64_t>(lhs.value.rank() - lhs.contracting.size());
  const auto all = static_cast<std::int64_t>(permutation.size());
  const Ints first(permutation.begin(), permutation.begin() + batch);
  const Ints rest(permutation.begin() + batch, permutation.end());
  if (std::any_of(first.begin(), first.end(), [&](std::int64_t axis) { return axis >= batch; }))
    return unchanged();
  lhs.batch = extents_at(lhs.batch, first);
  rhs.batch = extents_at(rhs.batch, first);
  if (rest == range(batch, all)) return product(lhs, rhs);
  return rest == joined({range(left, all), range(batch, left)}) ? product(rhs, lhs) : unchanged();
}

}  // namespace tidu::prim
