// layout_placement.hpp - LayoutPlacement: placement of layout operations between fusions, so that they do not
// separate operations that could fuse: see Note [Layout placement] in fuse.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tidu/cpu/schedule_passes.hpp"
#include "tidu/graph/graph.hpp"

namespace tidu::passes {

/// Slices, pads, iotas, broadcasts and rolls whose readers are element-wise operations or other members of
/// this set. Each is scheduled before one node: at its position in the graph, or before the first node that
/// reads it if that is earlier.
class LayoutPlacement {
 public:
  /// Collects the members from a plan's items. `may_fuse(record)`: may the operation be in a fusion?
  template <class MayFuse>
  LayoutPlacement(const Graph& graph, const std::vector<ValueId>& roots, const std::vector<ValueId>& splats,
                  const LoopPlan& plan, const MayFuse& may_fuse)
      : graph_(graph), roots_(roots), found_(graph.num_operations()), at_(graph.num_values(), no_index) {
    std::vector<bool> read(graph.num_values());
    for (std::size_t i = plan.items.size(); i-- > 0;) {
      if (plan.items[i].loop) continue;
      const std::uint32_t operation = plan.items[i].index;
      const OperationRecord& record = graph.data().operations[operation];
      const bool fuses = may_fuse(record);
      if (!fuses) {
        if (record.num_outputs != 1 || !read[record.first_output] || !is_layout(graph, operation)) continue;
        found_[operation] = true;
      }
      for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
        ValueId id = graph.data().operands[record.first_input + k];
        if (fuses && splats[id] != no_index) id = splats[id];
        read[roots[id]] = true;
      }
    }
  }

  /// Is the operation a member?
  bool contains(std::uint32_t operation) const { return found_[operation]; }
  /// Adds a member, whose position in the graph is before `node`.
  void add(std::uint32_t operation, std::uint32_t node) {
    at_[graph_.data().operations[operation].first_output] = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back({operation, node});
  }
  /// Is the value the result of a member added so far?
  bool made(ValueId root) const { return at_[root] != no_index; }
  /// Records that the node reads the value.
  void read(ValueId root, std::uint32_t node) {
    if (made(root)) entries_[at_[root]].before = std::min(entries_[at_[root]].before, node);
  }
  /// A member, and the node before which it is scheduled.
  struct Reordered {
    std::uint32_t operation = 0;
    std::uint32_t before = 0;
  };
  /// In the order of nodes, then in the order of the graph.
  std::vector<Reordered> in_order() const;

 private:
  static bool is_layout(const Graph& graph, std::uint32_t operation);

  const Graph& graph_;
  const std::vector<ValueId>& roots_;
  std::vector<bool> found_;         // by operation
  std::vector<std::uint32_t> at_;   // by value: index into `entries_`
  std::vector<Reordered> entries_;  // in the order of the graph
};

}  // namespace tidu::passes
