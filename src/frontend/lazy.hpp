// lazy.hpp - LazyTrace: the lazy operations of a thread, stored flat: operations in the order of recording,
// and values that are leaves (tensors) or results (lazy tensors, `promise` in the code). Values do not point
// to one another, so nothing recurses. The trace holds a reference to every lazy tensor; one that nothing
// else refers to is dead.
//
// Note [One lookup]: evaluation of values finds the operations that they need by a backward sweep, numbers
// them by a forward sweep, and writes them as words: the graph of each operation (its address, which the
// cache keeps valid) and the numbers of its operands, in order. The words are the key of the compile cache,
// and are compared in full on a hit; a graph is built only on a miss. The key is not sorted: results are
// identified by the position of their operation.
//
// Note [Locking of traces]: the lock guards the arrays, and is never held while a program is compiled or
// runs. Another thread may read a lazy tensor (which evaluates it) or drop it (which does not touch a trace).
// Two threads may therefore run the same operations at the same time; the first one sets the values. A thread
// that then writes to an operand of both waits for the other run, although its results are not needed. It
// waits only if all kernels are the library's: custom kernels might wait for the writer, which may hold their
// interpreter's lock. Operations on Arrays within a running program (in custom kernels) are recorded in a
// separate trace.
//
// Note [Pattern replay]: the operations of a hot sequence that are evaluated together, from an empty trace to
// an empty trace, are kept as a pattern. While the next operations are those of a pattern, position by
// position, they are replayed: only values are recorded, lazy tensors of the last replay that nothing refers
// to are used again, and the program is known. An unexpected operation ends the replay, and the operations so
// far are recorded as usual.
//
// Note [Calls]: the first call at a position of a pattern looks up its graph by the call and the operands'
// types, and the part of its node that depends on the operands that require a gradient. Both are kept beside
// the pattern. The same call at the same position is then compared with the expected one, and gets its lazy
// tensor and its node without any lookup.
//
// Note [Backward replay]: a backward call depends on its tape alone: the invocations and their edges, saved
// operands, the leaves' slots, and hooks. If its operations are a range of a pattern, the call is kept beside
// the pattern: its tape, saved operands by value, and the value that each leaf got. A later call at the same
// position is replayed instead of run if its tape is found to be the same, node by node, without hooks and
// with empty slots: its operations count as replayed, and the leaves get their values. The result is
// indistinguishable. If the tape was recorded by known calls of the same pattern, each of these has checked
// its node, so edges need not be compared.
//
// Note [Donated memory]: if a pattern runs from its leaves, and only the trace refers to one of them (such as
// a parameter that was replaced), the program may write an output into the leaf's memory. Until the run has
// ended, no other thread may run a reader of the leaf. A child of fork() that reads it gets an error, since
// its version says that it was written to. A run that fails has written nothing (ReusableInputs::safe).
//
// Note [Deferred results]: the gradients that a step leaves in its parameters are seldom read, since the next
// step computes them again. If such a result is a matmul of two much smaller arrays, the program of a pattern
// returns these arrays (copies, if they are leaves) instead. A reader of the result computes it from them;
// nothing else holds the arrays, so they are unchanged. Programs whose results are read repeatedly compute
// them at once.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "frontend/context.hpp"
#include "frontend/lazy_leaves.hpp"
#include "frontend/lazy_runs.hpp"
#include "frontend/lazy_tables.hpp"
#include "frontend/lazy_values.hpp"
#include "graph/fork_mutex.hpp"
#include "graph/light_mutex.hpp"
#include "tidu/cpu/executor.hpp"
#include "tidu/eager/executor.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/frontend/hot_paths.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::eager::detail {
struct Node;
struct Variant;
}  // namespace tidu::eager::detail

namespace tidu::frontend_detail {

/// Does this thread compile or run a program of a trace at the moment?
bool evaluating();

struct DeferralUse;

/// The executor of a trace.
struct LazyRunner {
  const eager::BackwardExecutor<Tensor>* executor = nullptr;
  const CpuExecutor* cpu = nullptr;  ///< the executor, if it is a CpuExecutor
  eager::Placement placement{};
  friend bool operator==(const LazyRunner&, const LazyRunner&) = default;
};

class LazyTrace {
 public:
  /// Creates a trace that is notified of writes to operands of its operations.
  static std::shared_ptr<LazyTrace> make();
  LazyTrace();
  ~LazyTrace();
  LazyTrace(const LazyTrace&) = delete;
  LazyTrace& operator=(const LazyTrace&) = delete;

