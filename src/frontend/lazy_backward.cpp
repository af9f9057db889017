// lazy_backward.cpp - see lazy_backward.hpp.
#include "frontend/lazy_backward.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "eager/node.hpp"
#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "frontend/lazy.hpp"

namespace tidu::frontend_detail {

using eager::detail::Accumulator;
using eager::detail::Cotangent;
using eager::detail::Edge;
using Node = eager::detail::Node;

namespace {

constexpr std::size_t max_nodes = std::size_t{1} << 12;
constexpr std::size_t max_backwards = 4;  // of a hot trace
constexpr int max_learned = 64;           // per hot trace: tapes that are never the same are not worth it

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
  return slot->gradient == nullptr && !slot->closed;
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

bool ObservedBackward::begin(const LazyReplay& replay) {
  if (!replay.is_active() || replay.position() == 0 || replay.hot_trace().learned_backward >= max_learned)
    return false;
  hot_trace_ = &replay.hot_trace();
  replay_ = replay.count();
  known_.begin = replay.position();
  known_.first_value = replay.values().size();
  known_.seed = seed_;
  known_.seed_version = seed_.version();
  return true;
}

bool ObservedBackward::read_tape(Node& root) {
  if (!list_nodes(root)) return false;
  std::unordered_map<const Node*, std::uint32_t> indices;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (i > 0 && nodes_[i]->sequence == nodes_[i - 1]->sequence) return false;  // of two recorders
    indices[nodes_[i]] = i;
  }
  for (const Node* const node : nodes_) {
    known_.nodes.push_back({node->specialization, *eager::NodeView(eager::detail::ref(node)).graph(),
                            static_cast<std::uint32_t>(known_.edges.size()),
                            static_cast<std::uint32_t>(saved_.size())});
    for (std::uint32_t e = 0; e < node->num_edges; ++e) {
      const Edge& edge = node->edges()[e];
      const auto [target, is_new] =
          indices.emplace(edge.target, KnownBackward::leaf_bit | static_cast<std::uint32_t>(leaves_.size()));
      if (is_new) {
        if (!is_plain_leaf(*edge.target)) return false;
        leaves_.push_back(edge.target);
      }
      known_.edges.push_back({target->second, edge.slot});
    }
    for (std::uint32_t k = 0; k < node->num_saved; ++k) saved_.push_back(saved_tensor(*node, k));
  }
  std::vector<eager::Key> keys;
  return are_several(leaves_, keys);
}

// Lists the nodes of the tape in descending order of the numbers.
bool ObservedBackward::list_nodes(Node& root) {
  nodes_.push_back(&root);
  std::unordered_set<const Node*> found{&root};
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = *nodes_[i];
    if (!is_plain(node) || nodes_.size() > max_nodes) return false;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      Node* const target = node.edges()[e].target;
      if (!target->is_leaf() && found.insert(target).second) nodes_.push_back(target);
    }
  }
  std::sort(nodes_.begin(), nodes_.end(),
            [](const Node* a, const Node* b) { return a->sequence > b->sequence; });
  return true;
}

// The leaf of the hot trace with these elements, or no_index. If one tensor is several leaves this time, the
// one that backward read is ambiguous: it may differ another time.
std::uint32_t ObservedBackward::leaf_with(const Tensor& tensor, const HotTrace& hot_trace) {
  std::uint32_t found = no_index;
  for (const std::uint32_t id : hot_trace.leaves) {
    if (id >= hot_trace.values.size() || !same_elements(hot_trace.values[id].tensor, tensor)) continue;
    is_ambiguous_ = is_ambiguous_ || found != no_index;
    found = id;
  }
  return found;
}

bool ObservedBackward::name_saved(const HotTrace& hot_trace, const LazyTrace* trace) {
  for (const Tensor& tensor : saved_) {
    const LazyResult* const result = lazy_result(tensor, trace);
    if (tensor.pending() != nullptr && (result == nullptr || result->is_deferred())) return false;
    known_.saved.push_back(result != nullptr ? result->number() : leaf_with(tensor, hot_trace));
  }
  known_.seed_value = leaf_with(known_.seed, hot_trace);
  return !is_ambiguous_;
}

