// cached_graph.hpp - CachedGraph: the shared, cached part of RecordedGraphs: the graph of an invocation, its
// linearizations, and the backward programs.
//
//   CachedGraph           a closed graph, interned
//     Specialization      for a mask of active inputs and a choice of retained values: what a node saves
//       BackwardProgram   for a mask of seeded outputs and wanted edges: forward part, transposed part
//
// Each item is created once, outside any lock (rules are users' code and may call backward), and published by
// appending it to a list that readers walk without a lock. Nothing is removed from a list while its owner
// lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tidu/eager/recorded_graph.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/linearize/linearize.hpp"

namespace tidu::eager::detail {

/// A short lock-free list that only grows.
template <class T>
class PublishedList {
 public:
  PublishedList() = default;
  PublishedList(const PublishedList&) = delete;
  PublishedList& operator=(const PublishedList&) = delete;
  ~PublishedList() {
    for (T* at = head_.load(std::memory_order_relaxed); at != nullptr;) delete std::exchange(at, at->next);
  }
  T* head() const { return head_.load(std::memory_order_acquire); }
  /// The item for which `same` holds, if another thread appended one in the meantime; else `item`, appended.
  template <class Same>
  T* publish(std::unique_ptr<T> item, const Same& same) {
    T* first = head();
    for (const T* seen = nullptr;; seen = item->next) {
      for (T* at = first; at != seen; at = at->next)
        if (same(*at)) return at;
      item->next = first;
      if (head_.compare_exchange_strong(first, item.get(), std::memory_order_acq_rel)) return item.release();
    }
  }

 private:
  std::atomic<T*> head_{nullptr};
};

/// The source of a saved operand.
struct SavedSource {
  enum class Kind : std::uint8_t { input, output, retained };
  Kind kind;
  std::uint32_t index;  ///< of the input, of the output, or into the retained values
  ValueId value;        ///< of the cached graph
};

/// A bit set by position.
using Mask = std::vector<std::uint64_t>;
inline bool test(const Mask& mask, std::size_t i) { return (mask[i / 64] >> (i % 64) & 1U) != 0; }
inline void set(Mask& mask, std::size_t i) { mask[i / 64] |= std::uint64_t{1} << (i % 64); }
inline Mask make_mask(std::size_t bits) { return Mask(bits / 64 + 1, 0); }

/// The linearization and transposition for one context, as graphs to run.
struct BackwardProgram {
  Mask seeded;                    ///< by output of the cached graph
  Mask wanted;                    ///< by edge
  bool wide_accumulation = true;  ///< how it sums 16-bit cotangents
  bool has_16_bits = false;  ///< does it have 16-bit values? If not, `wide_accumulation` makes no difference
  Graph forward;             ///< inputs: saved operands `forward_inputs`; outputs: rematerialized residuals
  std::vector<std::uint32_t> forward_inputs;
  Graph transposed;  ///< inputs: residuals, then cotangents of seeded outputs; outputs: cotangents
  /// By residual: index of a saved operand, or of an output of `forward` with computed_bit.
  std::vector<std::uint32_t> residuals;
  std::vector<std::uint32_t> seeded_outputs;  ///< ascending
  std::vector<std::uint32_t> output_edge;     ///< by output of `transposed`: its edge
  ExecutorSlot forward_slot;
  ExecutorSlot transposed_slot;
  // The source of `recorded`: the transposed graph with its externals.
  std::shared_ptr<const Linearization> linearization;
  Graph open;
  std::vector<ValueId> open_outputs;    ///< of `open`, aligned with output_edge
  std::vector<ValueId> open_externals;  ///< by external of `open`: its value in the augmented graph
  std::vector<ValueId> saved_values;    ///< by saved operand: its value in the augmented graph
  std::vector<ValueId> computed;        ///< by output of `forward`: its value in the augmented graph
  /// By operation of `forward`: its original in the augmented graph. By operation of `transposed`: the
  /// operation of the cached graph from which it derives, or no_index.
  std::vector<std::uint32_t> forward_origins, transposed_origins;
  /// The whole program as a graph of the cached graph's inputs and the cotangents, for create_graph; created
  /// on demand.
  struct Recorded {
    RecordedGraph graph;
    std::vector<ValueId> saved;     ///< by saved operand: its value in `graph`, or no_index
    std::vector<ValueId> computed;  ///< by output of `forward`: its value in `graph`, or no_index
    Recorded* next = nullptr;
  };
  PublishedList<Recorded> recorded;
  BackwardProgram* next = nullptr;

