// lazy_backward.cpp - backward calls in a hot sequence: learns the effect of one, and replays it without
// running it. See Note [Backward replay] in lazy.hpp.
#include <algorithm>
#include <unordered_map>

#include "eager/node.hpp"
#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "frontend/lazy.hpp"

namespace tidu::frontend_detail {

using eager::detail::Accumulator;
using eager::detail::Cell;
using eager::detail::Edge;
using Node = eager::detail::Node;

namespace {

constexpr std::size_t max_nodes = std::size_t{1} << 12;
constexpr std::size_t max_backwards = 4;  // of a pattern
constexpr int max_learned = 64;           // per pattern: tapes that are never the same are not worth it

const Tensor& saved_tensor(const Node& node, std::size_t k) {
  return *static_cast<const Tensor*>(node.saved(k));
}

// A node whose backward depends on its edges and saved operands alone.
bool is_plain(const Node& node) {
  return node.extension.load(std::memory_order_acquire) == nullptr && node.device == 0 &&
         node.num_passive == 0 && !node.blocked && !node.freed();
}
// The same of a leaf whose slot is empty, and open: into that of a Leaf which is gone nothing is put.
bool is_plain_leaf(const Node& leaf) {
  if (leaf.extension.load(std::memory_order_acquire) != nullptr || leaf.device != 0) return false;
  Accumulator* const slot = leaf.accumulator();
  if (slot == nullptr) return false;
  const std::lock_guard lock(slot->mutex);
  return slot->cell == nullptr && !slot->closed;
}

// Is none of the leaves the same value as another? `keys` is memory to work in.
template <class Leaves>
bool are_several(const Leaves& leaves, std::vector<eager::Key>& keys) {
  constexpr std::size_t few = 16;
  if (leaves.size() <= few) {
    for (std::size_t i = 0; i < leaves.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (leaves[i]->first_key == leaves[k]->first_key) return false;
    return true;
  }
  keys.clear();
  for (const Node* const leaf : leaves) keys.push_back(leaf->first_key);
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) == keys.end();
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.shares_storage_with(b) && a.type() == b.type() && a.place() == b.place();
}
// Would it be a leaf of a trace?
bool is_there(const Tensor& tensor) {
  return tensor.pending() == nullptr && !tensor.borrowed() && tensor.device() == 0;
}

}  // namespace

struct LazyTrace::BackwardSeen {
  const Pattern* pattern = nullptr;
  std::uint64_t followed = 0;
  Backward known;
  std::vector<Node*> nodes, leaves;  // which the tape, and so the caller's root, holds
  std::vector<Tensor> saved;
};

std::unique_ptr<LazyTrace::BackwardSeen> LazyTrace::watch_backward(Node& root, const Tensor& seed) {
  auto seen = std::make_unique<BackwardSeen>();
  Backward& known = seen->known;
  {
    const std::lock_guard lock(mutex_);
    if (follows_ == nullptr || at_ == 0 || follows_->learned_backward >= max_learned) return nullptr;
    seen->pattern = follows_;
    seen->followed = followed_;
    known.begin = at_;
    known.first_value = values_.size();
    known.seed = seed;
    known.seed_version = seed.version();
  }
  // The tape in descending order of the numbers, as it is found from the root.
  std::vector<Node*> nodes{&root};
  std::unordered_map<const Node*, std::uint32_t> places{{&root, 0}};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    if (!is_plain(node) || nodes.size() > max_nodes) return nullptr;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      Node* const target = node.edges()[e].target;
      if (!target->is_leaf() && places.emplace(target, 0).second) nodes.push_back(target);
    }
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const Node* a, const Node* b) { return a->sequence > b->sequence; });
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    if (i > 0 && nodes[i]->sequence == nodes[i - 1]->sequence) return nullptr;  // of two recorders
    places[nodes[i]] = i;
  }
  for (const Node* const node : nodes) {
    known.nodes.push_back({node->variant, *eager::NodeView(eager::detail::ref(node)).graph(),
                           static_cast<std::uint32_t>(known.edges.size()),
                           static_cast<std::uint32_t>(seen->saved.size())});
    for (std::uint32_t e = 0; e < node->num_edges; ++e) {
      const Edge& edge = node->edges()[e];
      const auto [place, is_new] =
          places.emplace(edge.target, Backward::leaf_bit | static_cast<std::uint32_t>(seen->leaves.size()));
      if (is_new) {
        if (!is_plain_leaf(*edge.target)) return nullptr;
        seen->leaves.push_back(edge.target);
      }
      known.edges.push_back({place->second, edge.slot});
    }
    for (std::uint32_t k = 0; k < node->num_saved; ++k) seen->saved.push_back(saved_tensor(*node, k));
  }
  std::vector<eager::Key> keys;
  if (!are_several(seen->leaves, keys)) return nullptr;
  seen->nodes = std::move(nodes);
  return seen;
}

