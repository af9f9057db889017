// simplify_scattered.cpp - the rules of scatters: sums with them, and slices of them.
//
// Note [Scattered once]: a scatter into zeros, with at most one update for a position, is zero elsewhere, so
// a sum with it changes few elements: 0.0 is added to all, and the updates at their positions. u + 0.0 is an
// element of the scatter, which is never -0.0. So the gradient of a cross entropy, softmax minus one-hot
// labels, is updated in place.
//
// Note [Gather instead of scatter]: if each position that is read has one update, whose position is known
// during simplification, the read gathers the updates. So the gradient of a triangle that is packed in a
// vector, with the part beyond the triangle scattered to a position that is never read, is a gather, without
// writing zeros first.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

// A scatter into zeros, with at most one update for a position, that is only read by such sums along its axis
// as sum_of_scattered removes.
struct Scattered {
  Op op;
  Value indices, updates;
};
std::optional<Scattered> scattered_once(const SimplifyContext& c, Value value) {
  const auto made = c.producer(value);
  if (!made || is_complex(value.dtype()) || value.type().size() == 0) return std::nullopt;
  const bool along = &made->primitive() == &scatter_add_along_axis;
  if (!along && &made->primitive() != &scatter_add) return std::nullopt;
  const Value indices = c.input(*made, 1);
  if ((along ? indices.shape()[at(made->op().integer("axis"))] : indices.type().size()) != 1 ||
      !is_number(c, c.input(*made, 0), 0.0))
    return std::nullopt;
  return Scattered{made->op(), indices, c.input(*made, 2)};
}
bool sums_along(const Op& op, const Op& scatter) {
  return &op.primitive() == &reduce_sum && op.ints("axes") == Ints{scatter.integer("axis")} &&
         scatter.string("mode") == "clip";
}
bool only_sums_read(const SimplifyContext& c, Value value, const Op& scatter) {
  const auto readers = c.readers(value);
  if (!readers) return false;
  std::size_t others = 0;
  for (const ValueReader& reader : *readers) others += sums_along(reader.op, scatter) ? 0 : 1;
  return others <= 1;
}
Value plus_zero(Value x) { return is_integer(x.dtype()) ? x : ops::add(x, ops::full_like(x, 0.0)); }
Values scatter_into(const SimplifyContext& c, const Scattered& what, Value x, Value updates) {
  const Value operands[] = {x, what.indices, updates};
  return c.emitter().emit_one(what.op, operands);
}

}  // namespace

Values sum_with_scattered(const SimplifyContext& c) {
  for (const std::size_t i : {1U, 0U}) {
    const auto what = scattered_once(c, c.operand(i));
    if (!what || !only_sums_read(c, c.operand(i), what->op)) continue;
    const Value rest = plus_zero(c.operand(1 - i)), updates = plus_zero(what->updates);
    return scatter_into(c, *what, rest, updates);
  }
  return unchanged();
}

Values difference_with_scattered(const SimplifyContext& c) {
  const Value x = c.operand(0), y = c.operand(1);
  if (const auto what = scattered_once(c, y); what && only_sums_read(c, y, what->op))
    return scatter_into(c, *what, x, ops::neg(plus_zero(what->updates)));
  if (const auto what = scattered_once(c, x); what && only_sums_read(c, x, what->op)) {
    const Value rest = ops::sub(ops::full_like(y, 0.0), y), updates = plus_zero(what->updates);
    return scatter_into(c, *what, rest, updates);
  }
  return unchanged();
}

Values sum_of_scattered(const SimplifyContext& c) {
  const auto what = scattered_once(c, c.operand());
  if (!what || !sums_along(c.op(), what->op)) return unchanged();
  return ops::reshape(plus_zero(what->updates), c.result_type().shape());
}

Values widened_scattered(const SimplifyContext& c, DType to) {
  const auto what = c.shared() ? std::nullopt : scattered_once(c, c.operand());
  if (!what) return unchanged();
  const Value zeros = ops::full(c.emitter(), c.result_type(), 0.0);
  return scatter_into(c, *what, zeros, ops::convert_element_type(what->updates, to));
}

namespace {

// Every `stride`-th position along the axis of a scatter, from `first` on.
struct StridedRange {
  std::int64_t first, count, stride;
};

// For each of them the one update that it has, by its number among the indices; or nothing, as where an index
// is out of range, which who checks indices is to see.
std::optional<std::vector<std::int32_t>> find_updates(const Literal& indices, std::int64_t extent,
                                                      const StridedRange& positions) {
  constexpr std::int32_t none = -1;
  std::vector<std::int32_t> updates(at(positions.count), none);
  for (std::int64_t i = 0; i < indices.type().size(); ++i) {
    const std::int64_t to =
        indices.type().dtype() == i32 ? indices.data<std::int32_t>()[i] : indices.data<std::int64_t>()[i];
    if (to < 0 || to >= extent) return std::nullopt;
    const std::int64_t behind = to - positions.first;
    if (behind < 0 || behind % positions.stride != 0 || behind / positions.stride >= positions.count)
      continue;
    std::int32_t& update = updates[at(behind / positions.stride)];
    if (update != none) return std::nullopt;
    update = static_cast<std::int32_t>(i);
  }
  if (std::find(updates.begin(), updates.end(), none) != updates.end()) return std::nullopt;
  return updates;
}

// See Note [Gather instead of scatter].
Values taken_instead(const SimplifyContext& c, const Op& scatter, Value x, Value indices, Value updates,
                     const StridedRange& positions) {
  const auto known = c.producer(indices, constant);
  if (!known || is_complex(x.dtype()) || is_bool(x.dtype()) || positions.count == 0 ||
      indices.type().size() > std::numeric_limits<std::int32_t>::max() || !is_number(c, x, 0.0))
    return unchanged();
  const std::int64_t axis = scatter.integer("axis");
  const auto which = find_updates(known->op().literal("value"), x.shape()[at(axis)], positions);
  if (!which) return unchanged();
  Shape shape = updates.shape();
  const auto begin = shape.begin() + axis;
  shape.erase(begin, begin + static_cast<std::ptrdiff_t>(indices.rank()));
  shape.insert(shape.begin() + axis, indices.type().size());
  const Literal numbers = Literal::of<std::int32_t>(Type(i32, {positions.count}), *which);
  return plus_zero(
      ops::take(ops::reshape(updates, shape), ops::constant(c.emitter(), numbers), axis, "clip"));
}

}  // namespace

Values simplify_scatter_add(SimplifyContext& c) {
  const Value x = c.operand(0);
  return taken_instead(c, c.op(), x, c.operand(1), c.operand(2),
                       {0, x.shape()[at(c.op().integer("axis"))], 1});
}

Values slice_of_scattered(const SimplifyContext& c) {
  const auto made = c.producer(c.operand(), scatter_add);
  if (!made) return unchanged();
  const auto readers = c.readers(c.operand());
  if (!readers || readers->size() > 1) return unchanged();
  const Op scatter = made->op();
  const auto axis = at(scatter.integer("axis"));
  const Shape &from = c.operand().shape(), &to = c.result_type().shape();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (i != axis && from[i] != to[i]) return unchanged();
  }
  const StridedRange positions{c.op().ints("start_indices")[axis], to[axis], c.op().ints("strides")[axis]};
  return taken_instead(c, scatter, c.input(*made, 0), c.input(*made, 1), c.input(*made, 2), positions);
}

}  // namespace tidu::prim
