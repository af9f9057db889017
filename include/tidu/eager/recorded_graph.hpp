// recorded_graph.hpp - RecordedGraph: the graph that a tape node invokes, one primitive or a composite graph;
// and ExecutorSlot, where executors keep their compiled form of a graph. Graphs of equal structure share one
// interned cached graph. Everything that is derived from it (linearization, transposition, the set of saved
// values, compiled programs) is derived once and kept with it.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "tidu/graph/graph.hpp"

namespace tidu::eager {

namespace detail {
class CachedGraph;
void retain(const CachedGraph* graph) noexcept;
void release(const CachedGraph* graph) noexcept;
}  // namespace detail

/// The storage for an executor's compiled form of a graph. Any thread may read; entries live as long as the
/// graph they belong to. An executor object is meant to live long: each one leaves its own entry.
class ExecutorSlot {
 public:
  ExecutorSlot() = default;
  /// For the eager layer itself: entries count towards the bytes of that cached graph, which outlives the
  /// slot.
  explicit ExecutorSlot(const detail::CachedGraph* owner) : owner_(owner) {}
  ExecutorSlot(const ExecutorSlot&) = delete;
  ExecutorSlot& operator=(const ExecutorSlot&) = delete;
  ~ExecutorSlot();

  /// The entry of the executor `id`, made by `make()` (which returns a T) the first time. Two threads may
  /// both make it; one is kept. If make() throws, the exception passes through and nothing is kept. If T has
  /// a member `std::size_t kept_bytes() const`, its result counts towards the limit of
  /// set_cached_graph_bytes_limit.
  template <class T, class Make>
  const T& get(std::uint64_t id, Make&& make) const {
    for (const Entry* entry = head_.load(std::memory_order_acquire); entry != nullptr; entry = entry->next)
      if (entry->id == id) return *static_cast<const T*>(entry->value.get());
    auto made = std::make_shared<const T>(std::forward<Make>(make)());
    std::size_t bytes = 0;
    if constexpr (requires(const T& kept) {
                    { kept.kept_bytes() } -> std::convertible_to<std::size_t>;
                  })
      bytes = made->kept_bytes();
    return *static_cast<const T*>(keep(id, std::move(made), bytes));
  }
  /// For the eager layer itself, before anything is kept: see the constructor.
  void count_for(const detail::CachedGraph* owner) { owner_ = owner; }

 private:
  struct Entry {
    std::uint64_t id;
    std::shared_ptr<const void> value;
    const Entry* next;
  };
  const void* keep(std::uint64_t id, std::shared_ptr<const void> value, std::size_t bytes) const;
  mutable std::atomic<const Entry*> head_{nullptr};
  const detail::CachedGraph* owner_ = nullptr;
};

/// A handle to an interned cached graph; cheap to copy.
class RecordedGraph {
 public:
  /// The cached graph of a closed graph, whatever its names. The graph's inputs go by position. Throws Error
  /// (invalid_argument) for a graph with externals.
  static RecordedGraph of(const Graph& graph);
  /// A graph of one operation, on operands of these types. Throws the errors of building it (type, …).
  static RecordedGraph of(const Op& op, std::span<const Type> operands, const PrimitiveSet& set);
  static RecordedGraph of(const Op& op, std::span<const Type> operands) {
    return of(op, operands, standard_primitives());
  }

  RecordedGraph(const RecordedGraph& other) noexcept : shared_(other.shared_) {
    if (shared_ != nullptr) detail::retain(shared_);
  }
  RecordedGraph(RecordedGraph&& other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  RecordedGraph& operator=(RecordedGraph other) noexcept {
    std::swap(shared_, other.shared_);
    return *this;
  }
  ~RecordedGraph() {
    if (shared_ != nullptr) detail::release(shared_);
  }

  const Graph& graph() const;
  /// For executors that run the graph itself forward.
  const ExecutorSlot& slot() const;
  /// Types of the outputs, in order.
  std::span<const Type> output_types() const;

  friend bool operator==(const RecordedGraph& a, const RecordedGraph& b) { return a.shared_ == b.shared_; }
  /// For the eager layer itself.
  explicit RecordedGraph(const detail::CachedGraph* adopted) noexcept : shared_(adopted) {}
  const detail::CachedGraph* shared() const { return shared_; }

 private:
  const detail::CachedGraph* shared_;
};

/// Counters of the process-wide store of cached graphs. All except `graphs` and `bytes` only grow.
struct CachedGraphStatistics {
  std::uint64_t graphs = 0;          ///< interned now
  std::uint64_t linearizations = 0;  ///< calls of linearize, which calls JVP rules
  std::uint64_t transpositions = 0;  ///< transpositions, which call transpose rules
  std::uint64_t evictions = 0;       ///< cached graphs dropped from the store because it was full, or cleared
  std::uint64_t looked_at = 0;       ///< cached graphs that were looked at to find those
  std::size_t bytes = 0;  ///< kept by the cached graphs, an estimate; see set_cached_graph_bytes_limit
};
/// The counters as they are now.
CachedGraphStatistics cached_graph_statistics();
/// Most cached graphs that are kept when no tape uses them; 16384 at first. The longest unused go. Returns
/// the bound that was in force.
std::size_t set_cached_graph_limit(std::size_t count);
/// Sets the maximum number of bytes of cached graphs that no tape uses; 256 MiB at first. Counted are all
/// elements of the literals that their graphs hold, such as data that a rule of custom_vjp captures, and, by
/// an estimate, the graphs, graphs derived from them, and compiled programs. The longest unused cached graphs
/// are freed first. Returns the former limit.
std::size_t set_cached_graph_bytes_limit(std::size_t bytes);
/// Drops all cached graphs that no tape uses; compile_cache().clear() calls it. Returns how many went.
std::size_t clear_cached_graphs();

/// CachedGraphStatistics with the former names of the counters, for one version.
struct TemplateStatistics {
  std::uint64_t templates = 0;       ///< CachedGraphStatistics::graphs
  std::uint64_t derivations = 0;     ///< CachedGraphStatistics::linearizations
  std::uint64_t transpositions = 0;  ///< of that name
  std::uint64_t evictions = 0;       ///< of that name
  std::uint64_t looked_at = 0;       ///< of that name
  std::size_t bytes = 0;             ///< of that name
};
/// The former name.
[[deprecated("use cached_graph_statistics")]] inline TemplateStatistics template_statistics() {
  const CachedGraphStatistics now = cached_graph_statistics();
  return {now.graphs, now.linearizations, now.transpositions, now.evictions, now.looked_at, now.bytes};
}
/// The former name.
[[deprecated("use set_cached_graph_limit")]] inline std::size_t set_template_limit(std::size_t count) {
  return set_cached_graph_limit(count);
}
/// The former name.
[[deprecated("use set_cached_graph_bytes_limit")]] inline std::size_t set_template_bytes_limit(
    std::size_t bytes) {
  return set_cached_graph_bytes_limit(bytes);
}
/// The former name.
[[deprecated("use clear_cached_graphs")]] inline std::size_t clear_templates() {
  return clear_cached_graphs();
}

}  // namespace tidu::eager
