// layout_expressions.cpp - constants, and operations that move elements: each element of the result is one of
// an operand, at an index that follows from its own.

#include "cuda/kernels/body.hpp"

namespace tidu::cuda_detail {
namespace {

using Index = Writer::Index;

std::string number(std::int64_t value) { return std::to_string(value) + "u"; }
Type type_of(const Writer& writer, const Piece& piece, std::size_t i) {
  return writer.body().pieces[piece.in[i]].type;
}
std::size_t axis_of(std::int64_t axis) { return static_cast<std::size_t>(axis); }

std::string constant(Writer&, const Piece& piece, Index) {
  return constant_text(piece.op->literal("value"), 0);
}
std::string iota(Writer& writer, const Piece& piece, Index index) {
  const std::string at = writer.axes(index)[axis_of(piece.op->integer("dimension"))];
  const DType dtype = piece.type.dtype();
  std::string text = "op::convert<" + std::string(value_name(dtype)) + ">((i64)(" + at + "))";
  if (dtype == f16 || dtype == bf16)
    text = "rounded<" + std::string(memory_name(dtype)) + ">::of(op::narrow((i64)(" + at + ")))";
  return writer.define(value_name(dtype), text);
}

std::string reshape(Writer& writer, const Piece& piece, Index index) {
  return writer.value(piece.in[0], writer.reshaped(index, type_of(writer, piece, 0).shape()));
}
std::string transpose(Writer& writer, const Piece& piece, Index index) {
  const Ints& order = piece.op->ints("permutation");
  const std::vector<std::string> at = writer.axes(index);
  std::vector<std::string> from(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) from[axis_of(order[k])] = at[k];
  return writer.value(piece.in[0], writer.by_axes(type_of(writer, piece, 0).shape(), std::move(from)));
}
std::string broadcast_in_dim(Writer& writer, const Piece& piece, Index index) {
  const Ints& placed = piece.op->ints("broadcast_dimensions");
  const Type x = type_of(writer, piece, 0);
  if (x.size() == piece.type.size()) return reshape(writer, piece, index);
  if (x.size() == 1)
    return writer.value(piece.in[0], writer.by_axes(x.shape(), std::vector<std::string>(x.rank(), "0")));
  const std::vector<std::string> at = writer.axes(index);
  std::vector<std::string> from(placed.size());
  for (std::size_t k = 0; k < placed.size(); ++k) from[k] = x.dim(k) == 1 ? "0" : at[axis_of(placed[k])];
  return writer.value(piece.in[0], writer.by_axes(x.shape(), std::move(from)));
}
std::string rev(Writer& writer, const Piece& piece, Index index) {
  const Shape& shape = piece.type.shape();
  std::vector<std::string> from = writer.axes(index);
  for (const std::int64_t axis : piece.op->ints("dimensions")) {
    std::string& at = from[axis_of(axis)];
    if (shape[axis_of(axis)] > 1) at = writer.define_index(number(shape[axis_of(axis)] - 1) + " - " + at);
  }
  return writer.value(piece.in[0], writer.by_axes(shape, std::move(from)));
}
std::string slice(Writer& writer, const Piece& piece, Index index) {
  const Ints &start = piece.op->ints("start_indices"), &strides = piece.op->ints("strides");
  std::vector<std::string> from = writer.axes(index);
  for (std::size_t k = 0; k < from.size(); ++k) {
    from[k] = times(from[k], strides[k]);
    if (start[k] != 0) from[k] = plus(from[k], writer.parameter(start[k]));
    from[k] = writer.define_index(from[k]);
  }
  return writer.value(piece.in[0], writer.by_axes(type_of(writer, piece, 0).shape(), std::move(from)));
}

// Indices are unsigned: what lies before an edge is beyond all others.
std::string pad(Writer& writer, const Piece& piece, Index index) {
  const IntLists& config = piece.op->lists("padding_config");
  const Type x = type_of(writer, piece, 0);
  const auto padding = [&] { return writer.value(piece.in[1], writer.by_axes({}, {})); };
  if (x.size() == 0) return padding();
  const std::vector<std::string> at = writer.axes(index);
  std::vector<std::string> from(x.rank());
  std::string inside;
  for (std::size_t k = 0; k < x.rank(); ++k) {
    const std::int64_t low = config[k][0], step = config[k][2] + 1, reach = (x.dim(k) - 1) * step + 1;
    std::string offset = at[k];
    if (low > 0) offset = (offset == "0" ? "(index_t)0" : offset) + " - " + writer.parameter(low);
    if (low < 0) offset = plus(offset, number(-low));
    offset = writer.define_index(offset);
    const bool whole = low <= 0 && piece.type.dim(k) - low <= reach;
    const auto also = [&inside](const std::string& condition) {
      inside += (inside.empty() ? "" : " && ") + condition;
    };
    if (!whole) also(offset + " < " + number(reach));
    if (step > 1) also(offset + " % " + number(step) + " == 0u");
    from[k] = step > 1 ? writer.define_index("(" + offset + ") / " + number(step)) : offset;
  }
  const auto element = [&] { return writer.value(piece.in[0], writer.by_axes(x.shape(), from)); };
  if (inside.empty()) return element();
  return writer.choose(value_name(piece.type.dtype()), inside, element, padding);
}

std::string concatenate_from(Writer& writer, const Piece& piece, const std::vector<std::string>& at,
                             std::size_t axis, std::size_t first, std::size_t last, std::int64_t begin) {
  if (last - first == 1) {
    std::vector<std::string> from = at;
    if (begin != 0) from[axis] = writer.define_index(from[axis] + " - " + number(begin));
    return writer.value(piece.in[first], writer.by_axes(type_of(writer, piece, first).shape(), from));
  }
  const std::size_t middle = first + (last - first) / 2;
  std::int64_t end = begin;
  for (std::size_t i = first; i < middle; ++i) end += type_of(writer, piece, i).dim(axis);
  return writer.choose(
      value_name(piece.type.dtype()), at[axis] + " < " + number(end),
      [&] { return concatenate_from(writer, piece, at, axis, first, middle, begin); },
      [&] { return concatenate_from(writer, piece, at, axis, middle, last, end); });
}
std::string concatenate(Writer& writer, const Piece& whole, Index index) {
  const std::size_t axis = axis_of(whole.op->integer("dimension"));
  Piece piece = whole;  // without operands that have nothing
  piece.in.clear();
  for (const std::uint32_t id : whole.in) {
    if (writer.body().pieces[id].type.size() > 0) piece.in.push_back(id);
  }
  const std::vector<std::string> at = writer.axes(index);
  return concatenate_from(writer, piece, at, axis, 0, piece.in.size(), 0);
}

}  // namespace

std::vector<ExpressionEntry> layout_expressions() {
  return {{"constant", constant},
          {"full", constant},
          {"iota", iota},
          {"reshape", reshape},
          {"squeeze", reshape},
          {"expand_dims", reshape},
          {"transpose", transpose},
          {"broadcast_in_dim", broadcast_in_dim},
          {"rev", rev},
          {"slice", slice},
          {"pad", pad},
          {"concatenate", concatenate}};
}

}  // namespace tidu::cuda_detail