void LazyTrace::learn_backward(BackwardSeen& seen) {
  Backward& known = seen.known;
  const std::lock_guard lock(mutex_);
  if (follows_ == nullptr || follows_ != seen.pattern || followed_ != seen.followed || at_ <= known.begin)
    return;
  Pattern& pattern = *follows_;
  ++pattern.learned_backward;
  known.end = at_;
  for (std::size_t op = known.begin; op < known.end; ++op)
    known.tokens.push_back(&pattern.ops[op].graph.data());
  for (std::size_t i = 0; i < known.nodes.size(); ++i) known.nodes[i].freed = seen.nodes[i]->freed();
  const auto first = static_cast<std::uint32_t>(known.first_value);
  // If one tensor is several leaves this time, the one that backward read is ambiguous: it may differ another
  // time.
  bool is_ambiguous = false;
  const auto value_of_leaf = [&](const Tensor& tensor) {
    std::uint32_t found = no_index;
    for (const std::uint32_t id : pattern.leaves) {
      if (id >= values_.size() || !same_elements(values_[id].tensor, tensor)) continue;
      is_ambiguous = is_ambiguous || found != no_index;
      found = id;
    }
    return found;
  };
  for (const Tensor& tensor : seen.saved) {
    const auto* const pending = tensor.pending();
    if (pending != nullptr && (pending->maker != this || is_deferred(tensor))) return;
    known.saved.push_back(pending != nullptr ? static_cast<const LazyResult*>(pending)->value_
                                             : value_of_leaf(tensor));
  }
  known.seed_value = value_of_leaf(known.seed);
  if (is_ambiguous) return;
  // Leaves that were added in it are the seed, or saved operands.
  for (const std::uint32_t id : pattern.leaves) {
    if (id < first || id >= values_.size() || id == known.seed_value) continue;
    const auto saved = std::find(known.saved.begin(), known.saved.end(), id) - known.saved.begin();
    if (static_cast<std::size_t>(saved) == known.saved.size()) return;
    auto node = static_cast<std::uint32_t>(known.nodes.size() - 1);
    while (known.nodes[node].first_saved > saved) --node;
    known.sources.push_back({id, node, static_cast<std::uint32_t>(saved) - known.nodes[node].first_saved});
  }
  for (const Node* const leaf : seen.leaves) {
    Accumulator& slot = *leaf->accumulator();
    const std::lock_guard slot_lock(slot.mutex);
    known.results.push_back(no_index);
    if (slot.cell == nullptr) continue;
    const Tensor& gradient = *static_cast<const Tensor*>(slot.cell->operand());
    const auto* const pending = gradient.pending();
    if (pending == nullptr || pending->maker != this || is_deferred(gradient) || slot.cell->trace != nullptr)
      return;
    known.results.back() = static_cast<const LazyResult*>(pending)->value_;
    if (known.results.back() < first) return;
  }
  const auto at = std::find_if(pattern.backwards.begin(), pattern.backwards.end(),
                               [&](const Backward& other) { return other.begin == known.begin; });
  if (at != pattern.backwards.end()) {
    std::swap(*at, known);
  } else if (pattern.backwards.size() < max_backwards) {
    pattern.backwards.push_back(std::move(known));
  }
}

