// moved_parts.cpp - see moved_parts.hpp.
#include "cpu/steps/moved_parts.hpp"

#include <algorithm>
#include <string_view>

#include "cpu/is_any_of.hpp"
#include "cpu/kernels/strided.hpp"
#include "cpu/layout.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t min_line = 16;        // bytes that lie side by side, at least
constexpr std::size_t max_line = 64;        // and for which more are not better
constexpr std::size_t max_axes_moved = 16;  // of a value

struct PartsState {
  struct Copy {
    StridedCopy copy;
    std::size_t operand;
    std::ptrdiff_t from, to;  // bytes
  };
  std::vector<Copy> copies;
};
void copy_parts(const PartsState& s, const Call& call) noexcept {
  for (const PartsState::Copy& each : s.copies)
    each.copy.run(call.in[each.operand] + each.from, call.out[0] + each.to);
}

}  // namespace

bool makes_parts(const Graph& graph, std::uint32_t index) {
  const Operation operation = graph.operation(index);
  if (!is_any_of(operation, prim::transpose, prim::slice, prim::concatenate)) return false;
  const Type type = graph.type(operation.output());
  return type.size() > 1 && type.rank() <= max_axes_moved;
}

MovedLines MovedLines::of(const MovedParts& parts, Type type) {
  const std::vector<std::int64_t> to = strides_of(type);
  std::size_t last = type.rank();
  while (last > 0 && type.dim(last - 1) == 1) --last;
  MovedLines lines{max_line, max_line};
  for (const MovedPart& part : parts) {
    std::int64_t run = 1, of_last = 0;
    for (std::size_t k = last; k-- > 0;) {
      const MovedAxis& axis = part.axes[k];
      if (axis.extent != 1 && (axis.stride != run || to[k] != run)) break;
      run *= axis.extent;
      if (k + 1 == last) of_last = run;
    }
    const std::int64_t merged = of_last == 0 ? 0 : run;
    lines.of_last = std::min(lines.of_last, static_cast<std::size_t>(of_last) * size_of(type.dtype()));
    lines.merged = std::min(lines.merged, static_cast<std::size_t>(merged) * size_of(type.dtype()));
  }
  return lines;
}

bool MovedLines::are_as_long_as(const MovedLines& others) const {
  return of_last >= std::max(min_line, others.of_last) || merged >= std::max(min_line, others.merged);
}

MovedParts MovedValues::parts_of(ValueId id) const {
  if (const auto found = made_of_.find(id); found != made_of_.end()) return found->second;
  const Type type = graph_.type(id);
  const std::vector<std::int64_t> strides = strides_of(type);
  MovedPart whole{program_.roots()[id], 0, {}};
  for (std::size_t k = 0; k < type.rank(); ++k) whole.axes.push_back({0, type.dim(k), strides[k]});
  return {whole};
}

std::optional<MovedParts> MovedValues::result_of(std::uint32_t index) const {
  const Operation operation = graph_.operation(index);
  MovedParts made;
  if (is_any_of(operation, prim::transpose)) {
    const Ints& permutation = operation.op().ints("permutation");
    made = parts_of(operation.inputs()[0]);
    for (MovedPart& part : made) {
      const std::vector<MovedAxis> axes = part.axes;
      for (std::size_t k = 0; k < axes.size(); ++k)
        part.axes[k] = axes[static_cast<std::size_t>(permutation[k])];
    }
  } else if (is_any_of(operation, prim::slice)) {
    made = parts_of(operation.inputs()[0]);
    if (made.size() != 1) return std::nullopt;
    const Ints& starts = operation.op().ints("start_indices");
    const Ints& steps = operation.op().ints("strides");
    const Type type = graph_.type(operation.output());
    for (std::size_t k = 0; k < type.rank(); ++k) {
      MovedAxis& axis = made[0].axes[k];
      made[0].offset += starts[k] * axis.stride;
      axis.extent = type.dim(k);
      if (!steps.empty() && axis.extent > 1) axis.stride *= steps[k];
    }
  } else {
    const auto along = static_cast<std::size_t>(operation.op().integer("dimension"));
    std::int64_t begin = 0;
    for (const ValueId id : operation.inputs()) {
      const Type type = graph_.type(id);
      if (type.size() == 0) continue;
      for (MovedPart& part : parts_of(id)) {
        part.axes[along].begin += begin;
        made.push_back(std::move(part));
      }
      begin += type.dim(along);
      if (made.size() > max_parts) return std::nullopt;
    }
  }
  return made;
}

std::optional<std::pair<ValueId, StridedElements>> MovedValues::places_of(ValueId id) const {
  const ValueId root = program_.roots()[id];
  const auto found = made_of_.find(root);
  const Type type = graph_.type(id);
  if (found == made_of_.end()) return std::pair(root, StridedElements{0, strides_of(type)});
  if (found->second.size() != 1) return std::nullopt;
  const MovedPart& part = found->second[0];
  std::vector<MovedAxis> axes = part.axes;
  std::erase_if(axes, [](const MovedAxis& axis) { return axis.extent == 1; });
  StridedElements places{part.offset, std::vector<std::int64_t>(type.rank(), 0)};
  std::size_t next = 0;
  for (std::size_t k = 0; k < type.rank(); ++k) {
    if (type.dim(k) == 1) continue;
    if (next == axes.size() || axes[next].extent != type.dim(k)) return std::nullopt;
    places.strides[k] = axes[next++].stride;
  }
  return std::pair(part.from, places);
}

Plan plan_parts(const MovedParts& parts, Type type, int threads, std::vector<ValueId>& operands) {
  const std::vector<std::int64_t> to = strides_of(type);
  const std::size_t size = size_of(type.dtype());
  PartsState state;
  operands.clear();
  for (const MovedPart& part : parts) {
    const auto known = std::find(operands.begin(), operands.end(), part.from);
    const auto operand = static_cast<std::size_t>(known - operands.begin());
    if (known == operands.end()) operands.push_back(part.from);
    std::vector<StridedAxis> axes;
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < part.axes.size(); ++k) {
      axes.push_back({part.axes[k].extent, to[k], part.axes[k].stride});
      begin += part.axes[k].begin * to[k];
    }
    state.copies.push_back({StridedCopy(std::move(axes), size, threads), operand,
                            part.offset * static_cast<std::ptrdiff_t>(size),
                            begin * static_cast<std::ptrdiff_t>(size)});
  }
  return make_plan<PartsState, copy_parts>(std::move(state));
}

}  // namespace tidu::cpu_detail
