// cached_graph.cpp - the process-wide store, which interns cached graphs by structure, and the lookup of
// specializations.
#include "eager/cached_graph.hpp"

#include <algorithm>
#include <array>
#include <list>
#include <unordered_map>

#include "graph/cache_in_front.hpp"
#include "graph/fork_locks.hpp"
#include "graph/kept_bytes.hpp"
#include "tidu/eager/recorder.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager {
namespace detail {
namespace {

// Interned cached graphs, each held once by the store, the longest unused last. Never destroyed: tapes in
// static variables may outlive it. A cached graph that anything else holds is in use, and stays.
class Store {
 public:
  static Store& get() {
    static Store* const store = [] {
      auto* made = new Store;
      tidu::detail::ForkLocks::add(tidu::detail::ForkRank::cached_graphs, made->mutex_);
      tidu::detail::CacheInFront::set([] { return Store::get().clear(); });
      return made;
    }();
    return *store;
  }

  const CachedGraph* intern(const Graph& graph, const Op* op) {
    const Key128 key = tidu::detail::mix(graph.structural_key(), graph.name());
    if (const CachedGraph* const found = find(key, graph)) return found;
    auto made = std::make_unique<CachedGraph>(graph, op);
    Idle idle;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const CachedGraph* const found = find_locked(key, graph)) return found;
    if (entries_.size() >= next_count_ || bytes_ + made->bytes > next_bytes_) {
      constexpr auto most = [](std::size_t limit) { return limit - limit / 4; };
      sweep(idle, most(count_limit_), most(bytes_limit_));
    }
    entries_.push_front({key, made.get()});
    try {
      table_.emplace(key, entries_.begin());
    } catch (...) {
      entries_.pop_front();
      throw;
    }
    bytes_ += made->bytes;
    retain(made.get());
    return made.release();
  }
  /// Counts more bytes for a cached graph that the caller holds.
  void count(const CachedGraph* graph, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    graph->bytes += bytes;
    bytes_ += bytes;
  }
  std::size_t set_count_limit(std::size_t count) {
    Idle idle;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(count, count_limit_);
    sweep(idle, count_limit_, bytes_limit_);
    return count;
  }
  std::size_t set_bytes_limit(std::size_t bytes) {
    Idle idle;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(bytes, bytes_limit_);
    sweep(idle, count_limit_, bytes_limit_);
    return bytes;
  }
  // A cached graph may hold another one, which is idle once the first is gone.
  std::size_t clear() {
    for (std::size_t dropped = 0;;) {
      Idle idle;
      const std::lock_guard<std::mutex> lock(mutex_);
      sweep(idle, 0, 0);
      if (idle.entries.empty()) return dropped;
      dropped += idle.entries.size();
    }
  }
  CachedGraphStatistics statistics() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {entries_.size(), linearizations.load(), transpositions.load(), evictions_, looked_at_, bytes_};
  }

  std::atomic<std::uint64_t> linearizations{0};
  std::atomic<std::uint64_t> transpositions{0};

 private:
  struct Entry {
    Key128 key;
    const CachedGraph* graph;
  };
  using Entries = std::list<Entry>;
  // Entries to be destroyed without the lock, since users' destructors run for objects that executors kept.
  struct Idle {
    Entries entries;
    Idle() = default;
    Idle(const Idle&) = delete;
    Idle& operator=(const Idle&) = delete;
    ~Idle() {
      for (const Entry& entry : entries) release(entry.graph);
    }
  };
  // Ids of retained values are ids of the cached graph, so numbering must agree too.
  static bool same(const Graph& a, const Graph& b) {
    return a.name() == b.name() && a.primitives() == b.primitives() &&
           std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end()) &&
           structurally_equal(a, b);
  }
  const CachedGraph* find(const Key128& key, const Graph& graph) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return find_locked(key, graph);
  }
  const CachedGraph* find_locked(const Key128& key, const Graph& graph) {
    const auto [first, last] = table_.equal_range(key);
    for (auto at = first; at != last; ++at) {
      const Entries::iterator entry = at->second;
      if (!same(entry->graph->graph, graph)) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      retain(entry->graph);
      return entry->graph;
    }
    return nullptr;
  }
  // Drops the longest unused cached graphs that only the store holds, until at most so many entries and bytes
  // are left. If nearly all are in use, the next sweep waits until the store has grown by a half or a
  // quarter, so that a sweep looks at few cached graphs for each new one.
  void sweep(Idle& idle, std::size_t max_entries, std::size_t max_bytes) {
    for (auto at = entries_.end();
         at != entries_.begin() && (entries_.size() > max_entries || bytes_ > max_bytes);) {
      const auto entry = --at;
      ++looked_at_;
      if (entry->graph->references.load(std::memory_order_acquire) != 1) continue;
      ++at;
      const auto [first, last] = table_.equal_range(entry->key);
      table_.erase(std::find_if(first, last, [&](const auto& each) { return each.second == entry; }));
      bytes_ -= entry->graph->bytes;
      idle.entries.splice(idle.entries.end(), entries_, entry);
    }
    evictions_ += idle.entries.size();
    next_count_ = std::max(count_limit_, entries_.size() + entries_.size() / 2);
    next_bytes_ = std::max(bytes_limit_, bytes_ + bytes_ / 4);
  }

  std::mutex mutex_;
  Entries entries_;
  std::unordered_multimap<Key128, Entries::iterator> table_;
  std::size_t count_limit_ = 16384, bytes_limit_ = std::size_t{256} << 20;
  // How many entries and bytes there are when the next sweep is due.
  std::size_t next_count_ = count_limit_, next_bytes_ = bytes_limit_;
  std::size_t bytes_ = 0;  // of all cached graphs
  std::uint64_t evictions_ = 0;
  std::uint64_t looked_at_ = 0;
};

}  // namespace