// Leaves that were added in it are the seed, or saved operands.
bool ObservedBackward::find_sources(const HotTrace& hot_trace) {
  for (const std::uint32_t id : hot_trace.leaves) {
    if (id < known_.first_value || id >= hot_trace.values.size() || id == known_.seed_value) continue;
    const auto saved = std::find(known_.saved.begin(), known_.saved.end(), id) - known_.saved.begin();
    if (static_cast<std::size_t>(saved) == known_.saved.size()) return false;
    auto node = static_cast<std::uint32_t>(known_.nodes.size() - 1);
    while (known_.nodes[node].first_saved > saved) --node;
    known_.sources.push_back({id, node, static_cast<std::uint32_t>(saved) - known_.nodes[node].first_saved});
  }
  return true;
}

bool ObservedBackward::name_results(const LazyTrace* trace) {
  for (const Node* const leaf : leaves_) {
    Accumulator& slot = *leaf->accumulator();
    const std::lock_guard slot_lock(slot.mutex);
    known_.results.push_back(no_index);
    if (slot.gradient == nullptr) continue;
    const LazyResult* const result =
        lazy_result(*static_cast<const Tensor*>(slot.gradient->operand()), trace);
    if (result == nullptr || result->is_deferred() || slot.gradient->trace != nullptr) return false;
    known_.results.back() = result->number();
    if (known_.results.back() < known_.first_value) return false;
  }
  return true;
}

void ObservedBackward::learn(const LazyReplay& replay, const LazyTrace* trace) {
  if (!replay.is_active() || &replay.hot_trace() != hot_trace_ || replay.count() != replay_ ||
      replay.position() <= known_.begin)
    return;
  HotTrace& hot_trace = replay.hot_trace();
  ++hot_trace.learned_backward;
  known_.end = replay.position();
  for (std::size_t op = known_.begin; op < known_.end; ++op)
    known_.tokens.push_back(&hot_trace.ops[op].graph.data());
  for (std::size_t i = 0; i < known_.nodes.size(); ++i) known_.nodes[i].freed = nodes_[i]->freed();
  if (!name_saved(hot_trace, trace) || !find_sources(hot_trace) || !name_results(trace)) return;
  const auto at = std::find_if(hot_trace.backwards.begin(), hot_trace.backwards.end(),
                               [&](const KnownBackward& other) { return other.begin == known_.begin; });
  if (at != hot_trace.backwards.end()) {
    std::swap(*at, known_);
  } else if (hot_trace.backwards.size() < max_backwards) {
    hot_trace.backwards.push_back(std::move(known_));
  }
}

// Is the tape below `root` the one that was learned? Lists its nodes and leaves.
bool BackwardReplay::same_tape(const KnownBackward& known, Node& root) {
  nodes_.assign(known.nodes.size(), nullptr);
  leaves_.assign(known.results.size(), nullptr);
  nodes_[0] = &root;
  for (std::size_t i = 0; i < known.nodes.size(); ++i) {
    // All its consumers were visited before. Numbers descend, so that no node occurs twice.
    const Node& node = *nodes_[i];
    const KnownBackward::Node& like = known.nodes[i];
    if (node.specialization != like.specialization || !is_plain(node)) return false;
    if (i > 0 && node.sequence >= nodes_[i - 1]->sequence) return false;
    for (std::uint32_t e = 0; e < node.num_edges; ++e) {
      const Edge& edge = node.edges()[e];
      const KnownBackward::Edge& expected = known.edges[like.first_edge + e];
      const bool leaf = (expected.target & KnownBackward::leaf_bit) != 0;
      if (edge.slot != expected.slot || edge.target->is_leaf() != leaf) return false;
      Node*& target = leaf ? leaves_[expected.target & ~KnownBackward::leaf_bit] : nodes_[expected.target];
      if (target == nullptr) target = edge.target;
      if (target != edge.target) return false;
    }
  }
  return same_leaves();
}

