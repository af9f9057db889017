// layout_placement.cpp - see layout_placement.hpp.
#include "cpu/schedule/layout_placement.hpp"

#include "cpu/is_any_of.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::passes {

bool LayoutPlacement::is_layout(const Graph& graph, std::uint32_t operation) {
  return is_any_of(graph.operation(operation), prim::slice, prim::pad, prim::broadcast_in_dim, prim::iota) ||
         roll_of(graph, operation).has_value();
}

std::vector<LayoutPlacement::Reordered> LayoutPlacement::in_order() const {
  std::vector<Reordered> entries = entries_;
  // An operand of a layout operation is placed no later than that operation.
  for (std::size_t i = entries.size(); i-- > 0;) {
    const OperationRecord& record = graph_.data().operations[entries[i].operation];
    for (std::uint32_t k = 0; k < record.num_inputs; ++k) {
      const std::uint32_t at = at_[roots_[graph_.data().operands[record.first_input + k]]];
      if (at != no_index) entries[at].before = std::min(entries[at].before, entries[i].before);
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Reordered& a, const Reordered& b) { return a.before < b.before; });
  return entries;
}

}  // namespace tidu::passes
