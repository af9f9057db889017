// verify.cpp - a plan is followed byte by byte, as a check that does not share the planner's reasoning.
#include <map>

#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

// Who wrote a byte last, by region; regions are the workspace's two and each input, constant and output.
class Memory {
 public:
  explicit Memory(const SlotPlan& plan) : plan_(plan) {}
  void write(SlotId id, ValueId value) {
    const Slot& slot = plan_.slots[id];
    std::vector<ValueId>& bytes = region(slot);
    for (std::size_t i = 0; i < slot_bytes(slot); ++i) bytes[slot.offset + i] = value;
  }
  bool holds(SlotId id, ValueId value) {
    const Slot& slot = plan_.slots[id];
    const std::vector<ValueId>& bytes = region(slot);
    for (std::size_t i = 0; i < slot_bytes(slot); ++i) {
      if (bytes[slot.offset + i] != value) return false;
    }
    return true;
  }

 private:
  static std::size_t slot_bytes(const Slot& slot) { return slot.bytes; }
  std::vector<ValueId>& region(const Slot& slot) {
    const bool shared = slot.storage == Storage::small || slot.storage == Storage::large;
    std::vector<ValueId>& bytes = regions_[{slot.storage, shared ? 0 : slot.index}];
    const std::size_t size = slot.storage == Storage::small   ? plan_.small_bytes
                             : slot.storage == Storage::large ? plan_.large_bytes
                                                              : slot.offset + slot.bytes;
    if (bytes.size() < size) bytes.resize(size, no_index);
    return bytes;
  }
  const SlotPlan& plan_;
  std::map<std::pair<Storage, std::uint32_t>, std::vector<ValueId>> regions_;
};

}  // namespace

void verify_plan(const Graph& graph, const Schedule& schedule, const SlotPlan& plan) {
  const std::vector<ValueId> roots = alias_roots(graph);
  Memory memory(plan);
  for (const ValueId id : graph.inputs()) memory.write(plan.slot_of[id], id);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const SlotId slot = plan.slot_of[id];
    if (slot != no_index && plan.slots[slot].storage == Storage::constant && roots[id] == id)
      memory.write(slot, id);
  }
  const auto read = [&](ValueId id, const std::string& reader) {
    if (plan.slot_of[id] == no_index || !memory.holds(plan.slot_of[id], roots[id])) {
      throw Error(ErrorKind::internal,
                  detail::str("memory plan: the bytes of value %", id, " are not its own ", reader));
    }
  };
  const auto write = [&](ValueId id) {
    if (plan.slot_of[id] == no_index)
      throw Error(ErrorKind::internal, detail::str("memory plan: value %", id, " has no place"));
    memory.write(plan.slot_of[id], id);
  };
  const std::vector<ValueId> splats = find_splats(graph);
  std::vector<std::size_t> made_in(graph.num_values(), no_index);  // by value: the position of its node
  for (std::size_t node = 0; node < schedule.nodes.size(); node += schedule.nodes[node].size) {
    const bool fusion = schedule.nodes[node].kind == NodeKind::fusion;
    std::vector<ValueId> results;
    if (schedule.nodes[node].kind == NodeKind::blocked_loop) {
      const BlockedLoop& loop = schedule.loops[schedule.nodes[node].index];
      const std::string reader = detail::str("for the blocked loop at ", node, " of the schedule");
      for (const BlockedLoop::Value& operand : loop.operands) read(operand.id, reader);
      for (const BlockedLoop::Value& result : loop.results) write(result.id);
      // A loop writes results while it still reads operands, so they must not share memory.
      for (const BlockedLoop::Value& operand : loop.operands) read(operand.id, reader);
      for (const BlockedLoop::Value& result : loop.results) read(result.id, reader);
      continue;
    }
    for (std::size_t k = schedule.nodes[node].size > 1 ? node + 1 : node;
         k < node + schedule.nodes[node].size; ++k) {
      const std::uint32_t index = schedule.nodes[k].index;
      const Operation operation = graph.operation(index);
      for (const ValueId id : operation.inputs()) {
        // A fusion makes no memory for itself, and reads repeated elements where the one is, or not at all.
        const bool repeated = fusion && splats[id] != no_index;
        if (repeated && graph.type(splats[id]).size() > 1) continue;
        const ValueId from = repeated ? splats[id] : id;
        if (made_in[roots[from]] != node) read(from, describe_operation(graph, index));
      }
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        made_in[operation.output(slot)] = node;
        if (!fusion || plan.slot_of[operation.output(slot)] != no_index)
          results.push_back(operation.output(slot));
      }
    }
    for (const ValueId id : results) write(id);
    for (const ValueId id : results)
      read(id, detail::str("among the results of the node at ", node, " of the schedule"));
  }
  for (const ValueId id : graph.outputs()) read(id, "at the end");
}

}  // namespace tidu::passes