void count_linearization() { Store::get().linearizations.fetch_add(1, std::memory_order_relaxed); }
void count_transposition() { Store::get().transpositions.fetch_add(1, std::memory_order_relaxed); }

void count_bytes(const CachedGraph* graph, std::size_t bytes) { Store::get().count(graph, bytes); }

void retain(const CachedGraph* graph) noexcept { tidu::detail::count_up(graph->references); }
void release(const CachedGraph* graph) noexcept {
  if (tidu::detail::count_down(graph->references) == 1) delete graph;
}

CachedGraph::CachedGraph(Graph the_graph, const Op* of)
    : graph(std::move(the_graph)), op_name(of != nullptr ? of->name() : std::string_view()), slot(this) {
  tidu::detail::KeptBytes kept;
  kept.add(graph);
  literal_bytes = kept.literals();
  bytes = kept.all();
  for (const ValueId id : graph.inputs()) input_types.push_back(graph.type(id));
  for (const ValueId id : graph.outputs()) output_types.push_back(graph.type(id));
}

std::string CachedGraph::name() const {
  if (!op_name.empty()) return op_name;
  return graph.name().empty() ? "graph" : graph.name();
}

const Specialization& CachedGraph::specialization(const Mask& active, const Mask& given, bool outputs_given,
                                                  std::span<const ValueId> retained, bool save_everything,
                                                  ADContext* context) const {
  const std::optional<Key128> key = key_of(context);
  const auto same = [&](const Specialization& v) {
    return v.active == active && v.outputs_given == outputs_given && v.saves_everything == save_everything &&
           v.given == given && v.context == key &&
           std::equal(v.retained.begin(), v.retained.end(), retained.begin(), retained.end());
  };
  for (const Specialization* at = specializations_.head(); at != nullptr; at = at->next)
    if (same(*at)) return *at;
  auto made = std::make_unique<Specialization>();
  made->active = active;
  made->given = given;
  made->outputs_given = outputs_given;
  made->retained.assign(retained.begin(), retained.end());
  made->saves_everything = save_everything;
  made->context = key;
  return *specializations_.publish(make_specialization(std::move(made), context), same);
}

bool CachedGraph::keeps(ADContext* context) const {
  if (context == nullptr) return true;
  const std::optional<Key128> key = key_of(context);
  const std::optional<Key128> none = key_of(nullptr);
  std::size_t others = 0;
  for (const Specialization* at = specializations_.head(); key && at != nullptr; at = at->next) {
    if (at->context == key) return true;
    others += at->context == none ? 0 : 1;
  }
  return key && others < max_contexts;
}

const Specialization& CachedGraph::derive(std::uint64_t active, bool outputs_given) const {
  Mask mask = make_mask(graph.inputs().size());
  mask[0] = active;
  auto made = std::make_unique<Specialization>();
  made->active = mask;
  made->outputs_given = outputs_given;
  made->saves_everything = false;
  made->context = key_of(nullptr);
  made->fast_key = active << 2 | (outputs_given ? 3U : 1U);
  return *specializations_.publish(make_specialization(std::move(made), nullptr),
                                   [key = active << 2 | (outputs_given ? 3U : 1U)](
                                       const Specialization& other) { return other.fast_key == key; });
}

std::uint32_t Specialization::num_outputs() const {
  return static_cast<std::uint32_t>(owner->output_types.size());
}

// Direct-mapped; one entry per (op, types) of up to four operands.
struct OpCache::Entry {
  const OpRecord* op = nullptr;
  const void* set = nullptr;
  std::array<const void*, 4> types{};
  std::uint32_t count = 0;
  std::optional<Op> held;
  std::optional<RecordedGraph> graph;
};
namespace {
constexpr std::size_t op_cache_entries = 1024;
constexpr std::size_t op_cache_bytes = std::size_t{32} << 20;  // of literals
}  // namespace