  /// Records the graph on `inputs`, and puts lazy tensors into `out`. Returns false, without effect, for
  /// graphs that must run at once: operations with effects, collectives (their order must not depend on the
  /// first reader in each process), custom primitives, and inputs in memory that others may write to.
  bool record(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out);
  /// Evaluates the `targets` that are lazy tensors of this trace.
  void evaluate(std::span<const Tensor> targets);
  /// Evaluates all values with references from outside.
  void evaluate_all();
  /// Evaluates all values, and then changes the runner. Returns false if an operation failed whose results
  /// are still referred to: the runner then stays, since no other may run operations that were recorded for
  /// it. For the recording thread.
  bool change_runner(const LazyRunner& runner) noexcept;
  /// Is it the runner? For the recording thread.
  bool is_run_by(const LazyRunner& runner) const { return runner == runner_; }
  /// May an Array take the lazy tensor `promise` instead of being overwritten by its elements? Only if this
  /// is unobservable: the Array's tensor `old` (with storage `promised`, if it is a lazy tensor's) has no
  /// references except the Array's and this trace's, and `promise` is a temporary.
  bool may_replace(const Tensor& old, const tidu::detail::LazyStorage* promised, const Tensor& promise);
  /// Does the trace have a value in this storage?
  bool reads(const tidu::detail::TensorStorage& storage);
  /// Was it created by the calling thread? For fork(), like the next two.
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }
  void lock_for_fork() noexcept { mutex_.lock(); }
  void unlock_after_fork() noexcept { mutex_.unlock(); }
  /// Waits until no program of this trace on another thread reads the storage.
  void wait_for_readers(const tidu::detail::TensorStorage& storage);
  /// Has no unevaluated value a reference from outside?
  bool idle();
  /// Continues the counters of a trace that has ended.
  void take_counters(LazyTrace& from);
  /// Called when the thread ends: remaining lazy tensors cannot be evaluated.
  void end() noexcept;
  LazyStatistics statistics();
  /// Greedy: a read of one value evaluates all values that are referred to. New programs run operation by
  /// operation until they have occurred a few times. Used for hot sequences.
  void set_greedy(bool greedy) { greedy_ = greedy; }
  std::uint64_t evaluations();

  /// A backward call that runs during a replay.
  struct BackwardSeen;
  /// Replays a known backward call from the single output of `root`, if there is one at this position with
  /// the same tape. Otherwise returns false, without effect. For the recording thread.
  bool repeat_backward(eager::detail::Node& root, Context& c);
  /// Before a backward call from `root` with this seed runs: the state that learn_backward needs; null if the
  /// call is not worth learning.
  std::unique_ptr<BackwardSeen> watch_backward(eager::detail::Node& root, const Tensor& seed);
  /// After the call has run.
  void learn_backward(BackwardSeen& seen);
  /// Adds the trace's counters of hot paths.
  void add_to(HotStatistics& statistics);

  /// A call, and a bit mask of the operands that are recorded as requiring a gradient.
  struct Coming {
    const Call& call;
    std::span<const Input> operands;
    std::uint32_t grads;
  };
  /// Returns the body of the result's Array if the call is the next operation of a pattern; null if it must
  /// be recorded. For the recording thread.
  Body* follow_call(Context& c, const Call& call, std::span<const Input> operands, const Where& where);
  /// Stores the last call as the known one of its position. `variant`: of its node, or null.
  void learn_call(const Coming& coming, const eager::RecordedGraph& graph,
                  const eager::detail::Variant* variant);

  /// A compiled program.
  struct Program;

