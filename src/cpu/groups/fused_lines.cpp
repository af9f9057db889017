// fused_lines.cpp - see fused_lines.hpp.
#include "cpu/groups/fused_lines.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "cpu/layout.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t shortest_line = 32;  // bytes
constexpr std::size_t most_line_axes = 8;
// Bytes of what is brought to a block's memory, at least: less stays in the nearest cache in any way.
constexpr std::size_t least_gathered = std::size_t{1} << 16;

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

const Literal* literal_of_full(const Graph& graph, ValueId id) {
  const auto maker = graph.producer(id);
  if (!maker || graph.type(id).size() != 1) return nullptr;
  for (const auto& [name, value] : graph.operation(*maker).op().attributes()) {
    const auto* literal = value.get_if<Literal>();
    if (literal != nullptr && literal->type().dtype() == graph.type(id).dtype()) return literal;
  }
  return nullptr;
}

template <class Word>
void fill_words(const std::byte* element, std::int64_t count, std::byte* to) {
  Word word;
  std::memcpy(&word, element, sizeof word);
  std::fill_n(reinterpret_cast<Word*>(to), count, word);
}
void fill(const std::byte* element, std::size_t size, std::int64_t count, std::byte* to) {
  switch (size) {
    case 1: return fill_words<std::uint8_t>(element, count, to);
    case 2: return fill_words<std::uint16_t>(element, count, to);
    case 4: return fill_words<std::uint32_t>(element, count, to);
    case 8: return fill_words<std::uint64_t>(element, count, to);
    default:
      for (; count > 0; --count, to += size) std::memcpy(to, element, size);
  }
}

// Elements first, first + step, ...
template <class T>
void count_from(std::int64_t first, std::int64_t step, std::int64_t count, std::byte* to) {
  T* const elements = reinterpret_cast<T*>(to);
  if (step == 0) {
    std::fill_n(elements, count, static_cast<T>(first));
  } else {
    for (std::int64_t i = 0; i < count; ++i) elements[i] = static_cast<T>(first + i);
  }
}
void count_from(DType dtype, std::int64_t first, std::int64_t step, std::int64_t count, std::byte* to) {
  switch (dtype) {
    case DType::i32: return count_from<std::int32_t>(first, step, count, to);
    case DType::i64: return count_from<std::int64_t>(first, step, count, to);
    case DType::f32: return count_from<float>(first, step, count, to);
    default: return count_from<double>(first, step, count, to);
  }
}

// What is repeated has strides of 0.
void set_broadcast(const Graph& graph, const Operation& broadcast, Lines& lines) {
  const Type from = graph.type(broadcast.inputs()[0]);
  const std::vector<std::int64_t> strides = strides_of(from);
  const Ints& dimensions = broadcast.op().ints("broadcast_dimensions");
  for (LineAxis& axis : lines.axes) axis = {axis.extent, 0, axis.extent, 0};
  for (std::size_t k = 0; k < dimensions.size(); ++k) {
    if (from.dim(k) != 1) lines.axes[static_cast<std::size_t>(dimensions[k])].stride = strides[k];
  }
}
// The places along one axis.
bool set_iota(const Operation& iota, DType dtype, Lines& lines) {
  if (dtype != i32 && dtype != i64 && dtype != f32 && dtype != f64) return false;
  lines.counted = dtype;
  const auto along = static_cast<std::size_t>(iota.op().integer("dimension"));
  for (std::size_t k = 0; k < lines.axes.size(); ++k) {
    LineAxis& axis = lines.axes[k];
    axis = {axis.extent, 0, axis.extent, k == along ? 1 : 0};
  }
  return true;
}

void set_slice(const Operation& slice, Lines& lines) {
  const Ints &starts = slice.op().ints("start_indices"), &steps = slice.op().ints("strides");
  for (std::size_t k = 0; k < lines.axes.size(); ++k) {
    LineAxis& axis = lines.axes[k];
    lines.offset += starts[k] * axis.stride;
    axis.count = axis.extent;
    if (!steps.empty() && axis.extent > 1) axis.stride *= steps[k];
  }
}

