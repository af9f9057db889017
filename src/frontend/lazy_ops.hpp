// lazy_ops.hpp - RecordedOps: the operations that a trace has recorded and not evaluated, stored flat in the
// order of recording, with the leaves that they read and the lazy tensors that they make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "frontend/lazy_leaves.hpp"
#include "frontend/lazy_program.hpp"
#include "frontend/lazy_runner.hpp"
#include "frontend/lazy_runs.hpp"
#include "frontend/lazy_values.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// An operation of a trace. Its operands are numbers of values, and lie one after another in a list.
struct LazyOp {
  Graph graph;
  std::uint32_t first_operand;
  std::uint32_t first_value;
  std::uint32_t num_operands;
  std::uint32_t num_values;
  std::uint32_t marked;  // the last sweep that needed it
};

/// How many of the operations have a result without elements?
std::uint64_t count_pending(std::span<const LazyOp> ops, const LazyValues& values);

/// Values and operations that a trace has forgotten. They may be the last references, and an owner's deleter
/// is arbitrary code: the caller destroys them without the lock.
struct LazyDropped {
  std::vector<LazyValue> values;
  std::vector<LazyOp> ops;
  void clear() {
    values.clear();
    ops.clear();
  }
};

/// All functions need the lock of the trace.
class RecordedOps {
 public:
  std::size_t size() const { return ops_.size(); }
  std::span<const LazyOp> ops() const { return ops_; }
  const std::vector<std::uint32_t>& operands() const { return operands_; }
  const LazyValues& values() const { return values_; }
  LazyValues& values() { return values_; }

  /// Records the graph on `inputs`, and puts lazy tensors into `out`. If it throws, nothing is recorded.
  void add(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out,
           const LazyTensorFactory& factory);
  /// Counts literals of a graph that will be recorded.
  void count_bytes(std::size_t literals) { fresh_bytes_ += literals; }
  /// Takes operations that were replayed; there are no others.
  void take(std::vector<LazyOp> ops, std::vector<std::uint32_t> operands, LazyValues& values);
  /// Has the Array that holds `old` (with storage `lazy_storage`, if it is a lazy tensor's) the only
  /// reference to it, except for this object?
  bool is_unique(const Tensor& old, const tidu::detail::LazyStorage* lazy_storage);

  // --- evaluation
  /// Operations that an evaluation begins with: their number, and the last of them.
  struct Marked {
    std::size_t count = 0;
    std::uint32_t last = 0;
  };
  /// Marks the targets, or all values that are referred to as well, and the operations that make them.
  Marked mark_targets(std::span<LazyResult* const> targets, bool all);
  /// Fills in the run of the marked operations and of those that they need.
  void plan(LazyRun& run, Marked marked, const LazyRunner& runner);
  /// The operations of a planned run, without the values.
  StandaloneOps copy_ops(const LazyRun& run) const;
  /// Number of the last sweep: unchanged if there was none.
  std::uint32_t sweep() const { return sweep_; }
  /// `evaluated` operations have their values now. If these were much of all, search for dead ones soon.
  void note_evaluated(std::size_t evaluated) { is_due_ = is_due_ || ops_.size() <= 4 * evaluated + 64; }

  // --- forgetting
  static constexpr std::size_t max_pending = std::size_t{1}
                                             << 16;  ///< operations; more are evaluated unasked
  /// Is it worth searching for dead operations before the next one?
  bool is_search_due() const { return is_due_ || fresh_bytes_ > byte_limit_ || ops_.size() >= limit_; }
  /// After a search: the number of operations at which the next one is due.
  void set_limit();
  /// Keeps live operations: those that something still refers to, and those that they need.
  void compact(LazyDropped& dropped);
  /// Forgets all operations.
  void end(LazyDropped& dropped) noexcept;
  /// Keeps the memory of dropped lists, which are empty.
  void reuse(LazyDropped&& dropped);

 private:
  std::uint32_t value_of(const Tensor& tensor);
  std::uint32_t leaf(const Tensor& tensor);
  void list_needed(LazyRun& run, Marked marked);
  void write_operands(LazyRun& run, const LazyOp& op, std::uint32_t& next);
  void write_results(LazyRun& run, const LazyOp& op, std::uint32_t& next);
  std::size_t mark_live();
  void move_live_values(std::vector<LazyValue>& to);
  void move_live_ops(std::vector<LazyOp>& to, std::vector<std::uint32_t>& operands,
                     std::vector<LazyValue>& values);

  static constexpr std::size_t min_limit = 1024;
  static constexpr std::size_t min_bytes = std::size_t{1} << 26;
  std::vector<LazyOp> ops_;
  std::vector<std::uint32_t> operands_;
  LazyValues values_;
  LeafTable leaves_;
  std::uint32_t sweep_ = 0;
  std::size_t limit_ = min_limit;       // number of operations that triggers a search for dead ones
  bool is_due_ = false;                 // a search is due: much was evaluated, or much memory is held
  std::size_t fresh_bytes_ = 0;         // of leaves and literals since the last search
  std::size_t byte_limit_ = min_bytes;  // for fresh_bytes_
  // Empty, with reserved capacity.
  std::vector<LazyOp> spare_ops_;
  std::vector<std::uint32_t> spare_operands_;
  std::vector<LazyValue> spare_values_;
};

}  // namespace tidu::frontend_detail
