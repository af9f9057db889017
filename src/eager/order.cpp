// order.cpp - a backward call on the calling thread: the delivery of cotangents, the ready nodes, and which
// of them runs next. A node or leaf is ready when every edge that leads to it has been settled, with a
// cotangent or without.
#include <algorithm>
#include <array>

#include "eager/call.hpp"

namespace tidu::eager {
namespace detail {

// --- where cotangents go

void BackwardCall::contribute(Node& target, Cell* cell, const PrimitiveSet* set, const char*& phase) {
  Cell* owned[] = {cell};
  const CellGuard guard(table, owned);
  Cell** head = nullptr;
  bool failed = false;
  Placement placement = target.placement();
  if (target.is_leaf()) {
    LeafState& leaf = leaves.get(&target);
    if (!leaf.wanted) return;
    if (leaf.set == nullptr) leaf.set = set;
    leaf.type = cell->type;
    placement = leaf.node->placement();  // several nodes may stand for one leaf
    failed = leaf.failed;
    head = &leaf.cell;
  } else {
    State& state = *states.find(&target);
    if (!state.needed && !state.captured) return;
    failed = state.failed;
    set = &target.variant->owner->graph.primitives();
    head = &state.cell;
    if (folds_at_once && target.num_outputs() > 1) {
      if (state.cells == nullptr) {
        state.cells = new Cell*[target.num_outputs()]();
        ++live;
      }
      head = state.cells + cell->target_slot;
    }
  }
  if (failed && folds_at_once) return;  // the cell may hold the rest of a failed sum
  cotangents.move_to(*cell, placement);
  owned[0] = nullptr;
  if (*head == nullptr || !folds_at_once) {
    cell->next = *head;
    *head = cell;
    ++live;
  } else {
    phase = "add_operands";
    cotangents.fold(*head, cell, set, target.is_leaf() ? *leaves.get(&target).node : target);
  }
}

void BackwardCall::deliver(State& state, std::span<Cell*> outgoing) {
  const Node& node = *state.node;
  const bool selective = !request.requested.empty();
  for (std::uint32_t e = node.num_edges; e-- > 0;) {
    const Edge& edge = node.edges()[e];
    if (selective && !is_wanted(edge)) continue;
    if (outgoing[e] != nullptr) {
      if (options.anomaly) [[unlikely]]
        arrivals.note(*edge.target, node);  // when it throws, the cotangent is still the caller's
      Cell* const cell = std::exchange(outgoing[e], nullptr);
      cell->target_slot = edge.slot;
      const char* phase = moving;
      try {
        contribute(*edge.target, cell, &node.variant->owner->graph.primitives(), phase);
      } catch (...) {
        keep_failure(*edge.target, phase);
      }
    }
    settle(edge, state.failed);
  }
}

// An exception while cotangents are summed is an error of the node that they belong to. Called in a handler.
void BackwardCall::keep_failure(Node& target, const char* phase) {
  try {
    try {
      throw;
    } catch (const Error& error) {
      explain_failure(error, target.is_leaf() ? *leaves.get(&target).node : target, phase);
    }
  } catch (...) {
    if (options.exit_at_once) throw;
    keep_error(std::current_exception());
    (target.is_leaf() ? leaves.get(&target).failed : states.find(&target)->failed) = true;
  }
}

// One consumer less to wait for.
void BackwardCall::settle(const Edge& edge, bool failed) {
  if (edge.target->is_leaf()) {
    LeafState& leaf = leaves.get(edge.target);
    leaf.failed = leaf.failed || failed;
    if (--leaf.dependencies == 0 && !leaf.done) push_ready(leaf);
    return;
  }
  State& target = *states.find(edge.target);
  target.failed = target.failed || failed;
  if (--target.dependencies == 0) push_ready(target);
}

void BackwardCall::finish_leaf(LeafState& leaf) {
  Node& node = *leaf.node;
  Cell* cells[] = {nullptr};
  const CellGuard guard(table, cells);
  const char* phase = "add_operands";
  try {
    if (folds_at_once) {
      std::swap(cells[0], leaf.cell);
    } else {
      for (Cell* at = leaf.cell; at != nullptr; at = at->next) at->target_slot = 0;
      cotangents.fold_waiting(leaf.cell, cells, leaf.set, node);
    }
    if (cells[0] != nullptr && cotangents.wide_accumulation)
      cotangents.complete_sum(*cells[0], leaf.type, leaf.set, node);
    tell(When::arrived, node, cells);
    if (cells[0] != nullptr) {
      phase = "a hook";
      std::vector<std::shared_ptr<const HookList::Hooks>> all;  // of the nodes that stand for the leaf
      const auto take = [&all](const Node& from) {
        NodeExtension* extension = from.extension.load(std::memory_order_acquire);
        if (extension == nullptr) return;
        if (auto hooks = extension->snapshot()) all.push_back(std::move(hooks));
      };
      take(node);
      for (const auto& [index, other] : leaves.others())
        if (index == leaves.index(leaf)) take(*other);
      for (const HookKind kind : {HookKind::value, HookKind::accumulate})
        for (const auto& hooks : all) run_hooks(*hooks, kind, node, cells, {});
      if (!all.empty()) after_hooks(When::left, node, cells);
    }
  } catch (const Error& error) {
    explain_failure(error, node, phase);
  }
  std::swap(cells[0], leaf.cell);
}

// --- order

void BackwardCall::push_ready(State& state) {
  state.listed = true;
  std::uint64_t priority = state.node->sequence;
  ++pushed;
  switch (options.order) {
    case Order::latest_first: break;
    case Order::fifo: priority = ~pushed; break;
    case Order::lifo: priority = pushed; break;
    case Order::random:
      priority = tidu::detail::fold(pushed ^ 0x8ebc6af09c88c6e3ULL, options.order_seed | 1U);
      break;
  }
  std::vector<Ready>& nodes = queue_of(state.node->device).nodes;
  nodes.push_back({priority, state.node->first_key.source, &state});
  std::push_heap(nodes.begin(), nodes.end());
}

void BackwardCall::push_ready(LeafState& leaf) {
  leaf.done = true;
  queue_of(leaf.node->device).leaves.push_back(leaves.index(leaf));
}

State* BackwardCall::ReadyQueue::pop_node() {
  std::pop_heap(nodes.begin(), nodes.end());
  State* state = nodes.back().state;
  nodes.pop_back();
  return state;
}

std::uint32_t BackwardCall::ReadyQueue::pop_leaf() {
  const std::uint32_t leaf = leaves.back();
  leaves.pop_back();
  return leaf;
}

void BackwardCall::check_stop() const {
  if (options.stop.stop_requested()) throw Error(ErrorKind::cancelled, "backward: the caller asked to stop");
}

void BackwardCall::keep_error(std::exception_ptr error) noexcept {
  const std::lock_guard<std::mutex> lock(error_mutex);
  if (!first_error) first_error = std::move(error);
}

void BackwardCall::run_or_keep(State& state, std::span<Cell*> outgoing) {
  if (state.failed) return;
  check_stop();
  if (options.exit_at_once) return run_node(state, outgoing);
  try {
    run_node(state, outgoing);
  } catch (...) {
    keep_error(std::current_exception());
    state.failed = true;
    for (Cell*& cell : outgoing)
      if (cell != nullptr) destroy_cell(table, std::exchange(cell, nullptr));
  }
}

void BackwardCall::finish_or_keep(LeafState& leaf) {
  if (leaf.failed) return;
  if (options.exit_at_once) return finish_leaf(leaf);
  try {
    finish_leaf(leaf);
  } catch (...) {
    keep_error(std::current_exception());
  }
}

void BackwardCall::run_alone() {
  std::vector<Cell*> many;
  std::array<Cell*, 8> few;
  while (!host_ready.empty()) {
    while (!host_ready.leaves.empty()) finish_or_keep(leaves.list()[host_ready.pop_leaf()]);
    if (host_ready.nodes.empty()) break;
    State& state = *host_ready.pop_node();
    const std::size_t count = state.node->num_edges;
    if (count > few.size()) many.resize(count);
    const std::span<Cell*> outgoing(count > few.size() ? many.data() : few.data(), count);
    std::fill(outgoing.begin(), outgoing.end(), nullptr);
    const CellGuard guard(table, outgoing);
    run_or_keep(state, outgoing);
    deliver(state, outgoing);
  }
}

BackwardOutcome run_backward(const BackwardRequest& request) {
  const auto call = std::make_unique<BackwardCall>(request);
  const DepthGuard depth(call->depth + 1);
  call->check_roots();
  call->caller = request.host.current_placement();
  call->discover();
  call->threaded = call->wants_threads();
  call->folds_at_once = request.options.order == Order::latest_first && !call->threaded;
  call->mark_needed();
  call->check_not_freed();
  call->check_stop();
  call->seed_roots();
  if (call->threaded) {
    call->run_threaded();
  } else {
    try {
      call->run_alone();
    } catch (...) {
      call->keep_error(std::current_exception());
    }
  }
  if (call->first_error) std::rethrow_exception(call->first_error);
  call->live = 0;
  return call->finish();
}

}  // namespace detail

std::string_view to_string(Absence absence) {
  constexpr std::string_view names[] = {"present", "not recorded", "unreachable", "zero"};
  return names[static_cast<std::size_t>(absence)];
}

}  // namespace tidu::eager