bool set_pad(const Graph& graph, const Operation& pad, Lines& lines) {
  const Type from = graph.type(pad.inputs()[0]);
  const Literal* padding = literal_of_full(graph, pad.inputs()[1]);
  if (padding == nullptr || from.size() == 0) return false;
  const IntLists& config = pad.op().lists("padding_config");
  for (std::size_t k = 0; k < lines.axes.size(); ++k) {
    if (config[k][0] < 0 || config[k][1] < 0 || config[k][2] != 0) return false;
    lines.axes[k].begin = config[k][0];
    lines.axes[k].count = from.dim(k);
  }
  lines.padding.assign(padding->bytes(), padding->bytes() + lines.size);
  return true;
}

// Where there an element of an axis comes from, the first one there being 0.
std::int64_t turned(const LineAxis& axis, std::int64_t place) {
  if (axis.turn == 0) return place - axis.begin;
  return place < axis.turn ? place - axis.turn + axis.extent : place - axis.turn;
}

}  // namespace

std::optional<Lines> lines_of(const Graph& graph, std::uint32_t index) {
  const Operation operation = graph.operation(index);
  const std::string_view name = operation.op().name();
  const std::optional<passes::Roll> roll = passes::roll_of(graph, index);
  const bool is_cut = name == "slice" || name == "pad" || roll;
  if (!is_cut && name != "broadcast_in_dim" && name != "iota") return std::nullopt;
  const Type type = graph.type(operation.output());
  if (type.rank() == 0 || type.rank() > most_line_axes || type.size() < 2) return std::nullopt;
  Lines lines;
  lines.size = size_of(type.dtype());
  for (const std::int64_t extent : type.shape()) lines.axes.push_back({extent, 0, 0, 0});
  bool fits = true;
  if (is_cut) {
    const std::vector<std::int64_t> strides = strides_of(roll ? type : graph.type(operation.inputs()[0]));
    for (std::size_t k = 0; k < strides.size(); ++k) lines.axes[k].stride = strides[k];
    if (name == "slice") {
      set_slice(operation, lines);
    } else if (roll) {
      for (LineAxis& axis : lines.axes) axis.count = axis.extent;
      lines.axes[roll->axis].turn = roll->shift;
    } else {
      fits = set_pad(graph, operation, lines);
    }
  } else if (name == "iota") {
    fits = set_iota(operation, type.dtype(), lines);
  } else {
    set_broadcast(graph, operation, lines);
  }
  if (!fits) return std::nullopt;
  merge_axes(lines.axes);
  const LineAxis& line = lines.axes.back();
  const bool repeats = line.stride == 0 && !is_cut;
  if ((line.stride != 1 && !repeats) || static_cast<std::size_t>(line.count) * lines.size < shortest_line)
    return std::nullopt;
  return lines;
}

bool Lines::are_equal() const {
  return std::all_of(axes.begin(), axes.end() - 1,
                     [](const LineAxis& axis) { return axis.is_whole() && axis.stride == 0; });
}

Lines::Found Lines::find(std::int64_t at, std::int64_t count) const {
  const LineAxis& line = axes.back();
  const std::int64_t in_line = at % line.extent, end = in_line + count;
  Found found;
  found.place = offset + turned(line, in_line) * line.stride;
  found.side_by_side = line.stride == 1 && !counts() && in_line >= line.begin &&
                       end <= line.begin + line.count && (in_line >= line.turn || end <= line.turn);
  std::int64_t rest = at / line.extent;
  for (std::size_t k = axes.size() - 1; k-- > 0; rest /= axes[k].extent) {
    const std::int64_t there = turned(axes[k], rest % axes[k].extent);
    found.side_by_side = found.side_by_side && there >= 0 && there < axes[k].count;
    found.place += there * axes[k].stride;
  }
  return found;
}