// Are the leaves that were listed plain, with empty slots, and several?
bool BackwardReplay::same_leaves() {
  return std::all_of(leaves_.begin(), leaves_.end(), [](const Node* leaf) { return is_plain_leaf(*leaf); }) &&
         are_several(leaves_, keys_);
}

// The same if the tape was recorded by known calls of the hot trace just now: their identity and saved
// operands were compared then, and a write to an operand leaves the hot trace. Each node except the root is
// held by one that precedes it.
bool BackwardReplay::came_by_calls(const KnownBackward& known, const eager::Key& root,
                                   const LazyReplay& replay) {
  const HotTrace& hot_trace = replay.hot_trace();
  if (known.node_ops.empty() || hot_trace.recorded[known.node_ops[0]].counter != root.counter) return false;
  nodes_.clear();
  for (std::size_t i = 0; i < known.node_ops.size(); ++i) {
    const HotTrace::Recorded& recorded = hot_trace.recorded[known.node_ops[i]];
    if (recorded.replayed != replay.count() || !recorded.as_operands) return false;
    Node* const node = recorded.node;
    // Other operands may require a gradient now; the position then has another specialization.
    if (node->specialization != known.nodes[i].specialization) return false;
    if (node->extension.load(std::memory_order_acquire) != nullptr || node->freed()) return false;
    nodes_.push_back(node);
  }
  leaves_.clear();
  for (const std::uint32_t id : known.leaf_values) leaves_.push_back(hot_trace.leaf_nodes[id]);
  return same_leaves();
}

// Finds the calls that the tape that was just listed came by.
void BackwardReplay::find_calls(KnownBackward& known, std::uint64_t source, const LazyReplay& replay) const {
  const HotTrace& hot_trace = replay.hot_trace();
  ++known.looked_for;
  if (!known.sources.empty()) return;
  std::vector<std::uint32_t> ops, values;
  for (const Node* const node : nodes_) {
    for (std::uint32_t op = 0; op < known.begin; ++op) {
      const HotTrace::Recorded& recorded = hot_trace.recorded[op];
      if (recorded.replayed == replay.count() && recorded.as_operands &&
          node->first_key == eager::Key{source, recorded.counter})
        ops.push_back(op);
    }
  }
  for (const Node* const leaf : leaves_) {
    for (const std::uint32_t id : hot_trace.leaves)
      if (id < known.first_value && hot_trace.leaf_nodes[id] == leaf) values.push_back(id);
  }
  if (ops.size() != nodes_.size() || values.size() != leaves_.size()) return;
  known.node_ops = std::move(ops);
  known.leaf_values = std::move(values);
}

// Are its saved operands those of the known call, unchanged?
bool BackwardReplay::same_saved(const KnownBackward& known, const HotTrace& hot_trace,
                                const LazyTrace* trace) const {
  const LazyValues& values = hot_trace.values;
  for (std::size_t i = 0; i < known.nodes.size(); ++i) {
    Node& node = *nodes_[i];
    for (std::uint32_t k = 0; k < node.num_saved; ++k) {
      const Tensor& tensor = saved_tensor(node, k);
      const std::uint64_t version = tensor.version();
      if (node.has_versions && node.versions()[k] != version) return false;  // which is an error
      const std::uint32_t id = known.saved[known.nodes[i].first_saved + k];
      if (id == no_index) continue;
      if (hot_trace.results[id] != 0) {
        const LazyResult* const result = lazy_result(tensor, trace);
        if (result == nullptr || result->number() != id) return false;
      } else if (id < known.first_value) {
        if (!is_there(tensor) || !same_elements(tensor, values[id].tensor) || version != values[id].version)
          return false;
      } else {
        const auto source = std::find_if(known.sources.begin(), known.sources.end(),
                                         [id](const KnownBackward::Source& one) { return one.value == id; });
        if (!is_there(tensor) || source == known.sources.end() ||
            !same_elements(tensor, saved_tensor(*nodes_[source->node], source->saved)))
          return false;
      }
    }
  }
  return true;
}

