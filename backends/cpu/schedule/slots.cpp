// slots.cpp - the memory plan: one walk over the schedule that frees each value's memory after its last
// reader.
//
// Note [Two regions]: values of up to a page have few sizes (multiples of 16) and reuse slots of exactly
// their size, which costs constant time. Larger values are placed best-fit among the free ranges of a second
// region; neighbouring free ranges are joined again.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::passes {
namespace {

constexpr std::size_t small_unit = 16;
constexpr std::size_t small_limit = 4096;
constexpr std::size_t large_unit = 64;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
}

// Best fit by (size, offset); stretches that touch are joined.
class LargeRegion {
 public:
  std::size_t allocate(std::size_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, offset] = *fit;
      erase(offset, size);
      if (size > bytes) insert(offset + bytes, size - bytes);
      return offset;
    }
    // Nothing fits: grow, from the last stretch when it ends where the region does.
    std::size_t offset = end_;
    if (!by_offset_.empty()) {
      const auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        erase(offset, last->second);
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void free(std::size_t offset, std::size_t bytes) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      const std::size_t size = next->second;
      erase(next->first, size);
      bytes += size;
    }
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        const auto [start, size] = *before;
        erase(start, size);
        offset = start;
        bytes += size;
      }
    }
    insert(offset, bytes);
  }
  std::size_t end() const { return end_; }

 private:
  void insert(std::size_t offset, std::size_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void erase(std::size_t offset, std::size_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }
  std::map<std::size_t, std::size_t> by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;
  std::size_t end_ = 0;
};

class Planner {
 public:
  Planner(const Graph& graph, const std::vector<ValueId>& roots) : graph_(graph), roots_(roots) {
    plan_.slot_of.assign(graph.num_values(), no_index);
  }

  void fixed(ValueId value, Storage storage, std::uint32_t index) {
    plan_.slot_of[value] = add({storage, index, 0, graph_.type(value).bytes()});
  }
  void place(ValueId value) {
    const std::size_t bytes = graph_.type(value).bytes();
    if (bytes <= small_limit) {
      std::vector<SlotId>& free = free_small_[(round_up(bytes, small_unit) / small_unit) - 1];
      if (!free.empty()) {
        plan_.slot_of[value] = free.back();
        plan_.slots[free.back()].bytes = std::max(plan_.slots[free.back()].bytes, bytes);
        free.pop_back();
        return;
      }
      plan_.slot_of[value] = add({Storage::small, 0, plan_.small_bytes, bytes});
      plan_.small_bytes += round_up(bytes, small_unit);
      return;
    }
    plan_.slot_of[value] = add({Storage::large, 0, large_.allocate(round_up(bytes, large_unit)), bytes});
  }
  void release(ValueId value) {
    const SlotId id = plan_.slot_of[value];
    const Slot& slot = plan_.slots[id];
    if (slot.storage == Storage::small)
      free_small_[(round_up(slot.bytes, small_unit) / small_unit) - 1].push_back(id);
    if (slot.storage == Storage::large) large_.free(slot.offset, round_up(slot.bytes, large_unit));
  }
  void take_over(ValueId value, ValueId from) {
    plan_.slot_of[value] = plan_.slot_of[from];
    ++plan_.in_place;
  }
  void place_sub_buffer(const SubBuffer& part) {
    const Slot& whole = plan_.slots[plan_.slot_of[part.whole]];
    plan_.slot_of[part.part] = add({whole.storage, whole.index, part.offset, graph_.type(part.part).bytes()});
    ++plan_.in_place;
  }
  bool in_workspace(ValueId value) const {
    const SlotId id = plan_.slot_of[value];
    return id != no_index && plan_.slots[id].storage >= Storage::small;
  }
  bool has_slot(ValueId value) const { return plan_.slot_of[value] != no_index; }
  bool is_output(ValueId value) const {
    return has_slot(value) && plan_.slots[plan_.slot_of[value]].storage == Storage::output;
  }

  SlotPlan finish() {
    for (ValueId id = 0; id < roots_.size(); ++id) plan_.slot_of[id] = plan_.slot_of[roots_[id]];
    plan_.large_bytes = large_.end();
    return std::move(plan_);
  }
  SlotPlan& plan() { return plan_; }

 private:
  SlotId add(const Slot& slot) {
    plan_.slots.push_back(slot);
    return static_cast<SlotId>(plan_.slots.size() - 1);
  }
  const Graph& graph_;
  const std::vector<ValueId>& roots_;
  SlotPlan plan_;
  std::array<std::vector<SlotId>, small_limit / small_unit> free_small_;
  LargeRegion large_;
};

// By root: the position of the last node that reads it; no_index when none does.
std::vector<std::uint32_t> last_readers(const Graph& graph, const std::vector<NodeValues>& nodes) {
  std::vector<std::uint32_t> last(graph.num_values(), no_index);
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    for (const ValueId id : nodes[node].operands) last[id] = node;
  }
  return last;
}

