// indexing_expressions.cpp - operations that read where operands say: take, dynamic slices; windows; random
// bits.
#include <array>

#include "cuda/kernels/body.hpp"

namespace tidu::cuda_detail {
namespace {

using Index = Writer::Index;

std::string number(std::int64_t value) { return std::to_string(value) + "u"; }
std::string signed_number(std::int64_t value) { return "(i64)" + std::to_string(value) + "ll"; }
Type type_of(const Writer& writer, const Piece& piece, std::size_t i) {
  return writer.body().pieces[piece.in[i]].type;
}
std::size_t axis_of(std::int64_t axis) { return static_cast<std::size_t>(axis); }
std::string zero_of(DType dtype) {
  return std::string(value_name(dtype)) + (is_complex(dtype) ? "{0, 0}" : "(0)");
}

// x at `chosen`, the i64 index along the axis, and `at` along the others.
std::string taken(Writer& writer, const Piece& piece, const std::string& chosen,
                  std::vector<std::string> at) {
  const std::size_t axis = axis_of(piece.op->integer("axis"));
  const Type x = type_of(writer, piece, 0);
  const std::int64_t extent = x.dim(axis);
  const auto element = [&](const std::string& place) {
    at[axis] = writer.define_index(place);
    return writer.value(piece.in[0], writer.by_axes(x.shape(), at));
  };
  if (piece.op->string("mode") == "clip") {
    return element("(index_t)op::clamp(" + signed_number(0) + ", " + chosen + ", " +
                   signed_number(extent - 1) + ")");
  }
  if (x.size() == 0) return zero_of(piece.type.dtype());
  return writer.choose(
      value_name(piece.type.dtype()), chosen + " >= 0 && " + chosen + " < " + signed_number(extent),
      [&] { return element("(index_t)(" + chosen + ")"); }, [&] { return zero_of(piece.type.dtype()); });
}
std::string take(Writer& writer, const Piece& piece, Index index) {
  const std::size_t axis = axis_of(piece.op->integer("axis"));
  const Type indices = type_of(writer, piece, 1);
  const std::vector<std::string> at = writer.axes(index);
  const auto first = at.begin() + static_cast<std::ptrdiff_t>(axis);
  const auto last = first + static_cast<std::ptrdiff_t>(indices.rank());
  const std::string which =
      writer.value(piece.in[1], writer.by_axes(indices.shape(), std::vector<std::string>(first, last)));
  const std::string chosen = writer.define("i64", "(i64)" + which);
  std::vector<std::string> from(at.begin(), first);
  from.emplace_back("0");
  from.insert(from.end(), last, at.end());
  return taken(writer, piece, chosen, std::move(from));
}
std::string take_along_axis(Writer& writer, const Piece& piece, Index index) {
  const std::string which = writer.value(piece.in[1], index);
  const std::string chosen = writer.define("i64", "(i64)" + which);
  return taken(writer, piece, chosen, writer.axes(index));
}

// Where a window of that shape begins along an axis; the start indices are the operands from `first` on.
std::string begin_of(Writer& writer, const Piece& piece, std::size_t first, std::size_t axis,
                     std::int64_t extent, std::int64_t window) {
  if (extent == window) return "0";
  const std::string start = writer.value(piece.in[first + axis], writer.by_axes({}, {}));
  return writer.define("index_t", "(index_t)op::clamp(" + signed_number(0) + ", (i64)" + start + ", " +
                                      signed_number(extent - window) + ")");
}
std::string dynamic_slice(Writer& writer, const Piece& piece, Index index) {
  const Type x = type_of(writer, piece, 0);
  std::vector<std::string> from = writer.axes(index);
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::string begin = begin_of(writer, piece, 1, k, x.dim(k), piece.type.dim(k));
    from[k] = writer.define_index(plus(from[k], begin));
  }
  return writer.value(piece.in[0], writer.by_axes(x.shape(), std::move(from)));
}
std::string dynamic_update_slice(Writer& writer, const Piece& piece, Index index) {
  const Type update = type_of(writer, piece, 1);
  if (update.size() == 0) return writer.value(piece.in[0], index);
  std::vector<std::string> from = writer.axes(index);
  std::string inside;
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::string begin = begin_of(writer, piece, 2, k, piece.type.dim(k), update.dim(k));
    if (begin == "0" && update.dim(k) == piece.type.dim(k)) continue;
    from[k] = writer.define_index((from[k] == "0" ? "(index_t)0" : from[k]) + " - " + begin);
    inside += (inside.empty() ? "" : " && ") + from[k] + " < " + number(update.dim(k));
  }
  if (inside.empty()) return writer.value(piece.in[1], index);
  return writer.choose(
      value_name(piece.type.dtype()), inside,
      [&] { return writer.value(piece.in[1], writer.by_axes(update.shape(), from)); },
      [&] { return writer.value(piece.in[0], index); });
}

