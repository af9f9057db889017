// finish.cpp - the end of a backward call: slots of leaves, results, streams, final callbacks.
#include <algorithm>

#include "eager/call.hpp"

namespace tidu::eager::detail {

// All slots change together: sums are made separately, and stored if no slot was changed in the meantime.
// `from` is released in any case.
void BackwardCall::add_to_slot(Cell* sum, Cell* from, const LeafState& leaf) {
  Cell* given[] = {from};
  const CellGuard guard(table, given);
  try {
    cotangents.move_to(*sum, leaf.node->placement());
    std::optional<Type> held = cotangents.knows_types ? host.describe(sum->operand()) : std::nullopt;
    if (held && widen_alike(*sum, *held, *from, leaf)) held = from->type;
    if (held && *held != from->type) {
      throw Error(ErrorKind::type, tidu::detail::str("expected a gradient of type ", *held,
                                                     ", as that in the slot of the leaf, got ", from->type));
    }
    sum->type = from->type;
    cotangents.add(*sum, *from, leaf.set, leaf.node->placement());
  } catch (const Error& error) {
    explain_failure(error, *leaf.node, "add_operands");
  }
}

// If one of them is f32 and the other of 16 bits (see BackwardOptions::wide_slots), both become f32.
bool BackwardCall::widen_alike(Cell& sum, Type held, Cell& from, const LeafState& leaf) {
  if (held == from.type || !cotangents.wide_accumulation || !cotangents.can_convert(leaf.set)) return false;
  const auto widened = [](Type type) { return type.with_dtype(accumulation_dtype(type.dtype())); };
  if (widened(held) != widened(from.type)) return false;
  sum.type = held;
  Cell& narrow = widened(held) == held ? from : sum;
  cotangents.convert(narrow, widened(held).dtype(), *leaf.set, *leaf.node);
  return true;
}

// A copy of the leaf's cotangent, in the form in which it is added to the slot.
Cell* BackwardCall::for_slot(const LeafState& leaf) {
  Cell* made[] = {cotangents.duplicate(*leaf.cell)};
  const CellGuard guard(table, made);
  const DType wide = accumulation_dtype(made[0]->type.dtype());
  if (options.wide_slots && cotangents.wide_accumulation && wide != made[0]->type.dtype() &&
      cotangents.can_convert(leaf.set))
    cotangents.convert(*made[0], wide, *leaf.set, *leaf.node);
  return std::exchange(made[0], nullptr);
}

void BackwardCall::accumulate() {
  std::vector<LeafState*> into;
  for (LeafState& leaf : leaves.list())
    if (leaf.cell != nullptr && leaf.node->accumulator() != nullptr) into.push_back(&leaf);
  std::sort(into.begin(), into.end(), [](const LeafState* a, const LeafState* b) {
    return std::less<>()(a->node->accumulator(), b->node->accumulator());
  });
  std::vector<Cell*> sums(into.size(), nullptr);
  std::vector<std::uint64_t> seen(into.size());
  std::vector<std::unique_lock<tidu::detail::LightMutex>> locks;
  locks.reserve(into.size());
  while (true) {
    const CellGuard guard(table, sums);
    for (std::size_t i = 0; i < into.size(); ++i) {
      Accumulator& slot = *into[i]->node->accumulator();
      {
        const std::lock_guard lock(slot.mutex);
        seen[i] = slot.changes;
        if (slot.closed) continue;
        if (slot.cell != nullptr) sums[i] = cotangents.duplicate(*slot.cell);
      }
      Cell* grown = for_slot(*into[i]);
      if (sums[i] == nullptr) {
        sums[i] = grown;
      } else {
        add_to_slot(sums[i], grown, *into[i]);
      }
    }
    join_streams(sums);
    if (options.anomaly) [[unlikely]]
      ask(cotangents.looker);
    locks.clear();
    bool same = true;
    for (std::size_t i = 0; i < into.size(); ++i) {
      locks.emplace_back(into[i]->node->accumulator()->mutex);
      same = same && into[i]->node->accumulator()->changes == seen[i];
    }
    if (same) {
      for (std::size_t i = 0; i < into.size(); ++i) {
        if (sums[i] == nullptr) {  // its slot is closed: it is returned
          into[i] = nullptr;
          continue;
        }
        std::swap(sums[i], into[i]->node->accumulator()->cell);
        ++into[i]->node->accumulator()->changes;
      }
    }
    locks.clear();  // before the former contents of the slots are released
    for (Cell*& sum : sums)
      if (sum != nullptr) destroy_cell(table, std::exchange(sum, nullptr));
    if (!same) continue;
    for (LeafState* leaf : into)
      if (leaf != nullptr) destroy_cell(table, std::exchange(leaf->cell, nullptr));
    return;
  }
}

// The caller's stream waits for values that were made on others.
void BackwardCall::join_streams(std::span<Cell* const> sums) {
  const Placement here = host.current_placement();
  std::vector<Placement> waited{here};
  const auto join = [&](const Cell* cell) {
    if (cell == nullptr) return;
    const Placement at{cell->device, cell->stream};
    if (std::find(waited.begin(), waited.end(), at) != waited.end()) return;
    waited.push_back(at);
    if (const Event event = host.record(at)) host.wait(here, event);
  };
  for (const LeafState& leaf : leaves.list()) join(leaf.cell);
  for (const Cell* cell : captured) join(cell);
  for (const Cell* cell : sums) join(cell);
}

void BackwardCall::run_callbacks() {
  std::exception_ptr failure;
  for (std::size_t i = 0;; ++i) {
    std::function<void()> callback;
    {
      const std::lock_guard<std::mutex> lock(callbacks_mutex);
      if (i == callbacks.size()) break;
      callback = std::move(callbacks[i]);
    }
    try {
      callback();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

BackwardOutcome BackwardCall::finish() {
  BackwardOutcome outcome(table);
  join_streams({});
  if (options.anomaly) [[unlikely]]
    ask(cotangents.looker);
  outcome.requested.reserve(request.requested.size());
  for (std::size_t i = 0; i < request.requested.size(); ++i) {
    const Requested& wanted = request.requested[i];
    UntypedGradient& gradient =
        outcome.requested.emplace_back(UntypedGradient{wanted.key, nullptr, Absence::none});
    LeafState* leaf = leaves.find(wanted.key);
    if (leaf != nullptr && leaf->cell != nullptr) {
      gradient.cell = cotangents.duplicate(*leaf->cell);
    } else {
      gradient.cell = std::exchange(captured[i], nullptr);
    }
    if (gradient.cell == nullptr) gradient.absence = why_absent(wanted);
  }
  outcome.leaves.reserve(leaves.list().size());
  if (request.reserve != nullptr)
    request.reserve(request.result, leaves.list().size(), request.requested.size());
  if (options.accumulate) accumulate();
  for (LeafState& leaf : leaves.list()) {
    if (leaf.cell != nullptr)
      outcome.leaves.push_back({leaf.key, std::exchange(leaf.cell, nullptr), Absence::none});
  }
  std::sort(outcome.leaves.begin(), outcome.leaves.end(),
            [](const UntypedGradient& a, const UntypedGradient& b) { return a.key < b.key; });
  run_callbacks();
  return outcome;
}

BackwardOutcome::~BackwardOutcome() {
  for (const auto* list : {&leaves, &requested}) {
    for (const UntypedGradient& gradient : *list)
      if (gradient.cell != nullptr) destroy_cell(table, gradient.cell);
  }
}

}  // namespace tidu::eager::detail
