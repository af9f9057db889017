// moved_lines.cpp - what slices, pads, broadcasts, iotas and rolls make of lines.
#include <algorithm>
#include <string_view>

#include "cpu/groups/fused_lines.hpp"
#include "cpu/is_any_of.hpp"
#include "cpu/layout.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::int64_t shortest_line = 32;  // bytes

const Literal* literal_of_full(const Graph& graph, ValueId id) {
  const auto maker = graph.producer(id);
  if (!maker || graph.type(id).size() != 1) return nullptr;
  for (const auto& [name, value] : graph.operation(*maker).op().attributes()) {
    const auto* literal = value.get_if<Literal>();
    if (literal != nullptr && literal->type().dtype() == graph.type(id).dtype()) return literal;
  }
  return nullptr;
}

// Elements start, start + step, ... of an axis, so many.
bool cut(LineAxis& axis, std::int64_t start, std::int64_t step, std::int64_t count, std::int64_t& offset) {
  if (start == 0 && step == 1 && count == axis.extent) return true;
  if (axis.turn != 0) {
    const bool behind = start >= axis.turn;
    if (!behind && start + (count - 1) * step >= axis.turn) return false;
    offset += (behind ? start - axis.turn : start - axis.turn + axis.extent) * axis.stride;
  } else if (axis.is_whole()) {
    offset += start * axis.stride;
  } else {
    if (step != 1) return false;
    const std::int64_t begin = std::clamp<std::int64_t>(axis.begin - start, 0, count);
    const std::int64_t end = std::clamp<std::int64_t>(axis.begin + axis.count - start, begin, count);
    offset += std::max<std::int64_t>(0, start - axis.begin) * axis.stride;
    axis = {count, begin, end - begin, axis.stride};
    return true;
  }
  axis = {count, 0, count, count > 1 ? axis.stride * step : axis.stride};
  return true;
}

bool slice(const Operation& slice, Type result, Lines& lines) {
  const Ints &starts = slice.op().ints("start_indices"), &steps = slice.op().ints("strides");
  for (std::size_t k = 0; k < lines.axes.size(); ++k) {
    if (!cut(lines.axes[k], starts[k], steps.empty() ? 1 : steps[k], result.dim(k), lines.offset))
      return false;
  }
  return true;
}

bool pad(const Graph& graph, const Operation& pad, Lines& lines) {
  const Literal* padding = literal_of_full(graph, pad.inputs()[1]);
  if (padding == nullptr || graph.type(pad.inputs()[0]).size() == 0) return false;
  const IntLists& config = pad.op().lists("padding_config");
  for (std::size_t k = 0; k < lines.axes.size(); ++k) {
    LineAxis& axis = lines.axes[k];
    const std::int64_t low = config[k][0], high = config[k][1];
    if (low < 0 || high < 0 || config[k][2] != 0 || (axis.turn != 0 && low + high != 0)) return false;
    axis.begin += low;
    axis.extent += low + high;
  }
  const std::vector<std::byte> element(padding->bytes(), padding->bytes() + lines.size);
  if (!lines.padding.empty() && lines.padding != element) return false;
  lines.padding = element;
  return true;
}

bool roll(const passes::Roll& roll, Lines& lines) {
  LineAxis& axis = lines.axes[roll.axis];
  if (axis.begin != 0 || axis.count != axis.extent) return false;
  axis.turn = (axis.turn + roll.shift) % axis.extent;
  return true;
}

// What is repeated has strides of 0.
bool broadcast(const Graph& graph, const Operation& broadcast, Type result, Lines& lines) {
  const Type from = graph.type(broadcast.inputs()[0]);
  const Ints& dimensions = broadcast.op().ints("broadcast_dimensions");
  std::vector<LineAxis> axes;
  for (const std::int64_t extent : result.shape()) axes.push_back({extent, 0, extent, 0});
  for (std::size_t k = 0; k < dimensions.size(); ++k) {
    LineAxis& axis = axes[static_cast<std::size_t>(dimensions[k])];
    if (from.dim(k) == axis.extent) {
      axis = lines.axes[k];
    } else if (!lines.axes[k].is_whole()) {
      return false;
    }
  }
  lines.axes = std::move(axes);
  return true;
}

// The places along one axis.
std::optional<Lines> iota(const Operation& iota, Type type) {
  const DType dtype = type.dtype();
  if (dtype != i32 && dtype != i64 && dtype != f32 && dtype != f64) return std::nullopt;
  Lines lines;
  lines.size = size_of(dtype);
  lines.counted = dtype;
  const auto along = static_cast<std::size_t>(iota.op().integer("dimension"));
  for (std::size_t k = 0; k < type.rank(); ++k)
    lines.axes.push_back({type.dim(k), 0, type.dim(k), k == along ? 1 : 0});
  return lines;
}

// Axes that go on where the next one ends become one with it; those of one element go.
void merge_axes(std::vector<LineAxis>& axes) {
  std::vector<LineAxis> merged;
  for (std::size_t k = axes.size(); k-- > 0;) {
    LineAxis axis = axes[k];
    if (axis.extent == 1 && axis.is_whole() && !(k == 0 && merged.empty())) continue;
    if (!merged.empty() && merged.back().is_whole() &&
        axis.stride == merged.back().extent * merged.back().stride) {
      const std::int64_t inner = merged.back().extent;
      merged.back() = {axis.extent * inner, axis.begin * inner, axis.count * inner, merged.back().stride,
                       axis.turn * inner};
    } else {
      merged.push_back(axis);
    }
  }
  std::reverse(merged.begin(), merged.end());
  axes = std::move(merged);
}

}  // namespace

Lines lines_of_array(Type type) {
  Lines lines;
  lines.size = size_of(type.dtype());
  const std::vector<std::int64_t> strides = strides_of(type);
  for (std::size_t k = 0; k < type.rank(); ++k)
    lines.axes.push_back({type.dim(k), 0, type.dim(k), strides[k]});
  return lines;
}

std::optional<Lines> lines_moved(const Graph& graph, std::uint32_t index, const Lines& operand) {
  const Operation operation = graph.operation(index);
  const Type type = graph.type(operation.output());
  if (is_any_of(operation, prim::iota)) return iota(operation, type);
  Lines lines = operand;
  bool fits = false;
  if (is_any_of(operation, prim::slice)) fits = slice(operation, type, lines);
  if (is_any_of(operation, prim::pad)) fits = pad(graph, operation, lines);
  if (is_any_of(operation, prim::broadcast_in_dim)) fits = broadcast(graph, operation, type, lines);
  if (const std::optional<passes::Roll> rolled = passes::roll_of(graph, index)) fits = roll(*rolled, lines);
  if (!fits) return std::nullopt;
  return lines;
}

std::optional<Lines> lines_to_read(Lines lines) {
  if (lines.axes.empty() || lines.axes.size() > max_line_axes) return std::nullopt;
  std::int64_t size = 1;
  for (const LineAxis& axis : lines.axes) size *= axis.extent;
  merge_axes(lines.axes);
  const LineAxis& line = lines.axes.back();
  if (size < 2 || (line.stride != 1 && line.stride != 0) ||
      line.extent * static_cast<std::int64_t>(lines.size) < shortest_line)
    return std::nullopt;
  return lines;
}

}  // namespace tidu::cpu_detail