// Counts its operations as replayed, except for their number. If it throws, nothing is changed.
void BackwardReplay::add_values(const KnownBackward& known, HotTrace& hot_trace,
                                const LazyTensorFactory& factory) const {
  LazyValues& values = hot_trace.values;
  std::size_t op = known.begin;
  auto source = known.sources.begin();
  const LazyOp& last = hot_trace.ops[known.end - 1];
  const std::size_t end = last.first_value + last.num_values;
  try {
    values.make_room(end - values.size());
    for (;;) {
      values.take_kept_until(end);
      const auto id = static_cast<std::uint32_t>(values.size());
      if (id == end) break;
      if (hot_trace.results[id] == 0) {
        const bool is_seed = id == known.seed_value;
        const KnownBackward::Source* const from = is_seed ? nullptr : &*source++;
        const Tensor& leaf = is_seed ? known.seed : saved_tensor(*nodes_[from->node], from->saved);
        values.emplace_back(leaf);
        leaf.watch();
        continue;
      }
      while (hot_trace.ops[op].first_value + hot_trace.ops[op].num_values <= id) ++op;
      values.emplace_back(factory.make(hot_trace.types[id], id), static_cast<std::uint32_t>(op));
    }
  } catch (...) {
    values.truncate(known.first_value);
    throw;
  }
}

namespace {

// The slots of leaves, locked in the order of their addresses, and their new gradients.
class Slots {
 public:
  explicit Slots(std::span<Node* const> leaves) : slots_(leaves.size()), gradients_(leaves.size()) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      slots_[i] = leaves[i]->accumulator();
      gradients_[i] = nullptr;
    }
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() {
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      if (gradients_[i] != nullptr) destroy_cotangent(eager::detail::operand_table<Tensor>, gradients_[i]);
  }
  void prepare(std::size_t i, const Tensor& gradient, const Node& leaf) {
    gradients_[i] = copy_cotangent(eager::detail::operand_table<Tensor>, gradient.type(), &gradient);
    gradients_[i]->stream = leaf.stream;
  }
  // All of them, or none where one is no longer empty and open.
  bool fill() {
    eager::detail::ShortArray<Accumulator*, 32> sorted(slots_.size());
    std::copy_n(slots_.data(), slots_.size(), sorted.data());
    std::sort(sorted.data(), sorted.data() + sorted.size(), std::less<>());
    bool empty = true;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      sorted[i]->mutex.lock();
      empty = empty && sorted[i]->gradient == nullptr && !sorted[i]->closed;
    }
    for (std::size_t i = 0; empty && i < slots_.size(); ++i) {
      if (gradients_[i] == nullptr) continue;
      std::swap(slots_[i]->gradient, gradients_[i]);
      ++slots_[i]->changes;
    }
    for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i]->mutex.unlock();
    return empty;
  }

 private:
  eager::detail::ShortArray<Accumulator*, 32> slots_;
  eager::detail::ShortArray<Cotangent*, 32> gradients_;
};

}  // namespace

// Is the tape below `root` that of the known call? `recorder`: the source of this thread's keys.
bool BackwardReplay::matches(KnownBackward& known, Node& root, std::uint64_t recorder,
                             const LazyReplay& replay, const LazyTrace* trace) {
  if (known.seed.version() != known.seed_version) return false;
  if (root.first_key.source == recorder && came_by_calls(known, root.first_key, replay)) return true;
  if (!same_tape(known, root) || !same_saved(known, replay.hot_trace(), trace)) return false;
  constexpr int enough = 8;
  if (known.node_ops.empty() && known.looked_for < enough) find_calls(known, recorder, replay);
  return true;
}

