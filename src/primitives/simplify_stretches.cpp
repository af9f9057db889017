// simplify_stretches.cpp - sums of padded values, as derivatives of slices make them: n slices of one array
// make n arrays of its size and n - 1 sums of these. One concatenate does the same.
//
// Note [Plus zero]: a value padded with 0 is added to 0 elsewhere, which makes 0 of -0. So each part that may
// have -0 is added to 0 by itself; the others stay unchanged.
//
// Note [Rolls]: a roll is two slices of an array. Its derivative is two padded slices of another one, which
// is a roll of that, and executors recognize rolls. So 0 is added to the whole roll and not to its parts. Two
// such terms are also found in a longer sum: (x + y) + z = x + (y + z) for all x if at each position y or z
// is 0 and their sum is no -0.
#include <algorithm>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

// Operands of one concatenate that rules put together, at most.
constexpr std::size_t max_parts = 64;

// The nonzero part of a value, by its begin along an axis.
struct Piece {
  std::int64_t start;
  Value value;
};
struct Pieces {
  std::int64_t axis = -1;
  std::vector<Piece> list;  // in order
  std::int64_t end_of(const Piece& piece) const {
    return piece.start + piece.value.shape()[static_cast<std::size_t>(axis)];
  }
};

void add_piece(const SimplifyContext& c, Pieces& pieces, std::int64_t start, Value value) {
  if (!is_number(c, value, 0.0)) pieces.list.push_back({start, value});
}

// The operands of a concatenate along the axis, or the value itself.
void add_pieces(const SimplifyContext& c, Pieces& pieces, std::int64_t start, Value value) {
  const auto joined = c.producer(value, concatenate);
  if (!joined || joined->num_inputs() > max_parts || joined->op().integer("dimension") != pieces.axis)
    return add_piece(c, pieces, start, value);
  for (std::size_t i = 0; i < joined->num_inputs(); ++i) {
    const Value part = c.input(*joined, i);
    add_piece(c, pieces, start, part);
    start += part.shape()[static_cast<std::size_t>(pieces.axis)];
  }
}

std::optional<Pieces> pieces_of(const SimplifyContext& c, Value value) {
  Pieces pieces;
  if (const auto joined = c.producer(value, concatenate)) {
    pieces.axis = joined->op().integer("dimension");
    add_pieces(c, pieces, 0, value);
    return pieces;
  }
  const auto made = c.producer(value, pad);
  if (!made || !is_number(c, c.input(*made, 1), 0.0)) return std::nullopt;
  const Op op = made->op();
  std::int64_t before = 0;
  for (std::size_t axis = 0; axis < value.rank(); ++axis) {
    const Ints& entry = op.lists("padding_config")[axis];
    if (entry[0] < 0 || entry[1] < 0 || entry[2] != 0) return std::nullopt;
    if (entry[0] == 0 && entry[1] == 0) continue;
    if (pieces.axis >= 0) return std::nullopt;
    pieces.axis = static_cast<std::int64_t>(axis);
    before = entry[0];
  }
  if (pieces.axis < 0) return std::nullopt;
  add_pieces(c, pieces, before, c.input(*made));
  return pieces;
}

bool has_no_negative_zero(const SimplifyContext& c, Value value) {
  if (is_integer(value.dtype()) || is_number(c, value, 0.0)) return true;
  const auto made = c.producer(value, add);
  return made && (is_number(c, c.input(*made, 0), 0.0) || is_number(c, c.input(*made, 1), 0.0));
}

// The pieces of both, if they are disjoint along one axis.
std::optional<Pieces> pieces_of_both(const SimplifyContext& c, Value a, Value b) {
  std::optional<Pieces> all = pieces_of(c, a);
  const std::optional<Pieces> more = all ? pieces_of(c, b) : std::nullopt;
  if (!more || all->axis != more->axis) return std::nullopt;
  std::vector<Piece>& list = all->list;
  list.insert(list.end(), more->list.begin(), more->list.end());
  std::sort(list.begin(), list.end(), [](const Piece& x, const Piece& y) { return x.start < y.start; });
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (all->end_of(list[i - 1]) > list[i].start) return std::nullopt;
  }
  return all;
}