// May results of a row fusion take an operand's memory? Only if the fusion reduces no row, whose elements it
// might read again, and reads each element of the operand only where it computes the element of the result at
// the same position. Rows whose ends are no multiple of 32 bytes are slow to read where something was written
// just before.
bool reads_in_order(const Graph& graph, const Schedule& schedule, std::uint32_t node, ValueId operand,
                    const std::vector<ValueId>& roots) {
  constexpr std::size_t unit = 32;
  if (schedule.nodes[node].index * size_of(graph.type(operand).dtype()) % unit != 0) return false;
  for (std::uint32_t k = node + 1; k < node + schedule.nodes[node].size; ++k) {
    const std::uint32_t index = schedule.nodes[k].index;
    const RowStep::Kind kind = row_step(graph, index).kind;
    if (kind == RowStep::Kind::reduce_rows) return false;
    if (kind == RowStep::Kind::none || kind == RowStep::Kind::reduce_columns) continue;
    for (const ValueId id : graph.operation(index).inputs()) {
      if (roots[id] == operand) return false;
    }
  }
  return true;
}

}  // namespace

SlotPlan assign_slots(const Graph& graph, const Schedule& schedule, const std::vector<bool>& is_constant,
                      const std::vector<ValueId>& roots, const std::vector<ValueId>& splats, bool in_place) {
  return assign_slots(graph, schedule, is_constant, roots, node_values(graph, schedule, roots, splats),
                      in_place);
}

SlotPlan assign_slots(const Graph& graph, const Schedule& schedule, const std::vector<bool>& is_constant,
                      const std::vector<ValueId>& roots, const std::vector<NodeValues>& nodes, bool in_place,
                      std::span<const SubBuffer> parts) {
  Planner planner(graph, roots);
  for (std::uint32_t i = 0; i < graph.inputs().size(); ++i)
    planner.fixed(graph.inputs()[i], Storage::input, i);
  for (ValueId id = 0; id < is_constant.size(); ++id) {
    if (!is_constant[id]) continue;
    planner.fixed(id, Storage::constant, id);
    planner.plan().constant_bytes += graph.type(id).bytes();
  }
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId root = roots[graph.outputs()[i]];
    planner.plan().output_bytes += graph.type(root).bytes();
    if (!planner.has_slot(root)) planner.fixed(root, Storage::output, i);
  }
  const std::vector<std::uint32_t> last = last_readers(graph, nodes);
  // A value that a node updates in place into an output is made in the memory of the output.
  for (std::uint32_t node = static_cast<std::uint32_t>(nodes.size()); in_place && node-- > 0;) {
    const ValueId changed = nodes[node].changed;
    if (changed == no_index || last[changed] != node || planner.has_slot(changed)) continue;
    const ValueId result = nodes[node].results[0];
    if (planner.is_output(result)) planner.take_over(changed, result);
  }
  for (const SubBuffer& part : parts) {
    if (planner.is_output(part.whole) && !planner.has_slot(part.part)) planner.place_sub_buffer(part);
  }

  // By operand: the last node of which a result took its memory, or the node from which on it is free.
  std::vector<std::uint32_t> taken_at(graph.num_values(), no_index);
  for (std::uint32_t node = 0; node < schedule.nodes.size(); node += schedule.nodes[node].size) {
    const NodeValues& values = nodes[node];
    const ScheduleNode& at = schedule.nodes[node];
    const bool of_rows = at.kind == NodeKind::fusion && at.index != 0;
    const bool reuse = in_place && (at.kind == NodeKind::fusion ||
                                    (at.kind == NodeKind::operation && values.results.size() == 1 &&
                                     graph.operation(at.index).primitive().has_trait(Trait::elementwise)));
    const auto dies_here = [&](ValueId operand) {
      return last[operand] == node && planner.in_workspace(operand) && taken_at[operand] != node;
    };
    for (const ValueId result : values.results) {
      if (planner.has_slot(result)) continue;
      const auto fits = [&](ValueId operand) {
        return graph.type(operand).bytes() == graph.type(result).bytes() &&
               graph.type(operand).size() == graph.type(result).size() && dies_here(operand) &&
               std::find(values.whole.begin(), values.whole.end(), operand) == values.whole.end() &&
               (!of_rows || reads_in_order(graph, schedule, node, operand, roots));
      };
      const auto may_be_there = [&](ValueId operand) {
        return operand == values.changed ? dies_here(operand) : reuse && fits(operand);
      };
      const auto operand = in_place
                               ? std::find_if(values.operands.begin(), values.operands.end(), may_be_there)
                               : values.operands.end();
      if (operand == values.operands.end()) {
        planner.place(result);
      } else {
        planner.take_over(result, *operand);
        taken_at[*operand] = node;
      }
    }
    for (const ValueId operand : values.operands) {
      if (!dies_here(operand)) continue;
      planner.release(operand);
      taken_at[operand] = node;  // who reads it twice may name it twice
    }
    for (const ValueId result : values.results) {
      if (last[result] == no_index && planner.in_workspace(result)) planner.release(result);
    }
  }
  return planner.finish();
}

}  // namespace tidu::passes
