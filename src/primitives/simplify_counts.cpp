// simplify_counts.cpp - comparisons of positions along axes, which make masks of triangles, diagonals and one
// position in a row.
//
// Note [Counts]: such a comparison is of integers, and its mask mostly selects between floating numbers,
// which vector code does not process in one pass with them. But integers that count along an axis are exact
// in floating numbers, unless they are many; so is one axis of them, broadcast, which no pass has to count.
// The other side of the comparison may be any integer: rounded, it stays on its side of all counts.
#include <algorithm>
#include <iterator>

#include "primitives/simplify.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

// Elements from which on it repays.
constexpr std::int64_t min_elements = 1024;

// Integers that are `first` and one more with each step along an axis.
struct Count {
  std::int64_t axis = 0, extent = 0, first = 0;
};

std::optional<std::int64_t> whole_number(const SimplifyContext& c, Value value) {
  constexpr double most = 0x1p50;
  const std::optional<double> number = number_of(c, value);
  if (!number || *number < -most || *number > most) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

// Counted, perhaps with a number added, perhaps broadcast: in any order, but each once.
std::optional<Count> count_of(const SimplifyContext& c, Value value, int depth = 3) {
  const auto made = c.producer(value);
  if (!made || depth == 0) return std::nullopt;
  const Primitive& primitive = made->primitive();
  if (&primitive == &iota) {
    const std::int64_t axis = made->op().integer("dimension");
    return Count{axis, value.shape()[at(axis)], 0};
  }
  if (&primitive == &broadcast_in_dim) {
    const Op op = made->op();
    auto count = count_of(c, c.input(*made), depth - 1);
    if (!count || count->extent == 1) return std::nullopt;
    count->axis = op.ints("broadcast_dimensions")[at(count->axis)];
    return count;
  }
  if (&primitive != &add && &primitive != &sub) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    if (i == 0 && &primitive == &sub) continue;
    const auto shift = whole_number(c, c.input(*made, i));
    if (!shift) continue;
    auto count = count_of(c, c.input(*made, 1 - i), depth - 1);
    if (count) count->first += &primitive == &sub ? -*shift : *shift;
    return count;
  }
  return std::nullopt;
}

// All of them, and one more on either side, are numbers of a dtype with so many binary digits.
bool fits(const Count& count, int digits) {
  const std::int64_t most = (std::int64_t{1} << digits) - 1;
  return count.first > -most && count.first < most - count.extent;
}

Value counted(Emitter& emitter, const Count& count, Type type) {
  Value line = ops::iota(emitter, Type(type.dtype(), {count.extent}), 0);
  if (count.first != 0) line = line + ops::full_like(line, static_cast<double>(count.first));
  return ops::broadcast_in_dim(line, type.shape(), {count.axis});
}

}  // namespace

std::optional<Value> mask_of_counts(const SimplifyContext& c, Value mask, DType chosen) {
  if (mask.type().size() < min_elements || !is_real(Type(chosen)) || is_integer(chosen)) return {};
  const auto made = c.producer(mask);
  if (!made) return {};
  const Primitive* const primitive = &made->primitive();
  const Primitive* const comparisons[] = {&eq, &ne, &lt, &le, &gt, &ge};
  if (std::find(std::begin(comparisons), std::end(comparisons), primitive) == std::end(comparisons))
    return {};
  const Op op = made->op();
  const Value operands[] = {c.input(*made, 0), c.input(*made, 1)};
  if (!is_integer(operands[0].dtype())) return {};
  const DType dtype = chosen == f64 ? f64 : f32;
  // If they exceed the integers' own range, they have wrapped around.
  const int digits = std::min(chosen == f64 ? 53 : 24, operands[0].dtype() == i32 ? 31 : 63);
  std::optional<Count> counts[2];
  Value sources[2];
  Ints placed[2];
  for (std::size_t i = 0; i < 2; ++i) {
    counts[i] = count_of(c, operands[i]);
    if (counts[i]) {
      if (!fits(*counts[i], digits)) return {};
      continue;
    }
    const auto broadcast = c.producer(operands[i], broadcast_in_dim);
    if (!broadcast) return {};
    const Op how = broadcast->op();
    sources[i] = c.input(*broadcast);
    placed[i] = how.ints("broadcast_dimensions");
    if (sources[i].type().size() > mask.type().size() / 8) return {};
  }
  if (!counts[0] && !counts[1]) return {};
  const Type type(dtype, mask.shape());
  Value made_anew[2];
  for (std::size_t i = 0; i < 2; ++i) {
    made_anew[i] = counts[i] ? counted(c.emitter(), *counts[i], type)
                             : ops::broadcast_in_dim(ops::convert_element_type(sources[i], dtype),
                                                     type.shape(), placed[i]);
  }
  return c.emitter().emit_one(op, made_anew);
}

}  // namespace tidu::prim