bool BackwardReplay::fill_slots(const KnownBackward& known, const LazyValues& values) const {
  Slots slots(leaves_);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (known.results[i] != no_index) slots.prepare(i, values[known.results[i]].tensor, *leaves_[i]);
  }
  return slots.fill();
}

// Returns false, without effect, if a slot was changed since the comparison.
bool BackwardReplay::take(const KnownBackward& known, LazyReplay& replay, const LazyTensorFactory& factory) {
  LazyValues& values = replay.values();
  add_values(known, replay.hot_trace(), factory);
  bool filled = false;
  try {
    filled = fill_slots(known, values);
  } catch (...) {
    values.truncate(known.first_value);
    throw;
  }
  if (!filled) {
    values.truncate(known.first_value);
    return false;
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (!known.nodes[i].freed) nodes_[i] = nullptr;
  replay.skip_to(known.end);
  return true;
}

void BackwardReplay::free_nodes() {
  for (Node* const node : nodes_)
    if (node != nullptr) node->free_now();
}

// The known call at this position, or null.
KnownBackward* BackwardReplay::find(const LazyReplay& replay) {
  if (!replay.is_active()) return nullptr;
  std::vector<KnownBackward>& all = replay.hot_trace().backwards;
  const auto known = std::find_if(all.begin(), all.end(),
                                  [&](const KnownBackward& one) { return one.begin == replay.position(); });
  return known != all.end() && known->first_value == replay.values().size() ? &*known : nullptr;
}

bool BackwardReplay::repeat(Node& root, Context& c, LazyReplay& replay, const LazyTensorFactory& factory,
                            LazyStatistics& counters) {
  HotDetector& detector = *c.hot;
  KnownBackward* const known = find(replay);
  if (known == nullptr || !detector.expects(known->tokens)) return false;
  const std::size_t count = known->end - known->begin;
  // At the end of a repetition pending operations are evaluated, unless that happened within it.
  const bool ends = detector.until_end() < count;
  if (ends && counters.evaluations == c.evaluations_before) return false;
  if (!matches(*known, root, c.recorder.keys().source(), replay, factory.owner)) return false;
  if (!take(*known, replay, factory)) return false;
  detector.count_backward();
  counters.recorded += count;
  // An end of a repetition within the range finds that pending operations were evaluated in the repetition.
  if (ends) c.evaluations_before = counters.evaluations;
  detector.go_on(count);
  return true;
}

bool LazyTrace::repeat_backward(Node& root, Context& c) {
  {
    const std::lock_guard lock(mutex_);
    if (!backward_.repeat(root, c, replay_, factory_, counters_.lazy)) return false;
  }
  backward_.free_nodes();
  end_repetition(c);
  return true;
}

std::unique_ptr<ObservedBackward> LazyTrace::watch_backward(Node& root, const Tensor& seed) {
  auto seen = std::make_unique<ObservedBackward>(seed);
  {
    const std::lock_guard lock(mutex_);
    if (!seen->begin(replay_)) return nullptr;
  }
  return seen->read_tape(root) ? std::move(seen) : nullptr;
}

void LazyTrace::learn_backward(ObservedBackward& seen) {
  const std::lock_guard lock(mutex_);
  seen.learn(replay_, this);
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
  const bool replayable = !node.is_leaf() && node.num_outputs() == 1 && root.key == node.first_key &&
                          trace.is_run_by(c.runner_on(0));
  if (!replayable) return run();
  if (trace.repeat_backward(node, c)) return;
  const Tensor seed = ones(node.specialization->owner->output_types[0]);
  const std::unique_ptr<ObservedBackward> seen = trace.watch_backward(node, seed);
  if (seen != nullptr) root.seed = seed;
  run();
  if (seen != nullptr) trace.learn_backward(*seen);
}

}  // namespace tidu::frontend_detail
