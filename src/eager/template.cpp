// template.cpp - the process-wide store in which templates of equal structure are one, and how variants are
// found.
#include "eager/template.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "graph/fork_locks.hpp"
#include "tidu/eager/recorder.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::eager {
namespace detail {
namespace {

// Interned templates, each held once by the store. Never destroyed: tapes in static variables may outlive it.
class Store {
 public:
  static Store& get() {
    static Store* const store = [] {
      auto* made = new Store;
      tidu::detail::ForkLocks::add(tidu::detail::ForkRank::templates, made->mutex_);
      return made;
    }();
    return *store;
  }

  const Template* intern(const Graph& graph, const Op* op) {
    const Key128 key = tidu::detail::mix(graph.structural_key(), graph.name());
    Idle idle;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [first, last] = templates_.equal_range(key);
    for (auto at = first; at != last; ++at) {
      if (!same(at->second->graph, graph)) continue;
      retain(at->second);
      return at->second;
    }
    if (templates_.size() >= next_sweep_) sweep(idle);
    auto made = std::make_unique<Template>(graph, op);
    templates_.emplace(key, made.get());
    retain(made.get());
    return made.release();
  }
  std::size_t set_limit(std::size_t count) {
    Idle idle;
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(count, limit_);
    next_sweep_ = limit_;
    if (templates_.size() > limit_) sweep(idle);
    return count;
  }
  TemplateStatistics statistics() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {templates_.size(), derivations.load(), transpositions.load(), evictions_, looked_at_};
  }

  std::atomic<std::uint64_t> derivations{0};
  std::atomic<std::uint64_t> transpositions{0};

 private:
  // What goes, without the lock: what executors kept goes with it, whose destructors are users'.
  struct Idle {
    std::vector<const Template*> templates;
    Idle() = default;
    Idle(const Idle&) = delete;
    Idle& operator=(const Idle&) = delete;
    ~Idle() {
      for (const Template* graph : templates) release(graph);
    }
  };
  // Ids of retained values are ids of the template's graph, so numbering must agree too.
  static bool same(const Graph& a, const Graph& b) {
    return a.name() == b.name() && a.primitives() == b.primitives() &&
           std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end()) &&
           structurally_equal(a, b);
  }
  // Drops what only the store holds. When nearly everything is in use the next sweep waits until as many
  // again have come.
  void sweep(Idle& idle) {
    looked_at_ += templates_.size();
    for (auto at = templates_.begin(); at != templates_.end();) {
      if (at->second->references.load(std::memory_order_acquire) == 1) {
        idle.templates.push_back(at->second);
        at = templates_.erase(at);
      } else {
        ++at;
      }
    }
    evictions_ += idle.templates.size();
    next_sweep_ = std::max(limit_, 2 * templates_.size());
  }

  std::mutex mutex_;
  std::unordered_multimap<Key128, const Template*> templates_;
  std::size_t limit_ = 16384;
  std::size_t next_sweep_ = 16384;  // how many there are then
  std::uint64_t evictions_ = 0;
  std::uint64_t looked_at_ = 0;
};

}  // namespace

void count_derivation() { Store::get().derivations.fetch_add(1, std::memory_order_relaxed); }
void count_transposition() { Store::get().transpositions.fetch_add(1, std::memory_order_relaxed); }

void retain(const Template* graph) noexcept { tidu::detail::count_up(graph->references); }
void release(const Template* graph) noexcept {
  if (tidu::detail::count_down(graph->references) == 1) delete graph;
}

Template::Template(Graph the_graph, const Op* of)
    : graph(std::move(the_graph)), op_name(of != nullptr ? of->name() : std::string_view()) {
  for (const ValueId id : graph.inputs()) input_types.push_back(graph.type(id));
  for (const ValueId id : graph.outputs()) output_types.push_back(graph.type(id));
}

std::string Template::name() const {
  if (!op_name.empty()) return op_name;
  return graph.name().empty() ? "graph" : graph.name();
}