// See Note [Rolls]: the end of an array in front of its beginning?
bool make_roll(const SimplifyContext& c, const Pieces& pieces) {
  if (pieces.list.size() != 2) return false;
  const Type type = c.result_type();
  const auto axis = static_cast<std::size_t>(pieces.axis);
  const Piece &last = pieces.list[0], &first = pieces.list[1];
  if (last.start != 0 || pieces.end_of(last) != first.start || pieces.end_of(first) != type.dim(axis))
    return false;
  const auto of_last = c.producer(last.value, slice), of_first = c.producer(first.value, slice);
  if (!of_last || !of_first || of_last->input(0) != of_first->input(0) || c.input(*of_last).type() != type)
    return false;
  const auto steps_by_one = [](const Operation& part) {
    const Ints& steps = part.op().ints("strides");
    return std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step == 1; });
  };
  const auto start_of = [&](const Operation& part) { return part.op().ints("start_indices")[axis]; };
  return steps_by_one(*of_last) && steps_by_one(*of_first) && start_of(*of_first) == 0 &&
         start_of(*of_last) == type.dim(axis) - first.start;
}

Value without_negative_zero(const SimplifyContext& c, Value value) {
  return c.fast_math() || is_integer(value.dtype()) ? value : ops::add(value, ops::full_like(value, 0.0));
}

// See Note [Rolls].
std::optional<Value> sum_of_roll(const SimplifyContext& c, Value a, Value b) {
  const std::optional<Pieces> pieces = pieces_of_both(c, a, b);
  if (!pieces || !make_roll(c, *pieces)) return std::nullopt;
  const std::vector<Value> parts{pieces->list[0].value, pieces->list[1].value};
  return without_negative_zero(c, ops::concatenate(parts, pieces->axis));
}

}  // namespace

Values sum_of_stretches(SimplifyContext& c) {
  if (c.shared(0) || c.shared(1)) return unchanged();
  if (const auto rolled = sum_of_roll(c, c.operand(0), c.operand(1))) return *rolled;
  for (const std::size_t i : {0U, 1U}) {
    const auto sum = c.producer(c.operand(i), add);
    if (!sum) continue;
    const Value terms[] = {c.input(*sum, 0), c.input(*sum, 1)};
    for (const std::size_t k : {1U, 0U}) {
      if (const auto rolled = sum_of_roll(c, terms[k], c.operand(1 - i)))
        return ops::add(terms[1 - k], *rolled);
    }
  }
  const std::optional<Pieces> all = pieces_of_both(c, c.operand(0), c.operand(1));
  if (!all || all->list.size() < 2 || all->list.size() > max_parts) return unchanged();
  const std::vector<Piece>& list = all->list;
  const auto axis = static_cast<std::size_t>(all->axis);

  const Type type = c.result_type();
  std::vector<Value> parts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0 && all->end_of(list[i - 1]) < list[i].start) {
      Shape between = type.shape();
      between[axis] = list[i].start - all->end_of(list[i - 1]);
      parts.push_back(ops::full(c.emitter(), type.with_shape(between), 0.0));
    }
    const Value part = list[i].value;
    parts.push_back(has_no_negative_zero(c, part) ? part : without_negative_zero(c, part));
  }
  const Value joined = ops::concatenate(parts, all->axis);
  IntLists config(type.rank(), Ints{0, 0, 0});
  config[axis] = {list.front().start, type.dim(axis) - all->end_of(list.back()), 0};
  return ops::pad(joined, ops::full(c.emitter(), Type(type.dtype()), 0.0), config);
}

Values widened_stretch(const SimplifyContext& c, DType to) {
  const auto made = c.producer(c.operand(), pad);
  if (!made || c.shared() || !is_number(c, c.input(*made, 1), 0.0)) return unchanged();
  const Value middle = ops::convert_element_type(c.input(*made), to);
  return ops::pad(middle, ops::full(c.emitter(), Type(to), 0.0), made->op().lists("padding_config"));
}

}  // namespace tidu::prim
