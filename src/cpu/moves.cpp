// moves.cpp - what moved elements are copied from, and the plans of those that copy them.
#include "cpu/moves.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cpu/layout.hpp"
#include "cpu/strided.hpp"

namespace tidu::cpu_detail {
namespace {

constexpr std::size_t most_parts = 16;       // that one operation copies
constexpr std::size_t least_line = 16;       // bytes that lie side by side, at least
constexpr std::size_t most_line = 64;        // and for which more are not better
constexpr std::size_t most_axes_moved = 16;  // of a value

// A box of a value, and the elements of a root that are there.
struct MovedAxis {
  std::int64_t begin = 0, extent = 0;  // of the box
  std::int64_t stride = 0;             // of the root, in elements
};
struct MovedPart {
  ValueId from = 0;
  std::int64_t offset = 0;  // of the box's first element in the root
  std::vector<MovedAxis> axes;
};
using MovedParts = std::vector<MovedPart>;

struct MoveState {
  struct Copy {
    StridedCopy copy;
    std::size_t operand;
    std::ptrdiff_t from, to;  // bytes
  };
  std::vector<Copy> copies;
};
void move_parts(const MoveState& s, const Call& call) {
  for (const MoveState::Copy& each : s.copies)
    each.copy.run(call.in[each.operand] + each.from, call.out[0] + each.to);
}

// One that copies from elsewhere than from its operands.
struct MoveStep {
  std::size_t node = 0;           // its position in the schedule
  std::vector<ValueId> operands;  // roots: what it copies from
  Plan plan;
};
struct Moves {
  std::vector<std::uint32_t> left_out;  // operations whose results are in no memory
  std::vector<MoveStep> steps;
};

class MoveFinder {
 public:
  MoveFinder(const Program& program, const std::vector<passes::NodeValues>& values,
             const std::vector<bool>& alone, int threads)
      : program_(program), graph_(program.graph()), values_(values), alone_(alone), threads_(threads) {}

  Moves find() {
    const std::vector<ScheduleNode>& nodes = program_.schedule().nodes;
    std::vector<std::size_t> movers;  // positions
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      if (nodes[i].kind == NodeKind::operation && is_move(nodes[i].index)) movers.push_back(i);
    }
    if (movers.size() < 2) return {};
    for (const std::size_t i : movers) readers_.try_emplace(graph_.operation(nodes[i].index).output());
    for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
      for (const ValueId id : values_[i].operands) {
        if (const auto found = readers_.find(id); found != readers_.end()) found->second.push_back(i);
      }
    }
    for (const ValueId id : graph_.outputs()) readers_.erase(program_.roots()[id]);
    Moves moves;
    for (const std::size_t i : movers) {
      const std::uint32_t index = nodes[i].index;
      std::optional<MovedParts> parts = result_of(index);
      if (!parts) continue;
      made_of_.emplace(graph_.operation(index).output(), std::move(*parts));
      if (can_leave_out(index)) {
        moves.left_out.push_back(index);
      } else {
        made_of_.erase(graph_.operation(index).output());
      }
    }
    if (moves.left_out.empty()) return moves;
    for (const std::size_t i : movers) {
      const std::uint32_t index = nodes[i].index;
      if (made_of_.count(graph_.operation(index).output()) == 0 && reads_left_out(index))
        moves.steps.push_back(step_of(i));
    }
    return moves;
  }

