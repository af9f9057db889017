// verify.cpp - a plan is followed byte by byte, as a check that does not share the planner's reasoning.
#include <map>

#include "tidu/graph/error.hpp"
#include "tidu/program/passes.hpp"

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
                                                              : slot.bytes;
    if (bytes.size() < size) bytes.resize(size, no_index);
    return bytes;
  }
  const SlotPlan& plan_;
  std::map<std::pair<Storage, std::uint32_t>, std::vector<ValueId>> regions_;
};

}  // namespace

void verify_plan(const Graph& graph, const Schedule& schedule, const SlotPlan& plan) {
  const std::vector<ValueId> roots = storage_roots(graph);
  Memory memory(plan);
  for (const ValueId id : graph.inputs()) memory.write(plan.slot_of[id], id);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const SlotId slot = plan.slot_of[id];
    if (slot != no_index && plan.slots[slot].storage == Storage::constant && roots[id] == id)
      memory.write(slot, id);
  }
  const auto read = [&](ValueId id, const std::string& place) {
    if (plan.slot_of[id] == no_index || !memory.holds(plan.slot_of[id], roots[id])) {
      throw Error(ErrorKind::internal,
                  detail::str("memory plan: the bytes of value %", id, " are not its own ", place));
    }
  };
  const std::vector<NodeValues> nodes = node_values(graph, schedule, roots, find_splats(graph));
  for (std::size_t node = 0; node < nodes.size(); node += schedule.nodes[node].size) {
    const ScheduleNode& at = schedule.nodes[node];
    const std::uint32_t operation =
        at.kind == NodeKind::operation ? at.index : schedule.nodes[node + 1].index;
    for (const ValueId id : nodes[node].operands) read(id, describe_operation(graph, operation));
    for (const ValueId id : nodes[node].results) memory.write(plan.slot_of[id], id);
    for (const ValueId id : nodes[node].results)
      read(id, "among the results " + describe_operation(graph, operation));
  }
  for (const ValueId id : graph.outputs()) read(id, "at the end");
}

}  // namespace tidu::passes
