// simplify_transposes.cpp - transposes sink towards the outputs: past elementwise and layout operations, and
// past matmuls. A computation with transposes in the middle, as derivatives in many directions at once have
// them, runs on the data as stored, and is transposed once, at the end.
//
// Note [Transposes that stay]: a transpose with other readers stays for them, unless the rewrite lets the
// other reader pass the transpose too, which the kind of the reader shows.
#include <algorithm>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "primitives/simplify_matmuls.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr std::size_t max_readers = 8;

bool lets_pass(const Primitive& primitive) {
  return primitive.has_trait(Trait::elementwise) || &primitive == &take || &primitive == &pad ||
         &primitive == &slice || &primitive == &concatenate || &primitive == &transpose ||
         &primitive == &dot_general;
}

// Is the operand unused without this operation?
bool may_go(const SimplifyContext& c, std::size_t i) {
  if (!c.shared(i)) return true;
  const auto readers = c.readers(c.operand(i));
  return readers && readers->size() <= max_readers &&
         std::all_of(readers->begin(), readers->end(),
                     [](const ValueReader& reader) { return lets_pass(reader.op.primitive()); });
}

// A transpose that may go.
struct Turned {
  Value inner;
  Ints permutation;
};
std::optional<Turned> turned(const SimplifyContext& c, std::size_t i) {
  const auto made = c.producer(c.operand(i), transpose);
  if (!made || !may_go(c, i)) return std::nullopt;
  const Op op = made->op();
  return Turned{c.input(*made), op.ints("permutation")};
}

// Repeats so little that it may as well be repeated in another order.
bool is_repeated(const SimplifyContext& c, std::size_t i) {
  const auto made = c.producer(c.operand(i), broadcast_in_dim);
  return made && 2 * c.input(*made).type().size() <= c.operand(i).type().size() && may_go(c, i);
}

// The permutation by which operands were transposed, all that are not the same in any order; nothing where
// there is none.
std::optional<Ints> common_order(const SimplifyContext& c, std::size_t count) {
  std::optional<Ints> order;
  for (std::size_t i = 0; i < count; ++i) {
    if (c.operand(i).rank() == 0 || c.splat(c.operand(i)) || is_repeated(c, i)) continue;
    const auto found = turned(c, i);
    if (!found || (order && *order != found->permutation)) return std::nullopt;
    order = found->permutation;
  }
  return order;
}
Value turned_back(const SimplifyContext& c, std::size_t i, const Ints& order, const Ints& back) {
  const Value operand = c.operand(i);
  if (operand.rank() == 0) return operand;
  if (const auto element = c.splat(operand))
    return filled(c, operand.type().with_shape(extents_at(operand.shape(), back)), *element);
  const auto made = c.producer(operand, transpose);
  if (made && made->op().ints("permutation") == order) return c.input(*made);
  return ops::transpose(operand, back);
}

// Entries of a list by axis, as they are before the transpose.
template <class List>
List before(const List& list, const Ints& permutation) {
  List result(list.size());
  for (std::size_t k = 0; k < list.size(); ++k) result[at(permutation[k])] = list[k];
  return result;
}

}  // namespace

// f(xᵀ, yᵀ, broadcast, literal) = f(x, y, broadcast, literal)ᵀ
Values before_transposes(SimplifyContext& c) {
  const std::optional<Ints> order = common_order(c, c.num_operands());
  if (!order) return unchanged();
  const Ints back = inverse_permutation(*order);
  Values operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(turned_back(c, i, *order, back));
  return ops::transpose(c.emitter().emit_one(c.op(), operands), *order);
}

Values concatenate_before_transposes(const SimplifyContext& c) {
  const std::optional<Ints> order = common_order(c, c.num_operands());
  if (!order) return unchanged();
  const Ints back = inverse_permutation(*order);
  Values operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(turned_back(c, i, *order, back));
  return ops::transpose(ops::concatenate(operands, (*order)[at(c.op().integer("dimension"))]), *order);
}

Values pad_before_transpose(const SimplifyContext& c) {
  const auto x = turned(c, 0);
  if (!x) return unchanged();
  const IntLists config = before(c.op().lists("padding_config"), x->permutation);
  return ops::transpose(ops::pad(x->inner, c.operand(1), config), x->permutation);
}

Values slice_before_transpose(const SimplifyContext& c) {
  const auto x = c.shared() ? std::nullopt : turned(c, 0);
  if (!x) return unchanged();
  const auto list = [&](std::string_view name) { return before(c.op().ints(name), x->permutation); };
  return ops::transpose(ops::slice(x->inner, list("start_indices"), list("limit_indices"), list("strides")),
                        x->permutation);
}

// xᵀ[…, indices, …] = x[…, indices, …]ᵀ, where rows become longer, and long
Values take_before_transpose(const SimplifyContext& c) {
  const Value indices = c.operand(1);
  const auto x = indices.rank() == 1 ? turned(c, 0) : std::nullopt;
  if (!x) return unchanged();
  const std::int64_t axis = c.op().integer("axis"), place = x->permutation[at(axis)];
  const auto row = [](const Shape& shape, std::int64_t of) {
    return num_elements(Shape(shape.begin() + of + 1, shape.end()));
  };
  constexpr std::int64_t long_row = 16, max_taken = 8;
  const std::int64_t extent = x->inner.shape()[at(place)], length = row(x->inner.shape(), place);
  if (length < long_row || length < 2 * row(c.operand(0).shape(), axis) ||
      indices.type().size() > max_taken * extent)
    return unchanged();
  return ops::transpose(ops::take(x->inner, indices, place, c.op().string("mode")), x->permutation);
}

// A matmul whose operand was transposed so that free axes are exchanged.
Values product_before_transpose(const SimplifyContext& c) {
  const IntLists& numbers = c.op().lists("dimension_numbers");
  for (std::size_t side = 0; side < 2; ++side) {
    const auto x = turned(c, side);
    if (!x || c.result_type().size() > x->inner.type().size()) continue;
    IntLists before = numbers;
    Ints &contracting = before[side], &batch = before[side + 2];
    const Ints free = remaining(x->permutation.size(), contracting, batch);
    const bool lay = lies_as_matrices(c.operand(side).shape(), batch, free, contracting);
    contracting = extents_at(x->permutation, contracting);
    batch = extents_at(x->permutation, batch);
    const Ints inner = extents_at(x->permutation, free);
    Ints sorted = inner;
    std::sort(sorted.begin(), sorted.end());
    if (lay && !lies_as_matrices(x->inner.shape(), batch, sorted, contracting)) continue;
    Ints order = range(0, static_cast<std::int64_t>(c.result_type().rank()));
    const std::size_t first =
        side == 0 ? batch.size() : order.size() - free.size();  // axes of the result that the operand has
    for (std::size_t k = 0; k < inner.size(); ++k) {
      const auto found = std::find(sorted.begin(), sorted.end(), inner[k]);
      order[first + k] = static_cast<std::int64_t>(first) + (found - sorted.begin());
    }
    const Value lhs = side == 0 ? x->inner : c.operand(0), rhs = side == 1 ? x->inner : c.operand(1);
    return ops::transpose(ops::dot_general(lhs, rhs, {before[0], before[1], before[2], before[3]}), order);
  }
  return unchanged();
}

}  // namespace tidu::prim