  static constexpr std::uint32_t computed_bit = 0x80000000U;
  bool accumulates(bool wide) const { return wide == wide_accumulation || !has_16_bits; }
};

/// Maximum number of contexts with keys whose results a cached graph or specialization keeps. Nodes may use
/// these results, so they are never dropped.
inline constexpr std::size_t max_contexts = 64;

/// The linearization of a specialization for one context.
struct CachedLinearization {
  std::optional<Key128> context;  ///< cache key; without a context, a fixed one
  std::shared_ptr<const Linearization> linearization;
  PublishedList<BackwardProgram> programs;
  CachedLinearization* next = nullptr;
};

struct Specialization {
  const CachedGraph* owner;
  Mask active;  ///< by input: requires a gradient and is floating or complex
  Mask given;   ///< by input: has data; only with saves_everything
  bool outputs_given;
  bool saves_everything;
  std::optional<Key128> context;  ///< of its linearization
  std::vector<ValueId> retained;  ///< values offered in addition to inputs and outputs
  std::uint64_t fast_key = 0;     ///< the members above as a number, or 0 if they do not fit

  std::vector<std::uint32_t> edges;  ///< active inputs, ascending
  std::vector<SavedSource> saved;
  std::vector<char> output_active;  ///< by output: has a derivative
  bool any_active = false;
  bool single_output;
  std::shared_ptr<const Error>
      failure;  ///< of the linearization: thrown when a node of the specialization runs
  mutable PublishedList<CachedLinearization> linearizations;
  Specialization* next = nullptr;

  std::uint32_t num_outputs() const;
  /// The program for that context; `keep` owns it if it is not cached.
  BackwardProgram& program(const Mask& seeded, const Mask& wanted, bool wide_accumulation, ADContext* context,
                           std::shared_ptr<CachedLinearization>& keep) const;
  const BackwardProgram::Recorded& recorded(BackwardProgram& program) const;
};

class CachedGraph {
 public:
  /// `of`: the operation, for a cached graph of one operation; else null.
  CachedGraph(Graph graph, const Op* of);

  const Graph graph;
  const std::string op_name;  ///< for a cached graph of one operation
  std::vector<Type> input_types;
  std::vector<Type> output_types;
  ExecutorSlot slot;
  mutable std::atomic<std::uint32_t> references{1};
  std::size_t literal_bytes = 0;  ///< of the graph and of graphs inside it
  mutable std::size_t bytes = 0;  ///< with everything that is kept with it; guarded by the store's lock

  /// `active`: by input. Derives a new specialization with the context if that has a key or is null.
  const Specialization& specialization(const Mask& active, const Mask& given, bool outputs_given,
                                       std::span<const ValueId> retained, bool save_everything,
                                       ADContext* context) const;
  /// As above for at most 48 inputs, without retained values, context or save_everything.
  const Specialization& specialization(std::uint64_t active, bool outputs_given) const {
    const std::uint64_t key = active << 2 | (outputs_given ? 3U : 1U);
    for (const Specialization* at = specializations_.head(); at != nullptr; at = at->next)
      if (at->fast_key == key) return *at;
    return derive(active, outputs_given);
  }
  /// May specializations for the context be kept? True for null, and for a key that is already known or among
  /// the first max_contexts. Keys that never recur then fill no memory.
  bool keeps(ADContext* context) const;
  /// Name of the primitive or of the graph.
  std::string name() const;

 private:
  const Specialization& derive(std::uint64_t active, bool outputs_given) const;
  std::unique_ptr<Specialization> make_specialization(std::unique_ptr<Specialization> specialization,
                                                      ADContext* context) const;
  mutable PublishedList<Specialization> specializations_;
};

/// A fixed key for no context, a key derived from that of the context, or none if it has no key.
std::optional<Key128> key_of(ADContext* context);

/// Linearizes, and makes the program for all active outputs. Counts as a linearization.
std::unique_ptr<CachedLinearization> make_linearization(const Specialization& specialization,
                                                        ADContext* context);
/// Transposes. If `specialization.saved` is empty and `plan` is given, fills the plan with the values that
/// must be saved.
std::unique_ptr<BackwardProgram> make_program(const Specialization& specialization,
                                              std::shared_ptr<const Linearization> linearization,
                                              const Mask& seeded, const Mask& wanted, bool wide_accumulation,
                                              ADContext* context, std::vector<SavedSource>* plan);

/// Adds bytes that are kept with a cached graph, which the caller holds.
void count_bytes(const CachedGraph* graph, std::size_t bytes);
void count_linearization();
void count_transposition();

}  // namespace tidu::eager::detail