 private:
  bool is_move(std::uint32_t index) const {
    const std::string_view name = graph_.operation(index).op().name();
    if (name != "transpose" && name != "slice" && name != "concatenate") return false;
    const Type type = graph_.type(graph_.operation(index).output());
    return alone_[index] && type.size() > 1 && type.rank() <= most_axes_moved;
  }
  MovedParts parts_of(ValueId id) const {
    if (const auto found = made_of_.find(id); found != made_of_.end()) return found->second;
    const Type type = graph_.type(id);
    const std::vector<std::int64_t> strides = strides_of(type);
    MovedPart whole{program_.roots()[id], 0, {}};
    for (std::size_t k = 0; k < type.rank(); ++k) whole.axes.push_back({0, type.dim(k), strides[k]});
    return {whole};
  }
  // Of the operation's result; none where it is too much.
  std::optional<MovedParts> result_of(std::uint32_t index) const {
    const Operation operation = graph_.operation(index);
    const std::string_view name = operation.op().name();
    MovedParts made;
    if (name == "transpose") {
      const Ints& permutation = operation.op().ints("permutation");
      made = parts_of(operation.inputs()[0]);
      for (MovedPart& part : made) {
        const std::vector<MovedAxis> axes = part.axes;
        for (std::size_t k = 0; k < axes.size(); ++k)
          part.axes[k] = axes[static_cast<std::size_t>(permutation[k])];
      }
    } else if (name == "slice") {
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
        if (made.size() > most_parts) return std::nullopt;
      }
    }
    return made;
  }
  // Bytes that they are copied in at once, of the last axis.
  static std::size_t line_of(const MovedParts& parts, Type type) {
    std::size_t last = type.rank(), line = most_line;
    while (last > 0 && type.dim(last - 1) == 1) --last;
    if (last == 0) return 0;
    for (const MovedPart& part : parts) {
      const MovedAxis& axis = part.axes[last - 1];
      line = std::min(line,
                      axis.stride == 1 ? static_cast<std::size_t>(axis.extent) * size_of(type.dtype()) : 0);
    }
    return line;
  }
  // See Note [Moves]; what it is made of is known.
  bool can_leave_out(std::uint32_t index) const {
    const ValueId made = graph_.operation(index).output();
    const auto readers = readers_.find(made);
    if (readers == readers_.end() || readers->second.empty()) return false;
    // What it comes from may live on until it is read: no more than it would have taken itself, twice.
    const Type type_made = graph_.type(made);
    const std::size_t line = std::max(least_line, line_of(made_of_.at(made), type_made));
    std::size_t kept = 0;
    for (const MovedPart& part : made_of_.at(made)) {
      const Storage storage = program_.slot(program_.slot_of(part.from)).storage;
      if (storage != Storage::input && storage != Storage::constant) kept += graph_.type(part.from).bytes();
    }
    if (kept > 2 * type_made.bytes()) return false;
    std::int64_t copied = 0;
    for (const std::size_t node : readers->second) {
      const ScheduleNode& at = program_.schedule().nodes[node];
      if (at.kind != NodeKind::operation || !is_move(at.index)) return false;
      const Operation reader = graph_.operation(at.index);
      const Type type = graph_.type(reader.output());
      const std::optional<MovedParts> parts = result_of(at.index);
      if (!parts || line_of(*parts, type) < line) return false;
      for (const ValueId id : reader.inputs()) {
        if (program_.roots()[id] != made) continue;
        if (id != made) return false;  // in another shape
        copied += reader.num_inputs() == 1 ? type.size() : type_made.size();
      }
    }
    return copied <= type_made.size();
  }
  bool reads_left_out(std::uint32_t index) const {
    const std::span<const ValueId> inputs = graph_.operation(index).inputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) { return made_of_.count(id) != 0; });
  }
  MoveStep step_of(std::size_t node) const {
    const std::uint32_t index = program_.schedule().nodes[node].index;
    const Type type = graph_.type(graph_.operation(index).output());
    const std::vector<std::int64_t> to = strides_of(type);
    const std::size_t size = size_of(type.dtype());
    MoveStep step{node, {}, {}};
    MoveState state;
    const MovedParts parts = *result_of(index);
    for (const MovedPart& part : parts) {
      const auto known = std::find(step.operands.begin(), step.operands.end(), part.from);
      const auto operand = static_cast<std::size_t>(known - step.operands.begin());
      if (known == step.operands.end()) step.operands.push_back(part.from);
      std::vector<StridedAxis> axes;
      std::int64_t begin = 0;
      for (std::size_t k = 0; k < part.axes.size(); ++k) {
        axes.push_back({part.axes[k].extent, to[k], part.axes[k].stride});
        begin += part.axes[k].begin * to[k];
      }
      state.copies.push_back({StridedCopy(std::move(axes), size, threads_), operand,
                              part.offset * static_cast<std::ptrdiff_t>(size),
                              begin * static_cast<std::ptrdiff_t>(size)});
    }
    step.plan = make_plan<MoveState, move_parts>(std::move(state));
    return step;
  }

  const Program& program_;
  const Graph& graph_;
  const std::vector<passes::NodeValues>& values_;
  const std::vector<bool>& alone_;
  const int threads_;
  std::unordered_map<ValueId, std::vector<std::size_t>> readers_;  // of what moves make, no outputs
  std::unordered_map<ValueId, MovedParts> made_of_;                // what is left out
};

}  // namespace

std::unordered_map<std::size_t, Plan> make_moves(const Program& program,
                                                 std::vector<passes::NodeValues>& values,
                                                 const std::vector<bool>& alone, int threads,
                                                 std::vector<bool>& done) {
  Moves moves = MoveFinder(program, values, alone, threads).find();
  std::unordered_map<std::size_t, Plan> plans;
  if (!moves.left_out.empty()) done.resize(program.graph().num_operations());
  for (const std::uint32_t index : moves.left_out) done[index] = true;
  for (MoveStep& step : moves.steps) {
    values[step.node].operands = std::move(step.operands);
    plans.emplace(step.node, std::move(step.plan));
  }
  return plans;
}

}  // namespace tidu::cpu_detail