 private:
  friend class LazyResult;
  struct Op {
    Graph graph;
    std::uint32_t first_operand;
    std::uint32_t first_value;
    std::uint32_t num_operands;
    std::uint32_t num_values;
    std::uint32_t marked;  // the last sweep that needed it
  };
  using Value = LazyValue;
  using Run = LazyRun;
  using Lock = std::unique_lock<tidu::detail::LightMutex>;
  // See Note [Backward replay].
  struct Backward {
    struct Node {
      const eager::detail::Variant* variant;
      eager::RecordedGraph graph;  // keeps `variant` alive
      std::uint32_t first_edge;
      std::uint32_t first_saved;
      bool freed = false;  // by the call, which may not have reached all nodes
    };
    struct Edge {
      std::uint32_t target;  // index of a node, or with leaf_bit of a leaf
      std::uint32_t slot;
    };
    static constexpr std::uint32_t leaf_bit = 0x80000000U;
    std::vector<Node> nodes;  // in descending order of sequence numbers: the root first
    // If known calls of the pattern recorded the whole tape: operations by node, and values by leaf.
    std::vector<std::uint32_t> node_ops, leaf_values;
    int looked_for = 0;  // number of searches for these
    std::vector<Edge> edges;
    std::vector<std::uint32_t> saved;    // values; no_index: not read
    std::vector<std::uint32_t> results;  // by leaf: a value, or no_index
    struct Source {
      std::uint32_t value, node, saved;
    };
    std::vector<Source> sources;  // of leaves that occur in it, except the seed
    Tensor seed;
    std::uint64_t seed_version = 0;
    std::uint32_t seed_value = no_index;
    std::size_t begin = 0, end = 0;   // operations of the pattern
    std::vector<const void*> tokens;  // of those operations
    std::size_t first_value = 0;      // first value of the call
  };
  // See Note [Calls]. The fields that every call is compared with are in one cache line.
  struct alignas(64) RecordedCall {
    const char* name = nullptr;   // null: unknown
    const void* token = nullptr;  // of its operation, like the next members
    std::uint32_t first_operand = 0, first_value = 0;
    std::uint16_t num_operands = 0, num_words = 0;
    std::uint32_t grads = 0;
    std::array<const void*, max_operands> types{};
    const eager::detail::Variant* variant = nullptr;
    std::array<std::int64_t, max_words> words{};
    std::optional<eager::RecordedGraph> graph;  // keeps the variant alive
    bool is(const Call& call, std::span<const Input> operands) const;
  };
  // Operations that were evaluated together. See Note [Pattern replay].
  struct Pattern {
    std::vector<Op> ops;
    std::size_t num_ops = 0;
    std::vector<RecordedCall> places;  // by operation
    std::vector<std::uint32_t> operands;
    std::vector<std::uint8_t> results;  // by value: is it a result instead of a leaf?
    std::vector<Type> types;            // by value
    std::vector<std::uint32_t> leaves;  // values, ascending
    // The node of a known call, as last recorded.
    struct Recorded {
      eager::detail::Node* node = nullptr;  // may have been destroyed, unless something holds it
      std::uint64_t counter = 0;            // of its key
      std::uint64_t followed = 0;
      bool as_operands = false;  // was the producer of each operand the one on the tape?
    };
    std::vector<Recorded> recorded;                // by operation
    std::vector<eager::detail::Node*> leaf_nodes;  // by value, as far as this replay has come
    struct Known {
      std::vector<std::uint8_t> referred;  // by value
      std::vector<std::uint32_t> input_values, output_values;
      std::size_t num_ops = 0;  // number of needed operations
      std::shared_ptr<const Program> program;
      std::shared_ptr<DeferralUse> use;  // if the program can defer results
    };
    std::vector<Known> known;         // by the set of values that were referred to
    std::vector<Backward> backwards;  // by position of their beginning
    int learned_backward = 0;         // number of backward calls that were learned
    std::size_t replaced = 0;         // number of those that were dropped for others
    LazyValues values;                // lazy tensors without references, at their positions
    std::uint64_t executor = 0;       // its id
    LazyRunner runner;
    Pattern* next = nullptr;  // the pattern that followed it last time
  };

