// discover.cpp - before the first node runs: the nodes that the roots reach, the wanted ones among them, and
// the number of cotangents that each node waits for. All errors of the request are thrown here.
#include <algorithm>
#include <array>
#include <utility>

#include "eager/anomaly.hpp"
#include "eager/call.hpp"

namespace tidu::eager::detail {

using tidu::detail::printable;
using tidu::detail::str;

namespace {

// Which output of its node a requested value is.
std::uint32_t slot_in(const Node& node, const Requested& requested) {
  return static_cast<std::uint32_t>(requested.key.counter - node.first_key.counter);
}

}  // namespace

// The nodes of valid roots are held: a hook may release the last handle to them.
void BackwardCall::check_roots() {
  if (request.roots.empty())
    throw Error(ErrorKind::invalid_argument, "backward: expected at least one root, got none");
  for (std::size_t i = 0; i < request.roots.size(); ++i) {
    const UntypedRoot& root = request.roots[i];
    if (root.node == nullptr) {
      throw Error(ErrorKind::invalid_argument,
                  str("backward: expected root ", i, " to be recorded, got ", to_string(root.key),
                      " without a trace: it depends on nothing that requires a gradient"));
    }
    const Node* node = node_of(root.node);
    if (node->operands() != &table) node->require_operands(table, str("root ", i));
    root_slots.push_back(slot_of(TraceRef(root.node), root.key, "backward"));
    if (!node->is_leaf() && node->variant->output_active[root_slots.back()] == 0) {
      throw Error(ErrorKind::invalid_argument,
                  str("backward: expected root ", i, " to have a derivative, got output ", root_slots.back(),
                      " of ", node->describe()));
    }
  }
  if (options.workers < 0) {
    throw Error(ErrorKind::invalid_argument,
                str("backward: expected at least 0 workers, got ", options.workers));
  }
  std::vector<Requested> sorted(request.requested.begin(), request.requested.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Requested& a, const Requested& b) { return a.key < b.key; });
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    if (sorted[i].key && sorted[i].key == sorted[i + 1].key) {
      throw Error(ErrorKind::invalid_argument, str("backward: expected each requested value once, got ",
                                                   to_string(sorted[i].key), " twice"));
    }
  }
  if (cotangents.creates_graph && request.recorder == nullptr)
    throw Error(ErrorKind::invalid_argument, "backward: expected a recorder with create_graph, got none");
  for (; held_roots < request.roots.size(); ++held_roots) retain(request.roots[held_roots].node);
  for (; held_requested < request.requested.size(); ++held_requested)
    if (const TraceRef trace = request.requested[held_requested].trace) retain(trace.node());
}

void BackwardCall::discover() {
  const bool selective = !request.requested.empty();
  std::vector<State*> stack;
  const auto reach = [&](Node* node) -> State& {
    bool made = false;
    State& state = states.get(node, &made);
    if (made) {
      state.needed = !selective;
      ++unfinished;
      has_devices = has_devices || node->device != 0;
      if (selective) found.push_back(&state);
      stack.push_back(&state);
    }
    return state;
  };
  for (const UntypedRoot& root : request.roots) {
    Node* node = node_of(root.node);
    if (node->is_leaf()) {
      leaves.reach(node).wanted = !selective;
    } else {
      reach(node);
    }
  }
  // Nodes of one size that were recorded one after another lie one after another in memory, so where the next
  // ones are can be guessed.
  std::array<std::uintptr_t, 16> last{};
  while (!stack.empty()) {
    const Node& node = *stack.back()->node;
    stack.pop_back();
    const auto here = reinterpret_cast<std::uintptr_t>(&node);
    std::uintptr_t& before = last[(4 * node.num_edges + node.num_saved) % last.size()];
    const std::uintptr_t ahead = here + 4 * (here - before);
    // NOLINTBEGIN(performance-no-int-to-ptr): an address that is guessed
    __builtin_prefetch(reinterpret_cast<const void*>(ahead));
    __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64));
    // NOLINTEND(performance-no-int-to-ptr)
    before = here;
    const Edge* edges = node.edges();
    if (!selective && freed == nullptr && node.freed()) freed = &node;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      Node* target = edges[e].target;
      if (target->is_leaf()) {
        LeafState& leaf = leaves.reach(target);
        leaf.wanted = !selective;
        ++leaf.dependencies;
      } else {
        ++reach(target).dependencies;
      }
    }
  }
}

void BackwardCall::mark_needed() {
  captured.assign(request.requested.size(), nullptr);
  if (request.requested.empty()) return;
  for (std::uint32_t i = 0; i < request.requested.size(); ++i) {
    const Requested& wanted = request.requested[i];
    if (wanted.trace && !node_of(wanted.trace.node())->is_leaf()) {
      const Node* node = node_of(wanted.trace.node());
      slot_of(wanted.trace, wanted.key, "backward: requested value");
      if (depends_on(wanted)) {
        states.find(node)->captured = true;
        captures.emplace(std::pair(node, slot_in(*node, wanted)), i);
      }
    } else if (LeafState* leaf = leaves.find(wanted.key)) {
      leaf->wanted = true;
    }
  }
  // Producers have smaller numbers, so one sweep in ascending order settles who is on a path.
  std::sort(found.begin(), found.end(),
            [](const State* a, const State* b) { return a->node->sequence < b->node->sequence; });
  for (State* state : found) state->dependencies = 0;
  for (LeafState& leaf : leaves.list()) leaf.dependencies = 0;
  unfinished = 0;
  for (State* state : found) {
    const Node& node = *state->node;
    for (std::uint32_t e = 0; e < node.num_edges && !state->needed; ++e)
      state->needed = is_wanted(node.edges()[e]);
    if (!state->needed && !state->captured) continue;
    ++unfinished;
    if (state->needed && freed == nullptr && node.freed()) freed = &node;
  }
  for (State* state : found) {
    if (!state->needed) continue;
    const Node& node = *state->node;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      Node* target = node.edges()[e].target;
      if (target->is_leaf()) {
        LeafState& leaf = leaves.get(target);
        if (leaf.wanted) ++leaf.dependencies;
      } else if (is_wanted(node.edges()[e])) {  // it is delivered
        ++states.find(target)->dependencies;
      }
    }
  }
}

