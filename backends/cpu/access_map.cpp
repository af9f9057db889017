// access_map.cpp - AccessMap: composition with layout operations.
#include "cpu/access_map.hpp"

#include <algorithm>

#include "cpu/is_any_of.hpp"
#include "cpu/layout.hpp"
#include "cpu/schedule/splat.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::int64_t min_line_bytes = 32;

// The literal of a padding value.
const Literal* padding_literal(const Graph& graph, ValueId id) {
  const Literal* literal = graph.type(id).size() == 1 ? passes::literal_of(graph, id) : nullptr;
  return literal != nullptr && literal->type().dtype() == graph.type(id).dtype() ? literal : nullptr;
}

// Keeps elements start, start + step, ... of an axis, `count` in all. Adds to the offset of the map.
bool cut(AccessAxis& axis, std::int64_t start, std::int64_t step, std::int64_t count, std::int64_t& offset) {
  if (start == 0 && step == 1 && count == axis.extent) return true;
  if (axis.roll != 0) {
    const bool behind = start >= axis.roll;
    if (!behind && start + (count - 1) * step >= axis.roll) return false;
    offset += (behind ? start - axis.roll : start - axis.roll + axis.extent) * axis.stride;
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

// Merges each axis with the next one if that continues it, and drops axes of one element.
void merge_axes(std::vector<AccessAxis>& axes) {
  std::vector<AccessAxis> merged;
  for (std::size_t k = axes.size(); k-- > 0;) {
    AccessAxis axis = axes[k];
    if (axis.extent == 1 && axis.is_whole() && !(k == 0 && merged.empty())) continue;
    if (!merged.empty() && merged.back().is_whole() &&
        axis.stride == merged.back().extent * merged.back().stride) {
      const std::int64_t inner = merged.back().extent;
      merged.back() = {axis.extent * inner, axis.begin * inner, axis.count * inner, merged.back().stride,
                       axis.roll * inner};
    } else {
      merged.push_back(axis);
    }
  }
  std::reverse(merged.begin(), merged.end());
  axes = std::move(merged);
}

}  // namespace

AccessMap AccessMap::dense(ValueId source, Type type) {
  AccessMap map;
  map.source = source;
  map.size = size_of(type.dtype());
  const std::vector<std::int64_t> strides = strides_of(type);
  for (std::size_t k = 0; k < type.rank(); ++k) map.axes.push_back({type.dim(k), 0, type.dim(k), strides[k]});
  return map;
}

std::optional<AccessMap> AccessMap::iota(Type type, std::size_t along) {
  const DType dtype = type.dtype();
  if (dtype != i32 && dtype != i64 && dtype != f32 && dtype != f64) return std::nullopt;
  AccessMap map;
  map.size = size_of(dtype);
  map.counted = dtype;
  for (std::size_t k = 0; k < type.rank(); ++k)
    map.axes.push_back({type.dim(k), 0, type.dim(k), k == along ? 1 : 0});
  return map;
}

void AccessMap::transpose(std::span<const std::int64_t> permutation) {
  const std::vector<AccessAxis> before = axes;
  for (std::size_t k = 0; k < axes.size(); ++k) axes[k] = before[static_cast<std::size_t>(permutation[k])];
}

bool AccessMap::slice(std::span<const std::int64_t> starts, std::span<const std::int64_t> steps,
                      std::span<const std::int64_t> shape) {
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (!cut(axes[k], starts[k], steps.empty() ? 1 : steps[k], shape[k], offset)) return false;
  }
  return true;
}

bool AccessMap::pad(const IntLists& config, std::span<const std::byte> element) {
  for (std::size_t k = 0; k < axes.size(); ++k) {
    AccessAxis& axis = axes[k];
    const std::int64_t low = config[k][0], high = config[k][1];
    if (low < 0 || high < 0 || config[k][2] != 0 || (axis.roll != 0 && low + high != 0)) return false;
    axis.begin += low;
    axis.extent += low + high;
  }
  if (!padding.empty() && !std::ranges::equal(padding, element)) return false;
  padding.assign(element.begin(), element.end());
  return true;
}

bool AccessMap::broadcast(std::span<const std::int64_t> dimensions, std::span<const std::int64_t> shape) {
  std::vector<AccessAxis> wide;
  for (const std::int64_t extent : shape) wide.push_back({extent, 0, extent, 0});  // repeated: stride 0
  for (std::size_t k = 0; k < dimensions.size(); ++k) {
    AccessAxis& axis = wide[static_cast<std::size_t>(dimensions[k])];
    if (axes[k].extent == axis.extent) {
      axis = axes[k];
    } else if (!axes[k].is_whole()) {
      return false;
    }
  }
  axes = std::move(wide);
  return true;
}

bool AccessMap::roll(std::size_t axis, std::int64_t shift) {
  AccessAxis& rolled = axes[axis];
  if (rolled.begin != 0 || rolled.count != rolled.extent) return false;
  rolled.roll = (rolled.roll + shift) % rolled.extent;
  return true;
}

std::vector<std::int64_t> AccessMap::strides() const {
  std::vector<std::int64_t> strides;
  for (const AccessAxis& axis : axes) strides.push_back(axis.stride);
  return strides;
}

std::optional<AccessMap> compose(const Graph& graph, std::uint32_t index, const AccessMap& operand) {
  const Operation operation = graph.operation(index);
  const Op op = operation.op();
  const Type type = graph.type(operation.output());
  if (is_any_of(operation, prim::iota))
    return AccessMap::iota(type, static_cast<std::size_t>(op.integer("dimension")));
  AccessMap map = operand;
  bool fits = false;
  if (is_any_of(operation, prim::slice)) {
    fits = map.slice(op.ints("start_indices"), op.ints("strides"), type.shape());
  } else if (is_any_of(operation, prim::broadcast_in_dim)) {
    fits = map.broadcast(op.ints("broadcast_dimensions"), type.shape());
  } else if (is_any_of(operation, prim::pad)) {
    const Literal* padding = padding_literal(graph, operation.inputs()[1]);
    fits = padding != nullptr && graph.type(operation.inputs()[0]).size() != 0 &&
           map.pad(op.lists("padding_config"), {padding->bytes(), map.size});
  } else if (const std::optional<passes::Roll> rolled = passes::roll_of(graph, index)) {
    fits = map.roll(rolled->axis, rolled->shift);
  }
  return fits ? std::optional(std::move(map)) : std::nullopt;
}

std::optional<AccessMap> with_merged_axes(AccessMap map) {
  if (map.axes.empty() || map.axes.size() > max_access_axes) return std::nullopt;
  std::int64_t size = 1;
  for (const AccessAxis& axis : map.axes) size *= axis.extent;
  merge_axes(map.axes);
  const AccessAxis& line = map.axes.back();
  if (size < 2 || (line.stride != 1 && line.stride != 0) ||
      line.extent * static_cast<std::int64_t>(map.size) < min_line_bytes)
    return std::nullopt;
  return map;
}

}  // namespace tidu::cpu_detail
