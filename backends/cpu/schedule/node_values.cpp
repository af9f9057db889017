// node_values.cpp - what a node of the schedule reads from memory, and what it leaves there.
#include <vector>

#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

std::vector<NodeValues> node_values(const Graph& graph, const Schedule& schedule,
                                    const std::vector<ValueId>& roots, const std::vector<ValueId>& splats) {
  std::vector<NodeValues> found(schedule.nodes.size());
  std::vector<std::uint32_t> made_in(graph.num_values(), no_index);  // by value: the position of its node
  std::vector<std::uint32_t> read_by(graph.num_values(), no_index);  // by value: the last node that read it
  std::vector<bool> escapes(graph.num_values(), false);
  const auto each_operation = [&](std::uint32_t node, const auto& body) {
    const ScheduleNode& at = schedule.nodes[node];
    const std::uint32_t first = at.kind == NodeKind::operation ? node : node + 1;
    for (std::uint32_t k = first; k < node + at.size; ++k) body(graph.operation(schedule.nodes[k].index));
  };
  for (std::uint32_t node = 0; node < schedule.nodes.size(); node += schedule.nodes[node].size) {
    if (schedule.nodes[node].kind == NodeKind::blocked_loop) {
      const BlockedLoop& loop = schedule.loops[schedule.nodes[node].index];
      for (const BlockedLoop::Value& operand : loop.operands) {
        const ValueId id = roots[operand.id];
        escapes[id] = true;
        if (read_by[id] != node) found[node].operands.push_back(id);
        read_by[id] = node;
      }
      for (const BlockedLoop::Value& result : loop.results) found[node].results.push_back(result.id);
      continue;
    }
    const bool fusion = schedule.nodes[node].kind == NodeKind::fusion;
    each_operation(node, [&](const Operation& operation) {
      for (const ValueId operand : operation.inputs()) {
        ValueId id = roots[operand];
        if (fusion && splats[operand] != no_index) {
          id = roots[splats[operand]];
          if (graph.type(id).size() != 1) continue;  // a literal
        }
        if (made_in[id] == node) continue;
        escapes[id] = true;
        if (read_by[id] != node) found[node].operands.push_back(id);
        read_by[id] = node;
      }
      for (std::size_t k = 0; k < operation.num_outputs(); ++k) made_in[operation.output(k)] = node;
    });
  }
  for (const ValueId id : graph.outputs()) escapes[roots[id]] = true;
  for (std::uint32_t node = 0; node < schedule.nodes.size(); node += schedule.nodes[node].size) {
    if (schedule.nodes[node].kind == NodeKind::blocked_loop) continue;
    const bool fusion = schedule.nodes[node].kind == NodeKind::fusion;
    each_operation(node, [&](const Operation& operation) {
      for (std::size_t k = 0; k < operation.num_outputs(); ++k) {
        if (!fusion || escapes[operation.output(k)]) found[node].results.push_back(operation.output(k));
      }
    });
  }
  return found;
}

}  // namespace tidu::passes