void Lines::copy(const std::byte* from, std::int64_t at, std::int64_t count, std::byte* to) const {
  const LineAxis& line = axes.back();
  const std::size_t outer = axes.size() - 1;
  std::array<std::int64_t, most_line_axes> places{};
  std::int64_t in_line = at % line.extent, rest = at / line.extent;
  for (std::size_t k = outer; k-- > 0; rest /= axes[k].extent) places[k] = rest % axes[k].extent;
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * size; };
  const auto pad = [&](std::int64_t elements) {
    if (elements > 0) fill(padding.data(), size, elements, to);
    to += bytes(elements);
  };
  while (count > 0) {
    std::int64_t end = std::min(line.extent, in_line + count);
    if (in_line < line.turn) end = std::min(end, line.turn);
    std::int64_t first = offset + (turned(line, in_line) - in_line) * line.stride;
    bool is_there = true;
    for (std::size_t k = 0; k < outer; ++k) {
      const std::int64_t place = turned(axes[k], places[k]);
      is_there = is_there && place >= 0 && place < axes[k].count;
      first += place * axes[k].stride;
    }
    const std::int64_t begin_there = is_there ? std::clamp(line.begin, in_line, end) : end;
    const std::int64_t end_there = is_there ? std::clamp(line.begin + line.count, begin_there, end) : end;
    pad(begin_there - in_line);
    if (const std::int64_t there = end_there - begin_there; there > 0) {
      const std::int64_t place = first + begin_there * line.stride;
      if (counts()) {
        count_from(counted, place, line.stride, there, to);
      } else if (line.stride == 0) {
        fill(from + bytes(place), size, there, to);
      } else {
        std::memcpy(to, from + bytes(place), bytes(there));
      }
      to += bytes(there);
    }
    pad(end - end_there);
    count -= end - in_line;
    in_line = end;
    if (in_line < line.extent) continue;
    in_line = 0;
    for (std::size_t k = outer; k-- > 0;) {
      if (++places[k] < axes[k].extent) break;
      places[k] = 0;
    }
  }
}

std::vector<LinesOperand> find_lines(const Program& program, std::size_t node, const std::vector<bool>& alone,
                                     std::vector<passes::NodeValues>& values,
                                     const std::vector<std::uint32_t>& readers, std::vector<bool>& done) {
  const Graph& graph = program.graph();
  passes::NodeValues& group = values[node];
  const auto is_read = [&](ValueId id) {
    return std::find(group.operands.begin(), group.operands.end(), id) != group.operands.end();
  };
  std::vector<LinesOperand> found;
  for (const ValueId id : group.operands) {
    const std::uint32_t maker = graph.data().producers[id];
    if (readers[id] != 1 || maker >= graph.num_operations() || !alone[maker] || done[maker]) continue;
    std::optional<Lines> lines = lines_of(graph, maker);
    if (!lines || (!lines->is_one_line() && graph.type(id).bytes() < least_gathered)) continue;
    ValueId from = no_index;
    const std::optional<passes::Roll> roll = passes::roll_of(graph, maker);
    if (!lines->counts()) {  // it may live on until the group has run
      from = program.roots()[roll ? roll->from : graph.operation(maker).inputs()[0]];
      const SlotId slot = program.slot_of(from);
      if (slot == no_index) continue;
      const Storage storage = program.slot(slot).storage;
      const bool stays = storage == Storage::input || storage == Storage::constant;
      if (!stays && graph.type(from).bytes() > 2 * graph.type(id).bytes()) continue;
    }
    found.push_back({id, from, std::move(*lines)});
    done[maker] = true;
    if (!roll) continue;
    for (const std::uint32_t slice : roll->slices) {
      const ValueId made = graph.operation(slice).output();
      if (alone[slice] && readers[made] == 1) done[slice] = true;
    }
  }
  for (const LinesOperand& operand : found) {
    std::erase(group.operands, operand.value);
    if (operand.from == no_index) continue;
    if (!is_read(operand.from)) group.operands.push_back(operand.from);
    group.whole.push_back(operand.from);
  }
  return found;
}

}  // namespace tidu::cpu_detail
