// slots.cpp - see slots.hpp.
#include "eager/slots.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "eager/failure.hpp"

namespace tidu::eager::detail {

SlotUpdate::SlotUpdate(const BackwardRequest& request, const CotangentOps& cotangents,
                       std::span<LeafState> leaves)
    : request_(request), cotangents_(cotangents), table_(request.host.table) {
  for (LeafState& leaf : leaves)
    if (leaf.cotangent != nullptr && leaf.node->accumulator() != nullptr) into_.push_back(&leaf);
  std::sort(into_.begin(), into_.end(), [](const LeafState* a, const LeafState* b) {
    return std::less<>()(a->node->accumulator(), b->node->accumulator());
  });
  sums_.assign(into_.size(), nullptr);
  seen_.resize(into_.size());
}

SlotUpdate::~SlotUpdate() { destroy_sums(); }

void SlotUpdate::destroy_sums() {
  for (Cotangent*& sum : sums_)
    if (sum != nullptr) destroy_cotangent(table_, std::exchange(sum, nullptr));
}

void SlotUpdate::make_sums() {
  for (std::size_t i = 0; i < into_.size(); ++i) {
    Accumulator& slot = *into_[i]->node->accumulator();
    {
      const std::lock_guard lock(slot.mutex);
      seen_[i] = slot.changes;
      if (slot.closed) continue;
      if (slot.gradient != nullptr) sums_[i] = cotangents_.duplicate(*slot.gradient);
    }
    Cotangent* grown = for_slot(*into_[i]);
    if (sums_[i] == nullptr) {
      sums_[i] = grown;
    } else {
      add_to_slot(sums_[i], grown, *into_[i]);
    }
  }
}

bool SlotUpdate::store() {
  if (!swap_if_unchanged()) {
    destroy_sums();
    return false;
  }
  destroy_sums();  // the former contents of the slots
  for (LeafState* leaf : into_)
    if (leaf != nullptr) destroy_cotangent(table_, std::exchange(leaf->cotangent, nullptr));
  return true;
}

// Locks all slots, in the order of their addresses.
bool SlotUpdate::swap_if_unchanged() {
  std::vector<std::unique_lock<tidu::detail::LightMutex>> locks;
  locks.reserve(into_.size());
  bool same = true;
  for (std::size_t i = 0; i < into_.size(); ++i) {
    locks.emplace_back(into_[i]->node->accumulator()->mutex);
    same = same && into_[i]->node->accumulator()->changes == seen_[i];
  }
  for (std::size_t i = 0; same && i < into_.size(); ++i) {
    if (sums_[i] == nullptr) {  // its slot is closed: it is returned
      into_[i] = nullptr;
      continue;
    }
    std::swap(sums_[i], into_[i]->node->accumulator()->gradient);
    ++into_[i]->node->accumulator()->changes;
  }
  return same;
}

// `from` is released in any case.
void SlotUpdate::add_to_slot(Cotangent* sum, Cotangent* from, const LeafState& leaf) const {
  Cotangent* given[] = {from};
  const CotangentGuard guard(table_, given);
  try {
    cotangents_.move_to(*sum, leaf.node->placement());
    std::optional<Type> held = cotangents_.type_of(*sum);
    if (held && widen_alike(*sum, *held, *from, leaf)) held = from->type;
    if (held && *held != from->type) {
      throw Error(ErrorKind::type, tidu::detail::str("expected a gradient of type ", *held,
                                                     ", as that in the slot of the leaf, got ", from->type));
    }
    sum->type = from->type;
    cotangents_.add(*sum, *from, leaf.set, leaf.node->placement());
  } catch (const Error& error) {
    explain_failure(error, *leaf.node, BackwardPhase::add);
  }
}

// If one of them is f32 and the other of 16 bits (see BackwardOptions::wide_slots), both become f32.
bool SlotUpdate::widen_alike(Cotangent& sum, Type held, Cotangent& from, const LeafState& leaf) const {
  if (held == from.type || !cotangents_.wide_accumulation || !cotangents_.can_convert(leaf.set)) return false;
  const auto widened = [](Type type) { return type.with_dtype(accumulation_dtype(type.dtype())); };
  if (widened(held) != widened(from.type)) return false;
  sum.type = held;
  Cotangent& narrow = widened(held) == held ? from : sum;
  cotangents_.convert(narrow, widened(held).dtype(), *leaf.set, *leaf.node);
  return true;
}

// A copy of the leaf's cotangent, in the form in which it is added to the slot.
Cotangent* SlotUpdate::for_slot(const LeafState& leaf) const {
  Cotangent* made[] = {cotangents_.duplicate(*leaf.cotangent)};
  const CotangentGuard guard(table_, made);
  const DType wide = accumulation_dtype(made[0]->type.dtype());
  if (request_.options.wide_slots && cotangents_.wide_accumulation && wide != made[0]->type.dtype() &&
      cotangents_.can_convert(leaf.set))
    cotangents_.convert(*made[0], wide, *leaf.set, *leaf.node);
  return std::exchange(made[0], nullptr);
}

}  // namespace tidu::eager::detail
