// reached.cpp - see reached.hpp.
#include "eager/reached.hpp"

#include <algorithm>
#include <array>

namespace tidu::eager::detail {

using tidu::detail::printable;
using tidu::detail::str;

namespace {

// Which output of its node a requested value is.
std::uint32_t slot_in(const Node& node, const Requested& requested) {
  return static_cast<std::uint32_t>(requested.key.counter - node.first_key.counter);
}

}  // namespace

void ReachedNodes::discover() {
  const bool selective = is_selective();
  std::vector<State*> stack;
  const auto reach = [&](Node* node) -> State& {
    bool made = false;
    State& state = states_.get(node, &made);
    if (made) {
      state.needed = !selective;
      ++num_to_run_;
      has_devices_ = has_devices_ || node->device != 0;
      if (selective) found_.push_back(&state);
      stack.push_back(&state);
    }
    return state;
  };
  for (std::size_t i = 0; i < roots_.size(); ++i) {
    Node* const node = &roots_.node(i);
    if (node->is_leaf()) {
      leaves_.reach(node).wanted = !selective;
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
    if (!selective && freed_ == nullptr && node.freed()) freed_ = &node;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      Node* target = edges[e].target;
      if (target->is_leaf()) {
        LeafState& leaf = leaves_.reach(target);
        leaf.wanted = !selective;
        ++leaf.dependencies;
      } else {
        ++reach(target).dependencies;
      }
    }
  }
}

void ReachedNodes::mark_needed() {
  if (!is_selective()) return;
  capture_requested();
  find_needed();
  count_needed();
}

void ReachedNodes::capture_requested() {
  for (std::uint32_t i = 0; i < request_.requested.size(); ++i) {
    const Requested& wanted = request_.requested[i];
    if (wanted.trace && !node_of(wanted.trace.node())->is_leaf()) {
      const Node* node = node_of(wanted.trace.node());
      slot_of(wanted.trace, wanted.key, "backward: requested value");
      if (depends_on(wanted)) {
        states_.find(node)->captured = true;
        captures_.add(*node, slot_in(*node, wanted), i);
      }
    } else if (LeafState* leaf = leaves_.find(wanted.key)) {
      leaf->wanted = true;
    }
  }
}

void ReachedNodes::find_needed() {
  // Producers have smaller numbers, so one sweep in ascending order settles who is on a path.
  std::sort(found_.begin(), found_.end(),
            [](const State* a, const State* b) { return a->node->sequence < b->node->sequence; });
  num_to_run_ = 0;
  for (State* state : found_) {
    const Node& node = *state->node;
    for (std::uint32_t e = 0; e < node.num_edges && !state->needed; ++e)
      state->needed = is_wanted(node.edges()[e]);
    if (!state->needed && !state->captured) continue;
    ++num_to_run_;
    if (state->needed && freed_ == nullptr && node.freed()) freed_ = &node;
  }
}

void ReachedNodes::count_needed() {
  for (State* state : found_) state->dependencies = 0;
  for (LeafState& leaf : leaves_.list()) leaf.dependencies = 0;
  for (State* state : found_) {
    if (!state->needed) continue;
    const Node& node = *state->node;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      Node* target = node.edges()[e].target;
      if (target->is_leaf()) {
        LeafState& leaf = leaves_.get(target);
        if (leaf.wanted) ++leaf.dependencies;
      } else if (is_wanted(node.edges()[e])) {  // it is delivered
        ++states_.find(target)->dependencies;
      }
    }
  }
}

bool ReachedNodes::is_wanted(const Edge& edge) {
  if (edge.target->is_leaf()) return leaves_.find(edge.target->first_key)->wanted;
  const State* state = states_.find(edge.target);
  if (state->needed || !state->captured || edge.target->num_outputs() == 1)
    return state->needed || state->captured;
  return captures_.contains(*edge.target, edge.slot);
}

void ReachedNodes::check_not_freed() const {
  if (freed_ != nullptr) refuse_freed(*freed_);
}

void refuse_freed(const Node& node) {
  throw Error(ErrorKind::tape,
              str('[', printable(node.name()),
                  "] expected the operands that the tape kept, but an earlier backward call freed them"
                  " (to call backward again, set keep_graph in all calls but the last)\n  in backward of ",
                  node.describe()));
}

// Does a root depend on that output of an invocation, or is it one? Other outputs of the same do not count.
bool ReachedNodes::depends_on(const Requested& requested) {
  const Node* node = node_of(requested.trace.node());
  if (states_.find(node) == nullptr) return false;
  if (node->num_outputs() == 1) return true;
  if (depended_on_.empty()) {
    for (std::size_t i = 0; i < roots_.size(); ++i) depended_on_.emplace(&roots_.node(i), roots_.slot(i));
    for (const State* state : found_) {
      for (std::uint32_t e = 0; e < state->node->num_edges; ++e) {
        const Edge& edge = state->node->edges()[e];
        if (!edge.target->is_leaf() && edge.target->num_outputs() > 1)
          depended_on_.emplace(edge.target, edge.slot);
      }
    }
  }
  return depended_on_.contains({node, slot_in(*node, requested)});
}

Absence ReachedNodes::why_absent(const Requested& requested) {
  if (!requested.key) return Absence::not_recorded;
  if (requested.trace && !node_of(requested.trace.node())->is_leaf())
    return depends_on(requested) ? Absence::zero : Absence::unreachable;
  return leaves_.find(requested.key) == nullptr ? Absence::unreachable : Absence::zero;
}

}  // namespace tidu::eager::detail
