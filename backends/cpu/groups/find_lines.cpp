// find_lines.cpp - see find_lines.hpp.
//
// Note [Lines of lines]: from the last operation to the first, a move whose readers all can do without it is
// no reader of what it moves, either. From the first to the last these become lines of what is in memory; one
// that cannot is made, and so is all that it is made of. What has been found to be lines of that stays it.
#include "cpu/groups/find_lines.hpp"

#include "cpu/is_any_of.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

#include <algorithm>
#include <string_view>

namespace tidu::cpu_detail {
namespace {

// Bytes of what is brought to a block's memory, at least: less stays in the nearest cache in any way.
constexpr std::size_t min_gathered = std::size_t{1} << 16;

bool is_move(const Graph& graph, std::uint32_t operation) {
  return is_any_of(graph.operation(operation), prim::slice, prim::pad, prim::broadcast_in_dim, prim::iota) ||
         passes::roll_of(graph, operation);
}

}  // namespace

LinesFinder::LinesFinder(const Program& program, const std::vector<bool>& alone,
                         const std::vector<passes::NodeValues>& values,
                         const std::vector<std::uint32_t>& readers, const std::vector<bool>& done)
    : program_(program), graph_(program.graph()), by_groups_(graph_.num_values()) {
  std::vector<std::uint32_t> reading(graph_.num_values(), 0);  // those that can do without the value
  std::vector<std::uint32_t> moves;
  const std::vector<ScheduleNode>& nodes = program.schedule().nodes;
  std::vector<std::size_t> node_of(graph_.num_operations(), 0);  // of those that are alone
  for (std::size_t i = 0; i < nodes.size(); i += nodes[i].size) {
    if (nodes[i].kind == NodeKind::operation) node_of[nodes[i].index] = i;
    if (nodes[i].kind != NodeKind::fused_group || nodes[i].index != 0) continue;
    for (const ValueId id : values[i].operands) {
      ++by_groups_[id];
      ++reading[id];
    }
  }
  for (auto k = static_cast<std::uint32_t>(graph_.num_operations()); k-- > 0;) {
    if (!alone[k] || done[k]) continue;
    const OperationRecord& record = graph_.data().operations[k];
    if (record.num_outputs != 1 || reading[record.first_output] == 0 ||
        reading[record.first_output] != readers[record.first_output] || !is_move(graph_, k))
      continue;
    moves.push_back(k);
    for (const ValueId id : values[node_of[k]].operands) ++reading[id];
  }
  for (std::size_t i = moves.size(); i-- > 0;) add(moves[i]);
}

void LinesFinder::add(std::uint32_t operation) {
  const Operation move = graph_.operation(operation);
  const ValueId made = move.output();
  Unmade value = unmade(operation);
  // What only others of these read need not come line by line: a slice of a roll's may not.
  const bool fits = by_groups_[made] > 0 ? can_read(made, value) : value.lines || move.num_inputs() > 0;
  if (fits) {
    unmade_.emplace(made, std::move(value));
  } else {
    for (const ValueId id : move.inputs()) make(id);
  }
}

LinesFinder::Unmade LinesFinder::unmade(std::uint32_t operation) const {
  const Operation move = graph_.operation(operation);
  if (move.num_inputs() == 0) return {no_index, lines_moved(graph_, operation, {})};
  const std::optional<passes::Roll> roll = passes::roll_of(graph_, operation);
  const ValueId operand = roll ? roll->from : move.inputs()[0];
  const ValueId root = program_.roots()[operand];
  const auto found = unmade_.find(root);
  if (found == unmade_.end())
    return {root, lines_moved(graph_, operation, lines_of_array(graph_.type(operand)))};
  const bool known = found->second.lines && graph_.type(operand) == graph_.type(root);
  return {found->second.from, known ? lines_moved(graph_, operation, *found->second.lines) : std::nullopt};
}

bool LinesFinder::can_read(ValueId id, const Unmade& value) const {
  if (!value.lines) return false;
  const std::optional<Lines> lines = lines_to_read(*value.lines);
  if (!lines || (lines->axes.size() > 1 && graph_.type(id).bytes() < min_gathered)) return false;
  if (value.from == no_index) return true;
  // It may live on until the groups have run: no more than twice what they would read, and where the last of
  // several may run much later, hardly more.
  const SlotId slot = program_.slot_of(value.from);
  if (slot == no_index) return false;
  const Storage storage = program_.slot(slot).storage;
  const std::size_t bytes = graph_.type(id).bytes(),
                    most = by_groups_[id] > 1 ? bytes + bytes / 4 : 2 * bytes;
  return storage == Storage::input || storage == Storage::constant || graph_.type(value.from).bytes() <= most;
}

// It is made after all, and so is what it moves.
void LinesFinder::make(ValueId id) {
  std::vector<ValueId> values = {program_.roots()[id]};
  while (!values.empty()) {
    const ValueId value = values.back();
    values.pop_back();
    if (unmade_.erase(value) == 0) continue;
    for (const ValueId operand : graph_.operation(*graph_.producer(value)).inputs())
      values.push_back(program_.roots()[operand]);
  }
}

std::vector<LinesOperand> LinesFinder::find(passes::NodeValues& group) const {
  std::vector<LinesOperand> found;
  for (const ValueId id : group.operands) {
    const auto value = unmade_.find(id);
    if (value != unmade_.end())
      found.push_back({id, value->second.from, *lines_to_read(*value->second.lines)});
  }
  const auto is_read = [&](ValueId id) {
    return std::find(group.operands.begin(), group.operands.end(), id) != group.operands.end();
  };
  for (const LinesOperand& operand : found) {
    std::erase(group.operands, operand.value);
    if (operand.from == no_index) continue;
    if (!is_read(operand.from)) group.operands.push_back(operand.from);
    group.whole.push_back(operand.from);
  }
  return found;
}

}  // namespace tidu::cpu_detail
