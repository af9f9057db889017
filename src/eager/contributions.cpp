// contributions.cpp - see contributions.hpp.
#include "eager/contributions.hpp"

#include <algorithm>
#include <utility>

#include "eager/failure.hpp"

namespace tidu::eager::detail {

Contributions::~Contributions() {
  const auto destroy_all = [this](Cotangent*& cotangent) {
    while (cotangent != nullptr) destroy_cotangent(table_, std::exchange(cotangent, cotangent->next));
  };
  if (live_ != 0) {
    reached_.states().for_each([&](State& state) {
      destroy_all(state.cotangent);
      if (state.cotangents == nullptr) return;
      for (std::uint32_t slot = 0; slot < state.node->num_outputs(); ++slot)
        destroy_all(state.cotangents[slot]);
      delete[] state.cotangents;
    });
  }
  for (LeafState& leaf : reached_.leaves().list()) destroy_all(leaf.cotangent);
}

void Contributions::add(Node& target, Cotangent* cotangent, const PrimitiveSet* set, const char*& phase) {
  Cotangent* owned[] = {cotangent};
  const CotangentGuard guard(table_, owned);
  Cotangent** head = nullptr;
  bool failed = false;
  Placement placement = target.placement();
  if (target.is_leaf()) {
    LeafState& leaf = reached_.leaf(target);
    if (!leaf.wanted) return;
    if (leaf.set == nullptr) leaf.set = set;
    leaf.type = cotangent->type;
    placement = leaf.node->placement();  // several nodes may stand for one leaf
    failed = leaf.failed;
    head = &leaf.cotangent;
  } else {
    State& state = reached_.state(target);
    if (!state.needed && !state.captured) return;
    failed = state.failed;
    set = &target.specialization->owner->graph.primitives();
    head = &state.cotangent;
    if (folds_at_once_ && target.num_outputs() > 1) {
      if (state.cotangents == nullptr) {
        state.cotangents = new Cotangent*[target.num_outputs()]();
        ++live_;
      }
      head = state.cotangents + cotangent->target_slot;
    }
  }
  if (failed && folds_at_once_) return;  // the cotangent may hold the rest of a failed sum
  cotangents_.move_to(*cotangent, placement);
  owned[0] = nullptr;
  if (*head == nullptr || !folds_at_once_) {
    cotangent->next = *head;
    *head = cotangent;
    ++live_;
  } else {
    phase = BackwardPhase::add;
    cotangents_.accumulate(*head, cotangent, set, reached_.representative(target));
  }
}

void Contributions::take(State& state, std::span<Cotangent*> by_slot) const {
  std::fill(by_slot.begin(), by_slot.end(), nullptr);
  Node& node = *state.node;
  if (!folds_at_once_) {
    cotangents_.fold_waiting(state.cotangent, by_slot, &node.specialization->owner->graph.primitives(), node);
  } else if (by_slot.size() == 1) {
    by_slot[0] = std::exchange(state.cotangent, nullptr);
  } else if (state.cotangents != nullptr) {
    std::copy_n(state.cotangents, by_slot.size(), by_slot.begin());
    delete[] std::exchange(state.cotangents, nullptr);
  }
  if (!cotangents_.wide_accumulation) return;
  const CachedGraph& graph = *node.specialization->owner;
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
    if (by_slot[slot] != nullptr)
      cotangents_.complete_sum(*by_slot[slot], graph.output_types[slot], &graph.graph.primitives(), node);
  }
}

void Contributions::take(LeafState& leaf, std::span<Cotangent*, 1> sum) const {
  if (folds_at_once_) {
    std::swap(sum[0], leaf.cotangent);
  } else {
    for (Cotangent* at = leaf.cotangent; at != nullptr; at = at->next) at->target_slot = 0;
    cotangents_.fold_waiting(leaf.cotangent, sum, leaf.set, *leaf.node);
  }
  if (sum[0] != nullptr && cotangents_.wide_accumulation)
    cotangents_.complete_sum(*sum[0], leaf.type, leaf.set, *leaf.node);
}

}  // namespace tidu::eager::detail