// Is the tape below `root` the one that was learned? Lists its nodes and leaves.
bool LazyTrace::same_tape(const Backward& known, Node& root) {
  tape_nodes_.assign(known.nodes.size(), nullptr);
  tape_leaves_.assign(known.results.size(), nullptr);
  tape_nodes_[0] = &root;
  for (std::size_t i = 0; i < known.nodes.size(); ++i) {
    // All its consumers were visited before. Numbers descend, so that no node occurs twice.
    const Node& node = *tape_nodes_[i];
    const Backward::Node& like = known.nodes[i];
    if (node.variant != like.variant || !is_plain(node)) return false;
    if (i > 0 && node.sequence >= tape_nodes_[i - 1]->sequence) return false;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      const Edge& edge = node.edges()[e];
      const Backward::Edge& expected = known.edges[like.first_edge + e];
      const bool leaf = (expected.target & Backward::leaf_bit) != 0;
      if (edge.slot != expected.slot || edge.target->is_leaf() != leaf) return false;
      Node*& place =
          leaf ? tape_leaves_[expected.target & ~Backward::leaf_bit] : tape_nodes_[expected.target];
      if (place == nullptr) place = edge.target;
      if (place != edge.target) return false;
    }
  }
  return same_leaves();
}

// Are the leaves that were listed plain, with empty slots, and several?
bool LazyTrace::same_leaves() {
  return std::all_of(tape_leaves_.begin(), tape_leaves_.end(),
                     [](const Node* leaf) { return is_plain_leaf(*leaf); }) &&
         are_several(tape_leaves_, tape_keys_);
}

// The same if the tape was recorded by known calls of the pattern just now: their identity and saved operands
// were compared then, and a write to an operand leaves the pattern. Each node except the root is held by one
// that precedes it.
bool LazyTrace::came_by_calls(const Backward& known, const eager::Key& root) {
  const Pattern& pattern = *follows_;
  if (known.node_ops.empty() || pattern.recorded[known.node_ops[0]].counter != root.counter) return false;
  tape_nodes_.clear();
  for (std::size_t i = 0; i < known.node_ops.size(); ++i) {
    const Pattern::Recorded& recorded = pattern.recorded[known.node_ops[i]];
    if (recorded.followed != followed_ || !recorded.as_operands) return false;
    Node* const node = recorded.node;
    // Other operands may require a gradient now; the position then has another variant.
    if (node->variant != known.nodes[i].variant) return false;
    if (node->extension.load(std::memory_order_acquire) != nullptr || node->freed()) return false;
    tape_nodes_.push_back(node);
  }
  tape_leaves_.clear();
  for (const std::uint32_t id : known.leaf_values) tape_leaves_.push_back(pattern.leaf_nodes[id]);
  return same_leaves();
}

// Finds the calls that the tape that was just listed came by.
void LazyTrace::find_calls(Backward& known, std::uint64_t source) {
  const Pattern& pattern = *follows_;
  ++known.looked_for;
  if (!known.sources.empty()) return;
  std::vector<std::uint32_t> ops, values;
  for (const Node* const node : tape_nodes_) {
    for (std::uint32_t op = 0; op < known.begin; ++op) {
      const Pattern::Recorded& recorded = pattern.recorded[op];
      if (recorded.followed == followed_ && recorded.as_operands &&
          node->first_key == eager::Key{source, recorded.counter})
        ops.push_back(op);
    }
  }
  for (const Node* const leaf : tape_leaves_) {
    for (const std::uint32_t id : pattern.leaves)
      if (id < known.first_value && pattern.leaf_nodes[id] == leaf) values.push_back(id);
  }
  if (ops.size() != tape_nodes_.size() || values.size() != tape_leaves_.size()) return;
  known.node_ops = std::move(ops);
  known.leaf_values = std::move(values);
}

