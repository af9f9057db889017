// contributions.cpp - see contributions.hpp.
#include "eager/contributions.hpp"

#include <algorithm>
#include <utility>

#include "eager/failure.hpp"

namespace tidu::eager::detail {

Contributions::~Contributions() {
  const auto destroy_all = [this](Cell*& cell) {
    while (cell != nullptr) destroy_cell(table_, std::exchange(cell, cell->next));
  };
  if (live_ != 0) {
    reached_.states().for_each([&](State& state) {
      destroy_all(state.cell);
      if (state.cells == nullptr) return;
      for (std::uint32_t slot = 0; slot < state.node->num_outputs(); ++slot) destroy_all(state.cells[slot]);
      delete[] state.cells;
    });
  }
  for (LeafState& leaf : reached_.leaves().list()) destroy_all(leaf.cell);
}

void Contributions::add(Node& target, Cell* cell, const PrimitiveSet* set, const char*& phase) {
  Cell* owned[] = {cell};
  const CellGuard guard(table_, owned);
  Cell** head = nullptr;
  bool failed = false;
  Placement placement = target.placement();
  if (target.is_leaf()) {
    LeafState& leaf = reached_.leaf(target);
    if (!leaf.wanted) return;
    if (leaf.set == nullptr) leaf.set = set;
    leaf.type = cell->type;
    placement = leaf.node->placement();  // several nodes may stand for one leaf
    failed = leaf.failed;
    head = &leaf.cell;
  } else {
    State& state = reached_.state(target);
    if (!state.needed && !state.captured) return;
    failed = state.failed;
    set = &target.variant->owner->graph.primitives();
    head = &state.cell;
    if (folds_at_once_ && target.num_outputs() > 1) {
      if (state.cells == nullptr) {
        state.cells = new Cell*[target.num_outputs()]();
        ++live_;
      }
      head = state.cells + cell->target_slot;
    }
  }
  if (failed && folds_at_once_) return;  // the cell may hold the rest of a failed sum
  cotangents_.move_to(*cell, placement);
  owned[0] = nullptr;
  if (*head == nullptr || !folds_at_once_) {
    cell->next = *head;
    *head = cell;
    ++live_;
  } else {
    phase = BackwardPhase::add;
    cotangents_.fold(*head, cell, set, reached_.representative(target));
  }
}

void Contributions::take(State& state, std::span<Cell*> by_slot) const {
  std::fill(by_slot.begin(), by_slot.end(), nullptr);
  Node& node = *state.node;
  if (!folds_at_once_) {
    cotangents_.fold_waiting(state.cell, by_slot, &node.variant->owner->graph.primitives(), node);
  } else if (by_slot.size() == 1) {
    by_slot[0] = std::exchange(state.cell, nullptr);
  } else if (state.cells != nullptr) {
    std::copy_n(state.cells, by_slot.size(), by_slot.begin());
    delete[] std::exchange(state.cells, nullptr);
  }
  if (!cotangents_.wide_accumulation) return;
  const Template& graph = *node.variant->owner;
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
    if (by_slot[slot] != nullptr)
      cotangents_.complete_sum(*by_slot[slot], graph.output_types[slot], &graph.graph.primitives(), node);
  }
}

void Contributions::take(LeafState& leaf, std::span<Cell*, 1> sum) const {
  if (folds_at_once_) {
    std::swap(sum[0], leaf.cell);
  } else {
    for (Cell* at = leaf.cell; at != nullptr; at = at->next) at->target_slot = 0;
    cotangents_.fold_waiting(leaf.cell, sum, leaf.set, *leaf.node);
  }
  if (sum[0] != nullptr && cotangents_.wide_accumulation)
    cotangents_.complete_sum(*sum[0], leaf.type, leaf.set, *leaf.node);
}

}  // namespace tidu::eager::detail
