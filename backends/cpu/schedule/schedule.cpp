// schedule.cpp - the schedule without fusions, in the order of the graph; and delay_matmuls.
#include "cpu/schedule/fusion_limits.hpp"
#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

Schedule sequential_schedule(const Graph& graph, const std::vector<bool>& is_constant, LoopPlan plan) {
  Schedule schedule;
  if (plan.items.empty()) {
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) plan.items.push_back({false, i});
  }
  schedule.loops = std::move(plan.loops);
  schedule.nodes.reserve(plan.items.size());
  for (const LoopPlan::Item& item : plan.items) {
    if (item.loop) {
      schedule.nodes.push_back({NodeKind::blocked_loop, item.index, 1});
      continue;
    }
    const OperationRecord& record = graph.data().operations[item.index];
    if (record.op->primitive->has_trait(Trait::view)) continue;
    if (record.num_outputs > 0 && is_constant[record.first_output]) continue;
    schedule.nodes.push_back({NodeKind::operation, item.index, 1});
  }
  return schedule;
}

Schedule delay_matmuls(const Graph& graph, Schedule schedule, const std::vector<ValueId>& roots,
                       const std::vector<ValueId>& splats) {
  constexpr std::size_t large = std::size_t{1} << 16;  // bytes
  const std::vector<ScheduleNode>& nodes = schedule.nodes;
  std::vector<std::uint32_t> matmuls;  // positions
  for (std::uint32_t i = 0; i < nodes.size(); i += nodes[i].size) {
    if (nodes[i].kind != NodeKind::operation) continue;
    const Operation matmul = graph.operation(nodes[i].index);
    if (!matmul.primitive().has_trait(Trait::contraction) || matmul.num_outputs() != 1) continue;
    std::size_t bytes = 0;
    for (const ValueId id : matmul.inputs()) bytes += graph.type(id).bytes();
    const std::size_t made = graph.type(matmul.output()).bytes();
    if (made >= large && made >= bytes) matmuls.push_back(i);
  }
  if (matmuls.empty()) return schedule;

  constexpr std::uint32_t several = no_index - 1;
  std::vector<std::uint32_t> reader(graph.num_values(), no_index);
  const std::vector<NodeValues> values = node_values(graph, schedule, roots, splats);
  for (std::uint32_t i = 0; i < nodes.size(); i += nodes[i].size) {
    for (const ValueId id : values[i].operands) reader[id] = reader[id] == no_index ? i : several;
  }
  std::vector<std::uint32_t> before(nodes.size(), no_index);  // by position of a fusion: that of its matmul
  std::vector<bool> moves(nodes.size(), false);
  for (const std::uint32_t i : matmuls) {
    const std::uint32_t fusion = reader[graph.operation(nodes[i].index).output()];
    if (fusion >= several || fusion == i + 1 || nodes[fusion].kind != NodeKind::fusion ||
        nodes[fusion].index != 0 || before[fusion] != no_index)
      continue;
    before[fusion] = i;
    moves[i] = true;
  }
  std::vector<ScheduleNode> moved;
  moved.reserve(nodes.size());
  for (std::uint32_t i = 0; i < nodes.size(); i += nodes[i].size) {
    if (before[i] != no_index) moved.push_back(nodes[before[i]]);
    if (!moves[i]) moved.insert(moved.end(), nodes.begin() + i, nodes.begin() + i + nodes[i].size);
  }
  schedule.nodes = std::move(moved);
  return schedule;
}

}  // namespace tidu::passes