// Are its saved operands those of the known call, unchanged?
bool LazyTrace::same_saved(const Backward& known) {
  const Pattern& pattern = *follows_;
  for (std::size_t i = 0; i < known.nodes.size(); ++i) {
    Node& node = *tape_nodes_[i];
    for (std::uint32_t k = 0; k < node.num_saved; ++k) {
      const Tensor& tensor = saved_tensor(node, k);
      const std::uint64_t version = tensor.version();
      if (node.has_versions && node.versions()[k] != version) return false;  // which is an error
      const std::uint32_t id = known.saved[known.nodes[i].first_saved + k];
      if (id == no_index) continue;
      if (pattern.results[id] != 0) {
        const auto* const pending = tensor.pending();
        if (pending == nullptr || pending->maker != this ||
            static_cast<const LazyResult*>(pending)->value_ != id)
          return false;
      } else if (id < known.first_value) {
        if (!is_there(tensor) || !same_elements(tensor, values_[id].tensor) || version != values_[id].version)
          return false;
      } else {
        const auto source = std::find_if(known.sources.begin(), known.sources.end(),
                                         [id](const Backward::Source& one) { return one.value == id; });
        if (!is_there(tensor) || source == known.sources.end() ||
            !same_elements(tensor, saved_tensor(*tape_nodes_[source->node], source->saved)))
          return false;
      }
    }
  }
  return true;
}

// Counts its operations as replayed, except for their number. If it throws, nothing is changed.
void LazyTrace::take_up(const Backward& known) {
  Pattern& pattern = *follows_;
  std::size_t op = known.begin;
  auto source = known.sources.begin();
  const Op& last = pattern.ops[known.end - 1];
  const std::size_t end = last.first_value + last.num_values;
  try {
    values_.make_room(end - values_.size());
    for (;;) {
      values_.take_kept_until(end);
      const auto id = static_cast<std::uint32_t>(values_.size());
      if (id == end) break;
      if (pattern.results[id] == 0) {
        const bool is_seed = id == known.seed_value;
        const Backward::Source* const from = is_seed ? nullptr : &*source++;
        const Tensor& leaf = is_seed ? known.seed : saved_tensor(*tape_nodes_[from->node], from->saved);
        values_.emplace_back(leaf);
        leaf.watch();
        continue;
      }
      while (pattern.ops[op].first_value + pattern.ops[op].num_values <= id) ++op;
      values_.emplace_back(make_lazy_result(pattern.types[id], id), static_cast<std::uint32_t>(op));
    }
  } catch (...) {
    values_.truncate(known.first_value);
    throw;
  }
}

namespace {

// The slots of leaves, locked in the order of their addresses, and their new gradients.
class Slots {
 public:
  explicit Slots(std::span<Node* const> leaves) : slots_(leaves.size()), cells_(leaves.size()) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      slots_[i] = leaves[i]->accumulator();
      cells_[i] = nullptr;
    }
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() {
    for (std::size_t i = 0; i < cells_.size(); ++i)
      if (cells_[i] != nullptr) destroy_cell(eager::detail::operand_table<Tensor>, cells_[i]);
  }
  void prepare(std::size_t i, const Tensor& gradient, const Node& leaf) {
    cells_[i] = copy_cell(eager::detail::operand_table<Tensor>, gradient.type(), &gradient);
    cells_[i]->stream = leaf.stream;
  }
  // All of them, or none where one is no longer empty and open.
  bool fill() {
    eager::detail::ShortArray<Accumulator*, 32> sorted(slots_.size());
    std::copy_n(slots_.data(), slots_.size(), sorted.data());
    std::sort(sorted.data(), sorted.data() + sorted.size(), std::less<>());
    bool empty = true;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      sorted[i]->mutex.lock();
      empty = empty && sorted[i]->cell == nullptr && !sorted[i]->closed;
    }
    for (std::size_t i = 0; empty && i < slots_.size(); ++i) {
      if (cells_[i] == nullptr) continue;
      std::swap(slots_[i]->cell, cells_[i]);
      ++slots_[i]->changes;
    }
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i]->mutex.unlock();
    return empty;
  }

 private:
  eager::detail::ShortArray<Accumulator*, 32> slots_;
  eager::detail::ShortArray<Cell*, 32> cells_;
};

}  // namespace