bool BackwardCall::is_wanted(const Edge& edge) {
  if (edge.target->is_leaf()) return leaves.find(edge.target->first_key)->wanted;
  const State* state = states.find(edge.target);
  if (state->needed || !state->captured || edge.target->num_outputs() == 1)
    return state->needed || state->captured;
  return captures.contains({edge.target, edge.slot});
}

void BackwardCall::check_not_freed() const {
  if (freed != nullptr) refuse_freed(*freed);
}

void BackwardCall::refuse_freed(const Node& node) const {
  throw Error(ErrorKind::tape,
              str('[', printable(node.name()),
                  "] expected the operands that the tape kept, but an earlier backward call freed them"
                  " (to call backward again, set keep_graph in all calls but the last)\n  in backward of ",
                  node.describe()));
}

// Seeds are contributions that come before all others.
void BackwardCall::seed_roots() {
  // All of them are there and fit before any two are added.
  ShortArray<Cell*, 4> seeds(request.roots.size());
  std::fill_n(seeds.data(), seeds.size(), nullptr);
  const CellGuard guard(table, {seeds.data(), seeds.size()});
  for (std::size_t i = request.roots.size(); i-- > 0;) {
    const UntypedRoot& root = request.roots[i];
    Node& node = *node_of(root.node);
    const std::optional<Type> type =
        node.is_leaf() ? std::nullopt : std::optional<Type>(node.variant->owner->output_types[root_slots[i]]);
    Cell*& cell = seeds[i];
    if (root.seed != nullptr) {
      cell = copy_cell(table, type ? *type : host.describe(root.seed).value_or(Type()), root.seed);
    } else {
      if (!type || type->size() != 1) {
        throw Error(ErrorKind::invalid_argument,
                    str("backward: expected a seed for root ", i, " (",
                        type ? str("of type ", *type, ", ") : std::string(), node.describe(),
                        "), got none: only a root of one element has an implicit seed"));
      }
      Cell* room = make_cell(table, *type);
      bool made = false;
      try {
        made = host.ones_like(*type, room->operand());
      } catch (...) {
        free_cell(table, room);
        throw;
      }
      if (!made) {
        free_cell(table, room);
        throw Error(ErrorKind::invalid_argument,
                    str("backward: expected a seed for root ", i, " (", node.describe(),
                        "), got none, and the executor makes no ones"));
      }
      cell = room;
    }
    const std::optional<Type> got = host.describe(cell->operand());
    cotangents.knows_types = cotangents.knows_types || got;
    cotangents.knows_devices = cotangents.knows_devices || host.device_of(cell->operand());
    if (type) {
      if (got && *got != *type) {
        throw Error(ErrorKind::type, str("backward: expected a seed of type ", *type, " for root ", i, " (",
                                         node.describe(), "), got ", *got));
      }
    }
    if (options.anomaly) check_seed(cotangents.looker, *cell, node);
    cell->sequence = Cell::of_seed;
    cell->edge = static_cast<std::uint32_t>(i);
    cell->target_slot = root_slots[i];
    const Placement placement = root.placement.value_or(caller);
    cell->device = placement.device;
    cell->stream = placement.stream;
    if (cotangents.creates_graph) set_recorded(*cell, *root.recorded);
  }
  for (std::size_t i = seeds.size(); i-- > 0;) {
    const char* phase = moving;
    contribute(*node_of(request.roots[i].node), std::exchange(seeds[i], nullptr), nullptr, phase);
  }
  // A node that waits for no cotangent is ready.
  for (const UntypedRoot& root : request.roots) {
    Node* node = node_of(root.node);
    if (node->is_leaf()) {
      LeafState& leaf = leaves.get(node);
      if (leaf.dependencies == 0 && leaf.wanted && !leaf.done) push_ready(leaf);
      continue;
    }
    State& state = *states.find(node);
    if (state.dependencies == 0 && (state.needed || state.captured) && !state.listed) push_ready(state);
  }
}

// Does a root depend on that output of an invocation, or is it one? Other outputs of the same do not count.
bool BackwardCall::depends_on(const Requested& requested) {
  const Node* node = node_of(requested.trace.node());
  if (states.find(node) == nullptr) return false;
  if (node->num_outputs() == 1) return true;
  if (depended_on.empty()) {
    for (std::size_t i = 0; i < request.roots.size(); ++i)
      depended_on.emplace(node_of(request.roots[i].node), root_slots[i]);
    for (const State* state : found) {
      for (std::uint32_t e = 0; e < state->node->num_edges; ++e) {
        const Edge& edge = state->node->edges()[e];
        if (!edge.target->is_leaf() && edge.target->num_outputs() > 1)
          depended_on.emplace(edge.target, edge.slot);
      }
    }
  }
  return depended_on.contains({node, slot_in(*node, requested)});
}

Absence BackwardCall::why_absent(const Requested& requested) {
  if (!requested.key) return Absence::not_recorded;
  if (requested.trace && !node_of(requested.trace.node())->is_leaf())
    return depends_on(requested) ? Absence::zero : Absence::unreachable;
  return leaves.find(requested.key) == nullptr ? Absence::unreachable : Absence::zero;
}

}  // namespace tidu::eager::detail