OpCache::OpCache() = default;
OpCache::~OpCache() = default;
OpCache::OpCache(OpCache&&) noexcept = default;

const CachedGraph* OpCache::find(const Op& op, std::span<const Type> types, const PrimitiveSet& set) {
  if (entries_ == nullptr) entries_ = std::make_unique<Entry[]>(op_cache_entries);
  std::size_t hash = reinterpret_cast<std::uintptr_t>(op.record()) >> 4;
  for (const Type type : types) hash = hash * 31 + (reinterpret_cast<std::uintptr_t>(type.identity()) >> 4);
  Entry& entry = entries_[(hash ^ (hash >> 10)) % op_cache_entries];
  bool same = entry.graph && entry.op == op.record() && entry.count == types.size() && types.size() <= 4 &&
              entry.graph->graph().primitives() == set;
  for (std::size_t i = 0; same && i < types.size(); ++i) same = entry.types[i] == types[i].identity();
  if (same) return entry.graph->shared();
  RecordedGraph graph = RecordedGraph::of(op, types, set);
  make_room(graph.shared()->literal_bytes);
  if (entry.graph) bytes_ -= entry.graph->shared()->literal_bytes;
  bytes_ += graph.shared()->literal_bytes;
  entry.op = op.record();
  entry.held = op;
  entry.count = static_cast<std::uint32_t>(types.size());
  for (std::size_t i = 0; i < types.size() && i < 4; ++i) entry.types[i] = types[i].identity();
  entry.graph = std::move(graph);
  return entry.graph->shared();
}

// Operations that carry much data are mostly made anew for each call: all of them go at once.
void OpCache::make_room(std::size_t bytes) {
  if (bytes == 0 || bytes_ + bytes <= op_cache_bytes) return;
  for (std::size_t i = 0; i < op_cache_entries; ++i) {
    Entry& entry = entries_[i];
    if (entry.graph && entry.graph->shared()->literal_bytes != 0) entry = Entry();
  }
  bytes_ = 0;
}

std::size_t num_outputs(const CachedGraph* graph) noexcept { return graph->output_types.size(); }

}  // namespace detail

ExecutorSlot::~ExecutorSlot() {
  for (const Entry* at = head_.load(std::memory_order_relaxed); at != nullptr;)
    delete std::exchange(at, at->next);
}

const void* ExecutorSlot::keep(std::uint64_t id, std::shared_ptr<const void> value, std::size_t bytes) const {
  auto entry = std::make_unique<Entry>(Entry{id, std::move(value), head_.load(std::memory_order_acquire)});
  for (;;) {
    for (const Entry* at = entry->next; at != nullptr; at = at->next)
      if (at->id == id) return at->value.get();
    if (!head_.compare_exchange_weak(entry->next, entry.get(), std::memory_order_acq_rel)) continue;
    const void* const kept = entry.release()->value.get();
    // The literals of the graph count already.
    if (owner_ != nullptr && bytes > owner_->literal_bytes)
      detail::count_bytes(owner_, bytes - owner_->literal_bytes);
    return kept;
  }
}

RecordedGraph RecordedGraph::of(const Graph& graph) {
  if (!graph.externals().empty()) {
    throw Error(ErrorKind::invalid_argument,
                tidu::detail::str("RecordedGraph: expected a graph without externals, got ",
                                  graph.externals().size(), " in ", tidu::detail::in_quotes(graph.name())));
  }
  return RecordedGraph(detail::Store::get().intern(graph, nullptr));
}

RecordedGraph RecordedGraph::of(const Op& op, std::span<const Type> operands, const PrimitiveSet& set) {
  GraphBuilder builder(std::string(op.name()), set);
  std::vector<Value> inputs;
  for (const Type type : operands) inputs.push_back(builder.input(std::to_string(inputs.size()), type));
  const Values results = builder.emit(op, inputs);
  return RecordedGraph(
      detail::Store::get().intern(builder.build(std::span(results.data(), results.size())), &op));
}

const Graph& RecordedGraph::graph() const { return shared_->graph; }
const ExecutorSlot& RecordedGraph::slot() const { return shared_->slot; }
std::span<const Type> RecordedGraph::output_types() const { return shared_->output_types; }

CachedGraphStatistics cached_graph_statistics() { return detail::Store::get().statistics(); }
std::size_t set_cached_graph_limit(std::size_t count) { return detail::Store::get().set_count_limit(count); }
std::size_t set_cached_graph_bytes_limit(std::size_t bytes) {
  return detail::Store::get().set_bytes_limit(bytes);
}
std::size_t clear_cached_graphs() { return detail::Store::get().clear(); }

}  // namespace tidu::eager