const Variant& Template::variant(const Mask& active, const Mask& given, bool outputs_given,
                                 std::span<const ValueId> retained, bool save_everything,
                                 ADContext* context) const {
  const std::optional<Key128> key = key_of(context);
  const auto same = [&](const Variant& v) {
    return v.active == active && v.outputs_given == outputs_given && v.saves_everything == save_everything &&
           v.given == given && v.context == key &&
           std::equal(v.retained.begin(), v.retained.end(), retained.begin(), retained.end());
  };
  for (const Variant* at = variants_.head(); at != nullptr; at = at->next)
    if (same(*at)) return *at;
  auto made = std::make_unique<Variant>();
  made->active = active;
  made->given = given;
  made->outputs_given = outputs_given;
  made->retained.assign(retained.begin(), retained.end());
  made->saves_everything = save_everything;
  made->context = key;
  return *variants_.publish(make_variant(std::move(made), context), same);
}

bool Template::keeps(ADContext* context) const {
  if (context == nullptr) return true;
  const std::optional<Key128> key = key_of(context);
  const std::optional<Key128> none = key_of(nullptr);
  std::size_t others = 0;
  for (const Variant* at = variants_.head(); key && at != nullptr; at = at->next) {
    if (at->context == key) return true;
    others += at->context == none ? 0 : 1;
  }
  return key && others < most_contexts;
}

const Variant& Template::derive(std::uint64_t active, bool outputs_given) const {
  Mask mask = make_mask(graph.inputs().size());
  mask[0] = active;
  auto made = std::make_unique<Variant>();
  made->active = mask;
  made->outputs_given = outputs_given;
  made->saves_everything = false;
  made->context = key_of(nullptr);
  made->fast_key = active << 2 | (outputs_given ? 3U : 1U);
  return *variants_.publish(make_variant(std::move(made), nullptr),
                            [key = active << 2 | (outputs_given ? 3U : 1U)](const Variant& other) {
                              return other.fast_key == key;
                            });
}

std::uint32_t Variant::num_outputs() const { return static_cast<std::uint32_t>(owner->output_types.size()); }

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
}

OpCache::OpCache() = default;
OpCache::~OpCache() = default;
OpCache::OpCache(OpCache&&) noexcept = default;

const Template* OpCache::find(const Op& op, std::span<const Type> types, const PrimitiveSet& set) {
  if (entries_ == nullptr) entries_ = std::make_unique<Entry[]>(op_cache_entries);
  std::size_t hash = reinterpret_cast<std::uintptr_t>(op.record()) >> 4;
  for (const Type type : types) hash = hash * 31 + (reinterpret_cast<std::uintptr_t>(type.identity()) >> 4);
  Entry& entry = entries_[(hash ^ (hash >> 10)) % op_cache_entries];
  bool same = entry.graph && entry.op == op.record() && entry.count == types.size() && types.size() <= 4 &&
              entry.graph->graph().primitives() == set;
  for (std::size_t i = 0; same && i < types.size(); ++i) same = entry.types[i] == types[i].identity();
  if (same) return entry.graph->shared();
  RecordedGraph graph = RecordedGraph::of(op, types, set);
  entry.op = op.record();
  entry.held = op;
  entry.count = static_cast<std::uint32_t>(types.size());
  for (std::size_t i = 0; i < types.size() && i < 4; ++i) entry.types[i] = types[i].identity();
  entry.graph = std::move(graph);
  return entry.graph->shared();
}

std::size_t num_outputs(const Template* graph) noexcept { return graph->output_types.size(); }

}  // namespace detail

ExecutorSlot::~ExecutorSlot() {
  for (const Entry* at = head_.load(std::memory_order_relaxed); at != nullptr;)
    delete std::exchange(at, at->next);
}

const void* ExecutorSlot::keep(std::uint64_t id, std::shared_ptr<const void> value) const {
  auto entry = std::make_unique<Entry>(Entry{id, std::move(value), head_.load(std::memory_order_acquire)});
  for (;;) {
    for (const Entry* at = entry->next; at != nullptr; at = at->next)
      if (at->id == id) return at->value.get();
    if (head_.compare_exchange_weak(entry->next, entry.get(), std::memory_order_acq_rel))
      return entry.release()->value.get();
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

const Graph& RecordedGraph::graph() const { return template_->graph; }
const ExecutorSlot& RecordedGraph::slot() const { return template_->slot; }
std::span<const Type> RecordedGraph::output_types() const { return template_->output_types; }

TemplateStatistics template_statistics() { return detail::Store::get().statistics(); }
std::size_t set_template_limit(std::size_t count) { return detail::Store::get().set_limit(count); }

}  // namespace tidu::eager
