// simplify_stretches.cpp - sums of padded values, as derivatives of slices leave them: n slices of one array
// make n arrays of its size and n - 1 sums of such, where one concatenate does.
//
// Note [Plus zero]: what is padded with 0 is added to 0 elsewhere, which makes 0 of -0. So each part that may
// have -0 is added to 0 on its own; the others stay as they are.
#include <algorithm>

#include "primitives/axes.hpp"
#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

// Operands of one concatenate that rules put together, at most.
constexpr std::size_t most_parts = 64;

// What is not 0 in a value, by where it begins along an axis.
struct Piece {
  std::int64_t start;
  Value value;
};
struct Pieces {
  std::int64_t axis = -1;
  std::vector<Piece> list;  // in order
};

void add_piece(const SimplifyContext& c, Pieces& pieces, std::int64_t start, Value value) {
  if (!is_number(c, value, 0.0)) pieces.list.push_back({start, value});
}

// The operands of a concatenate along the axis, or the value itself.
void add_pieces(const SimplifyContext& c, Pieces& pieces, std::int64_t start, Value value) {
  const auto joined = c.maker(value, concatenate);
  if (!joined || joined->num_inputs() > most_parts || joined->op().integer("dimension") != pieces.axis)
    return add_piece(c, pieces, start, value);
  for (std::size_t i = 0; i < joined->num_inputs(); ++i) {
    const Value part = c.input(*joined, i);
    add_piece(c, pieces, start, part);
    start += part.shape()[static_cast<std::size_t>(pieces.axis)];
  }
}

std::optional<Pieces> pieces_of(const SimplifyContext& c, Value value) {
  Pieces pieces;
  if (const auto joined = c.maker(value, concatenate)) {
    pieces.axis = joined->op().integer("dimension");
    add_pieces(c, pieces, 0, value);
    return pieces;
  }
  const auto made = c.maker(value, pad);
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
  const auto made = c.maker(value, add);
  return made && (is_number(c, c.input(*made, 0), 0.0) || is_number(c, c.input(*made, 1), 0.0));
}

}  // namespace

Values sum_of_stretches(SimplifyContext& c) {
  if (c.shared(0) || c.shared(1)) return unchanged();
  std::optional<Pieces> all = pieces_of(c, c.operand(0));
  const std::optional<Pieces> more = all ? pieces_of(c, c.operand(1)) : std::nullopt;
  if (!more || all->axis != more->axis) return unchanged();
  std::vector<Piece>& list = all->list;
  list.insert(list.end(), more->list.begin(), more->list.end());
  std::sort(list.begin(), list.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
  const auto axis = static_cast<std::size_t>(all->axis);
  const auto end_of = [&](const Piece& piece) { return piece.start + piece.value.shape()[axis]; };
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (end_of(list[i - 1]) > list[i].start) return unchanged();
  }
  if (list.size() < 2 || list.size() > most_parts) return unchanged();

  const Type type = c.result_type();
  std::vector<Value> parts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0 && end_of(list[i - 1]) < list[i].start) {
      Shape between = type.shape();
      between[axis] = list[i].start - end_of(list[i - 1]);
      parts.push_back(ops::full(c.emitter(), type.with_shape(between), 0.0));
    }
    const Value part = list[i].value;
    const bool as_it_is = c.fast_math() || has_no_negative_zero(c, part);
    parts.push_back(as_it_is ? part : ops::add(part, ops::full_like(part, 0.0)));
  }
  const Value joined = ops::concatenate(parts, all->axis);
  IntLists config(type.rank(), Ints{0, 0, 0});
  config[axis] = {list.front().start, type.dim(axis) - end_of(list.back()), 0};
  return ops::pad(joined, ops::full(c.emitter(), Type(type.dtype()), 0.0), config);
}

}  // namespace tidu::prim