bool LazyTrace::repeat_backward(Node& root, Context& c) {
  HotDetector& detector = *c.hot;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (follows_ == nullptr) return false;
    Pattern& pattern = *follows_;
    const auto known = std::find_if(pattern.backwards.begin(), pattern.backwards.end(),
                                    [&](const Backward& one) { return one.begin == at_; });
    if (known == pattern.backwards.end() || known->first_value != values_.size()) return false;
    count = known->end - known->begin;
    if (!detector.expects(known->tokens)) return false;
    // At the end of a repetition pending operations are evaluated, unless that happened within it.
    if (detector.until_end() < count && counters_.evaluations == c.evaluations_before) return false;
    if (known->seed.version() != known->seed_version) return false;
    const std::uint64_t own = c.recorder.keys().source();
    if (root.first_key.source != own || !came_by_calls(*known, root.first_key)) {
      if (!same_tape(*known, root) || !same_saved(*known)) return false;
      constexpr int enough = 8;
      if (known->node_ops.empty() && known->looked_for < enough) find_calls(*known, own);
    }
    take_up(*known);
    bool filled = false;
    try {
      Slots slots(tape_leaves_);
      for (std::size_t i = 0; i < tape_leaves_.size(); ++i) {
        if (known->results[i] != no_index)
          slots.prepare(i, values_[known->results[i]].tensor, *tape_leaves_[i]);
      }
      filled = slots.fill();
    } catch (...) {
      values_.truncate(known->first_value);
      throw;
    }
    if (!filled) {
      values_.truncate(known->first_value);
      return false;
    }
    for (std::size_t i = 0; i < tape_nodes_.size(); ++i)
      if (!known->nodes[i].freed) tape_nodes_[i] = nullptr;
    at_ = known->end;
    detector.count_backward();
    counters_.recorded += count;
    // An end of a repetition within the range finds that pending operations were evaluated in the repetition.
    if (detector.until_end() < count) c.evaluations_before = counters_.evaluations;
    detector.go_on(count);
  }
  for (Node* const node : tape_nodes_)
    if (node != nullptr) node->free_now();
  end_repetition(c);
  return true;
}

bool may_repeat_backward(const Context& c, const BackwardOptions& options) {
  return c.hot_on && c.lazy == 0 && !c.watches && c.cpu != nullptr && !options.keep_graph &&
         !options.create_graph && options.wide_accumulation && !options.wide_slots && options.workers <= 1 &&
         options.order == eager::Order::latest_first && !options.anomaly && !options.stop.stop_possible() &&
         options.context == nullptr && options.profile == nullptr;
}

void backward_hot(Context& c, eager::Root<Tensor>& root, const std::function<void()>& run) {
  Node& node = *eager::detail::node_of(root.trace.node());
  LazyTrace& trace = *c.trace;
  const bool followed = !node.is_leaf() && node.num_outputs() == 1 && root.key == node.first_key &&
                        trace.is_run_by(c.runner_on(0));
  if (!followed) return run();
  if (trace.repeat_backward(node, c)) return;
  const Tensor seed = ones(node.variant->owner->output_types[0]);
  const std::unique_ptr<LazyTrace::BackwardSeen> seen = trace.watch_backward(node, seed);
  if (seen != nullptr) root.seed = seed;
  run();
  if (seen != nullptr) trace.learn_backward(*seen);
}

}  // namespace tidu::frontend_detail