// Folds each window in row-major order.
std::string reduce_window(Writer& writer, const Piece& piece, Index index) {
  const Ints &window = piece.op->ints("window_dimensions"), &strides = piece.op->ints("window_strides");
  const IntLists& padding = piece.op->lists("padding");
  const Type x = type_of(writer, piece, 0);
  const DType dtype = piece.type.dtype();
  const std::string fold =
      std::string(piece.op->name() == "reduce_window_sum" ? "monoid::sum<" : "monoid::max<") +
      std::string(value_name(dtype)) + ">";
  std::string sum = writer.fresh("v");
  writer.line(std::string(value_name(dtype)) + " " + sum + " = " + fold + "::none();");
  if (x.size() > 0) {
    const std::vector<std::string> at = writer.axes(index);
    std::vector<std::string> from(x.rank());
    std::string inside;
    std::size_t loops = 0;
    for (std::size_t k = 0; k < x.rank(); ++k) {
      std::string place = times(at[k], strides[k]);
      if (window[k] != 1) {
        const std::string w = writer.fresh("w");
        writer.line("for (index_t " + w + " = 0; " + w + " < " + number(window[k]) + "; ++" + w + ") {");
        writer.open_scope();
        ++loops;
        place = plus(place, w);
      }
      const std::int64_t low = padding[k][0];
      if (low > 0) place = (place == "0" ? "(index_t)0" : place) + " - " + number(low);
      if (low < 0) place = plus(place, number(-low));
      from[k] = writer.define_index(place);
      const std::int64_t last = (piece.type.dim(k) - 1) * strides[k] + window[k] - 1 - low;
      if (low > 0 || last >= x.dim(k))
        inside += (inside.empty() ? "" : " && ") + from[k] + " < " + number(x.dim(k));
    }
    if (!inside.empty()) {
      writer.line("if (" + inside + ") {");
      writer.open_scope();
      ++loops;
    }
    const std::string element = writer.value(piece.in[0], writer.by_axes(x.shape(), from));
    writer.line(sum + " = " + fold + "()(" + sum + ", " + element + ");");
    for (; loops > 0; --loops) {
      writer.close_scope();
      writer.line("}");
    }
  }
  if (dtype != f16 && dtype != bf16) return sum;
  return writer.define("float", "rounded<" + std::string(memory_name(dtype)) + ">::of(" + sum + ")");
}

std::string random_bits(Writer& writer, const Piece& piece, Index index) {
  const Type keys = type_of(writer, piece, 0);
  const std::int64_t count = keys.size() == 0 ? 1 : piece.type.size() / (keys.size() / 2);
  const bool one = keys.size() == 2;
  const std::string place = writer.place(index);
  const std::string key = one ? "0" : writer.define_index("(" + place + ") / " + number(count));
  const std::string counter = one ? place : writer.define_index("(" + place + ") % " + number(count));
  std::array<std::string, 2> words;
  for (std::size_t k = 0; k < 2; ++k) {
    const std::string at = k == 0 ? times(key, 2) : plus(times(key, 2), "1u");
    words[k] = writer.value(piece.in[0], writer.by_place(keys.shape(), writer.define_index(at)));
  }
  const std::string bits = writer.define(
      "u64", "op::threefry((u32)" + words[0] + ", (u32)" + words[1] + ", (u64)(" + counter + "))");
  if (piece.type.dtype() == i64) return writer.define("i64", "(i64)" + bits);
  return writer.define("i32", "(i32)((u32)(" + bits + " >> 32) ^ (u32)" + bits + ")");
}

}  // namespace

std::vector<ExpressionEntry> indexing_expressions() {
  return {{"take", take},
          {"take_along_axis", take_along_axis},
          {"dynamic_slice", dynamic_slice},
          {"dynamic_update_slice", dynamic_update_slice},
          {"reduce_window_sum", reduce_window},
          {"reduce_window_max", reduce_window},
          {"random_bits", random_bits}};
}

}  // namespace tidu::cuda_detail