  static bool waits(const Value& value) {
    return value.promise != nullptr && value.promise->made.load(std::memory_order_acquire) == nullptr &&
           value.promise->resident.load(std::memory_order_acquire) == nullptr;
  }
  // Is a result referred to from outside? The trace itself holds one reference.
  static bool referred(const Value& value) {
    return value.promise->references.load(std::memory_order_acquire) > 1;
  }
  std::uint32_t value_of(const Tensor& tensor);
  std::uint32_t leaf(const Tensor& tensor);
  void sweep(Run& run, std::uint32_t last, std::size_t count);
  void write_words(Run& run);
  struct Apart;
  std::shared_ptr<const Program> find_program(const Run& run, const Key128& address, const LazyRunner& runner,
                                              bool greedy, Lock& lock);
  Apart take_apart(const Run& run) const;
  std::size_t mark_targets(std::span<LazyResult* const> targets, bool all, std::uint32_t& last);
  void run_targets(std::span<LazyResult* const> targets, bool all);
  static void run_program(const Program& program, const LazyRunner& runner, Run& run);
  void lend(std::span<const ReusableInputs> reused, std::size_t num_outputs, Run& run);
  static void take_back(Run& run) noexcept;
  void wait_for_lent(Lock& lock);
  void keep_results(Run& run);
  void keep_result(const Tensor& promised, Tensor&& made);
  // See Note [Deferred results].
  void list_results(const Pattern::Known& known, Run& run) const;
  static void run_deferring(const Program& program, Run& run);
  static void take_operands(Run& run);
  static void make_put_off(Run& run);
  void keep_put_off(Run& run);
  bool make_deferred(LazyResult& promise);
  bool is_deferred(const Tensor& tensor) const;
  void put_away(std::unique_ptr<Run> run, std::vector<Value>& dropped, std::vector<Op>& dropped_ops,
                Lock& lock);
  bool start_following(const Graph& graph);
  void start(Pattern& pattern);
  // Replay; see lazy_follow.hpp.
  bool follow_operand(const Pattern& pattern, std::uint32_t id, const Tensor& tensor, bool watched,
                      bool on_host);
  Tensor& follow_result(std::uint32_t first_value);
  bool same_tape(const Backward& known, eager::detail::Node& root);
  bool same_leaves();
  bool came_by_calls(const Backward& known, const eager::Key& root);
  void find_calls(Backward& known, std::uint64_t source);
  bool note_edge(Pattern& pattern, std::uint32_t id, eager::detail::Node* target);
  Body* result_of_call(Context& c, const RecordedCall& place, std::span<const Input> operands,
                       const Where& where, const Tensor& result);
  bool same_saved(const Backward& known);
  void take_up(const Backward& known);
  bool follow(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out);
  Tensor make_lazy_result(Type type, std::uint32_t id);
  void leave(std::vector<Value>& dropped);
  const Pattern::Known* known_end();
  bool alone_in_pattern(const Tensor& old, const tidu::detail::LazyStorage* promised);
  void run_known(const Pattern::Known& known, Lock& lock);
  std::unique_ptr<Pattern> learn(const Run& run, std::shared_ptr<const Program> program);
  std::span<const Op> recorded() const {
    return follows_ != nullptr ? std::span<const Op>(follows_->ops.data(), at_) : std::span<const Op>(ops_);
  }
  void compact(std::vector<Value>& dropped, std::vector<Op>& dropped_ops);
  void bound();

  std::shared_ptr<LazyTrace> self_;  // for its lazy tensors; until end()
  const std::thread::id thread_ = std::this_thread::get_id();
  tidu::detail::LightMutex mutex_;
  std::vector<Op> ops_;
  std::vector<std::uint32_t> operands_;
  LazyValues values_;
  LeafTable leaves_;
  LazyRunner runner_;
  std::uint32_t sweep_ = 0;
  std::size_t limit_;  // number of operations that triggers a search for dead ones
  bool due_ = false;   // a search is due: much of the trace was evaluated, or much memory is held
  static constexpr std::size_t min_bytes = std::size_t{1} << 26;
  std::size_t fresh_bytes_ = 0;         // of leaves and literals since the last search
  std::size_t byte_limit_ = min_bytes;  // for fresh_bytes_
  std::unique_ptr<Run> spare_;
  // Empty, with reserved capacity.
  std::vector<Op> spare_ops_;
  std::vector<std::uint32_t> spare_operands_;
  std::vector<Value> spare_values_;
  LazyStatistics counters_;
  std::atomic<bool> greedy_{false};
  std::uint64_t hot_compiled_ = 0, hot_deferred_ = 0, hot_recomputed_ = 0;
  SeenPrograms seen_;  // of greedy evaluations
  RecordableGraphs graphs_;
  std::vector<std::unique_ptr<Pattern>> patterns_;
  std::size_t replaced_ = 0;    // number of patterns that were dropped for others
  Pattern* follows_ = nullptr;  // the pattern in replay: values_ are those of its first operations; ops_ and
                                // similar members are empty
  std::size_t at_ = 0;          // number of its operations so far
  Pattern* last_ = nullptr;     // the last evaluation, if it is a pattern
  RunsInProgress running_;
  std::uint64_t batch_ = 0;                                     // number of pattern runs so far
  std::uint64_t followed_ = 0;                                  // number of replays that began
  std::vector<eager::detail::Node*> tape_nodes_, tape_leaves_;  // of the backward call in comparison
  std::vector<eager::Key> tape_keys_;                           // of its leaves
};

}  // namespace tidu::frontend_detail
