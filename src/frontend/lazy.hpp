// lazy.hpp - LazyTrace: what a thread's lazy operations were, flat: operations in the order in which they
// came, values that are leaves (tensors) or results (promises). Nothing points from value to value, so that
// nothing recurses; the trace holds a reference to every promise, and a promise that nobody else refers to is
// dead.
//
// Note [One lookup]: to evaluate values, the operations that they need are found by one sweep backward,
// numbered by one sweep forward, and written down as words: the graph of each operation (its address: the
// cache holds it), and its operands by number, in order. The words are the key of the compile cache, compared
// one by one on a hit; a graph is built on a miss alone. Nothing in the key is sorted: results are handed out
// by the place of their operation.
//
// Note [Who may be where]: the lock guards the arrays and is never held while a program is compiled or runs.
// Another thread may read a promise (it then evaluates), or drop it (which touches no trace). Two threads may
// so run the same at once, and the first gives the values; who then writes to what both read waits for the
// other, though nobody needs what that one makes, but only where all kernels are the library's: others might
// wait for the writer, who may hold their interpreter's lock. What a program does with Arrays while it runs
// (kernels of other projects may) is recorded in a trace of its own.
//
// Note [Following]: what a hot sequence had evaluated at once, from an empty trace to an empty trace, is kept
// as a pattern. While the next operations are those of a pattern, place by place, nothing is written down but
// the values, promises of the last time that nobody refers to are used again, and the program is known.
// Whatever comes otherwise leaves the pattern: what was followed so far is then written down as if it had
// been recorded.
//
// Note [Calls]: what an operation is that a call makes in a place of a pattern was found out when it came
// there first: its graph from the call and the operands' types, what the tape keeps of it from which operands
// require a gradient. It is kept beside the pattern, so that the same call in the same place is compared with
// what is expected, gets its promise and its node, and looks nothing up.
//
// Note [Backward again]: what a backward call does depends on its tape alone: the invocations and how they
// hang together, what they saved, the slots of the leaves, and hooks. A call whose operations are those of a
// pattern from one place to another is written down beside the pattern: tape, saved operands by value, and
// which value each leaf got. A later call in the same place on a tape that is found to be the same, node by
// node, without hooks and with empty slots, is not run: its operations are taken as followed, and the leaves
// get their values. What follows cannot tell the difference. Where the tape came by known calls of the same
// pattern, each of them has seen to it that its node is what it was, so that no edge is looked at again.
// Note [Lent memory]: where a pattern is run from its leaves, and nobody but the trace refers to one of them,
// a parameter that was replaced, the program may write what replaces it over it. Until the run has ended
// nobody else may run what reads the leaf, and whoever comes upon it in a child of fork() gets an error: its
// version says that it was written to. What fails has written nothing (ReusableInputs::safe).
//
// Note [Deferred results]: what a step leaves in the gradients of its parameters is mostly read by nobody:
// the next step makes them anew. Where such a result is a product of two arrays that are much smaller than
// it, the program of a pattern gives these two, copies of leaves among them, in its place. Whoever does read
// the result has it computed from them then, as they were: nobody else has them. Programs some of whose
// results are read again and again make these at once.
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

/// A program of a trace is compiled or run by this thread just now.
bool evaluating();

struct DeferralUse;

/// Who runs what was recorded.
struct LazyRunner {
  const eager::BackwardExecutor<Tensor>* executor = nullptr;
  const CpuExecutor* cpu = nullptr;  ///< the executor, when it is one
  eager::Placement placement{};
  friend bool operator==(const LazyRunner&, const LazyRunner&) = default;
};

class LazyTrace {
 public:
  /// One that is told of writes to what its operations read.
  static std::shared_ptr<LazyTrace> make();
  LazyTrace();
  ~LazyTrace();
  LazyTrace(const LazyTrace&) = delete;
  LazyTrace& operator=(const LazyTrace&) = delete;

  /// Records the graph on `inputs`, and puts promises in `out`. False, and nothing done, for what must run at
  /// once: operations with effects, collectives (which process reads which value first must not decide their
  /// order), other primitives than the standard ones, memory that others write to.
  bool record(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out);
  /// Evaluates those of `targets` that are promises of this trace.
  void evaluate(std::span<const Tensor> targets);
  /// Evaluates all that is referred to from outside.
  void evaluate_all();
  /// The same before the runner is another one. False where something failed that is still referred to: the
  /// runner then stays, since what was recorded for it is run by no other. For the thread that records.
  bool change_runner(const LazyRunner& runner) noexcept;
  /// Is it the runner? For the thread that records.
  bool is_run_by(const LazyRunner& runner) const { return runner == runner_; }
  /// May an Array whose elements were to be written over by those of `promise` have the promise instead?
  /// Where nobody could tell: but for the Array and this trace nothing refers to what it has, `old`, whose
  /// storage is `promised` when it is a promise's; and nothing but a temporary refers to `promise`.
  bool may_replace(const Tensor& old, const tidu::detail::LazyStorage* promised, const Tensor& promise);
  /// Does it know a value that lies there?
  bool reads(const tidu::detail::TensorStorage& storage);
  /// Was it made by the thread that calls? For fork(), as are the next two.
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }
  void lock_for_fork() noexcept { mutex_.lock(); }
  void unlock_after_fork() noexcept { mutex_.unlock(); }
  /// Waits until no program of it that reads what lies there runs on another thread.
  void wait_for_readers(const tidu::detail::TensorStorage& storage);
  /// Nothing that waits is referred to from outside.
  bool idle();
  /// Goes on counting where another trace has ended.
  void take_counters(LazyTrace& from);
  /// Its thread ends: promises that are left cannot be kept.
  void end() noexcept;
  LazyStatistics statistics();
  /// Whoever reads one value has all evaluated that are referred to; what is new runs operation by operation
  /// until it has come a few times. What hot sequences want.
  void set_greedy(bool greedy) { greedy_ = greedy; }
  std::uint64_t evaluations();

  /// A backward call that runs while a pattern is followed.
  struct BackwardSeen;
  /// Does what a backward call from the one output of `root` did before in this place, where the tape is the
  /// same; false, and nothing done, otherwise. For the thread that
  /// records.
  bool repeat_backward(eager::detail::Node& root, Context& c);
  /// Before a backward call with such a seed from `root` runs: what is to be known of it to learn it; null
  /// where it is not worth it.
  std::unique_ptr<BackwardSeen> watch_backward(eager::detail::Node& root, const Tensor& seed);
  /// After it has run.
  void learn_backward(BackwardSeen& seen);
  /// Adds what the trace counts of hot paths.
  void add_to(HotStatistics& statistics);

  /// A call as it comes, with the operands that are recorded as such that require a gradient, a bit each.
  struct Coming {
    const Call& call;
    std::span<const Input> operands;
    std::uint32_t grads;
  };
  /// Takes the call for the next operation of a pattern, if it is, and gives what an Array of its result is
  /// to hold; else null: it is yet to be recorded. For the thread that records.
  Body* follow_call(Context& c, const Call& call, std::span<const Input> operands, const Where& where);
  /// Keeps what the call was that came last; `variant`: what its node is of, or null.
  void learn_call(const Coming& coming, const eager::RecordedGraph& graph,
                  const eager::detail::Variant* variant);

  /// What runs.
  struct Program;

 private:
  friend class LazyResult;
  struct Op {
    Graph graph;
    std::uint32_t first_operand;
    std::uint32_t first_value;
    std::uint32_t num_operands;
    std::uint32_t num_values;
    std::uint32_t marked;  // the sweep that needs it
  };
  using Value = LazyValue;
  // One evaluation.
  struct Run {
    std::vector<std::uint32_t> order;          // needed operations, the last one first
    std::vector<std::uint32_t> first_numbers;  // of results; aligned with `order` the other way round
    std::uint32_t numbers = 0;
    std::vector<std::uint64_t> words;
    std::vector<std::uint32_t> input_values, output_values;
    std::vector<Tensor> inputs;
    std::vector<const Tensor*> pointers;
    std::vector<Tensor> promised;  // aligned with output_values, but for those that are put off
    std::vector<Tensor> made;
    std::vector<Tensor> dropped;  // leaves that are no longer needed
    struct Lent {
      std::uint32_t output;  // that takes the memory
      LazyResult* promise;   // of a leaf, which `inputs` keep
    };
    std::vector<Lent> lent;  // see Note [Lent memory]
    struct PutOff {
      Tensor promised;
      std::shared_ptr<DeferredResult> result;
      Tensor made;  // or nothing
    };
    std::vector<PutOff> put_off;  // see Note [Deferred results]
    void clear() {
      lent.clear();
      put_off.clear();
      order.clear();
      first_numbers.clear();
      words.clear();
      input_values.clear();
      output_values.clear();
      inputs.clear();
      pointers.clear();
      promised.clear();
      made.clear();
      dropped.clear();
    }
  };
  // A run that goes on, without the lock. See Note [Who may be where].
  struct Running {
    const Run* run;
    std::thread::id thread;
    std::uint32_t forks;  // a child of fork() has none of the other threads
    bool ends;            // whatever this thread does: there are no kernels but the library's
  };
  void begin_run(const Run& run) {
    running_.push_back(
        {&run, std::this_thread::get_id(), tidu::detail::Forks::count(), runner_.cpu == &cpu()});
  }
  void end_run(const Run& run) noexcept;
  using Lock = std::unique_lock<tidu::detail::LightMutex>;
  // See Note [Backward again].
  struct Backward {
    struct Node {
      const eager::detail::Variant* variant;
      eager::RecordedGraph graph;  // keeps it
      std::uint32_t first_edge;
      std::uint32_t first_saved;
      bool freed = false;  // by the call: it may not have come to all of them
    };
    struct Edge {
      std::uint32_t target;  // among the nodes, or with leaf_bit among the leaves
      std::uint32_t slot;
    };
    static constexpr std::uint32_t leaf_bit = 0x80000000U;
    std::vector<Node> nodes;  // in descending order of their numbers: the root first
    // Where all of it came by known calls in the pattern: the operations, by node, and the values, by leaf.
    std::vector<std::uint32_t> node_ops, leaf_values;
    int looked_for = 0;  // how often those were
    std::vector<Edge> edges;
    std::vector<std::uint32_t> saved;    // values; no_index: nobody reads it
    std::vector<std::uint32_t> results;  // by leaf: a value, or no_index
    struct Source {
      std::uint32_t value, node, saved;
    };
    std::vector<Source> sources;  // of leaves that come in it, but for the seed
    Tensor seed;
    std::uint64_t seed_version = 0;
    std::uint32_t seed_value = no_index;
    std::size_t begin = 0, end = 0;   // operations of the pattern
    std::vector<const void*> tokens;  // of those
    std::size_t first_value = 0;      // that comes in it
  };
  // See Note [Calls]. What every call is compared with is in one line of the cache.
  struct alignas(64) RecordedCall {
    const char* name = nullptr;   // null: nothing is known of it
    const void* token = nullptr;  // of its operation, as are the next
    std::uint32_t first_operand = 0, first_value = 0;
    std::uint16_t num_operands = 0, num_words = 0;
    std::uint32_t grads = 0;
    std::array<const void*, max_operands> types{};
    const eager::detail::Variant* variant = nullptr;
    std::array<std::int64_t, max_words> words{};
    std::optional<eager::RecordedGraph> graph;  // keeps the variant
    bool is(const Call& call, std::span<const Input> operands) const;
  };
  // What was evaluated at once. See Note [Following].
  struct Pattern {
    std::vector<Op> ops;
    std::size_t num_ops = 0;
    std::vector<RecordedCall> places;  // by operation
    std::vector<std::uint32_t> operands;
    std::vector<std::uint8_t> results;  // by value: is it a result, no leaf?
    std::vector<Type> types;            // by value
    std::vector<std::uint32_t> leaves;  // values, ascending
    // What a known call left on the tape, when it came last.
    struct Recorded {
      eager::detail::Node* node = nullptr;  // which may be gone, unless something holds it
      std::uint64_t counter = 0;            // of its key
      std::uint64_t followed = 0;
      bool as_operands = false;  // was each producer of the pattern's that of the tape?
    };
    std::vector<Recorded> recorded;                // by operation
    std::vector<eager::detail::Node*> leaf_nodes;  // by value, as far as this time came
    struct Known {
      std::vector<std::uint8_t> referred;  // by value
      std::vector<std::uint32_t> input_values, output_values;
      std::size_t num_ops = 0;  // that are needed
      std::shared_ptr<const Program> program;
      std::shared_ptr<DeferralUse> use;  // where the program has results to defer
    };
    std::vector<Known> known;         // by which values were referred to
    std::vector<Backward> backwards;  // by where they begin
    int learned_backward = 0;         // how often one was
    std::size_t replaced = 0;         // how many of those had to go
    LazyValues values;                // promises that nobody refers to, in their places
    std::uint64_t executor = 0;       // its id
    LazyRunner runner;
    Pattern* next = nullptr;  // what came after it the last time
  };

  static bool waits(const Value& value) {
    return value.promise != nullptr && value.promise->made.load(std::memory_order_acquire) == nullptr &&
           value.promise->resident.load(std::memory_order_acquire) == nullptr;
  }
  // Of a result. The trace itself has one reference.
  static bool referred(const Value& value) {
    return value.promise->references.load(std::memory_order_acquire) > 1;
  }
  struct Known {
    const GraphData* address = nullptr;
    std::weak_ptr<const GraphData> graph;
    std::size_t literal_bytes = 0;
    bool takes = false;
  };
  const Known& look_at(const Graph& graph);
  std::uint32_t value_of(const Tensor& tensor);
  std::size_t place_of(const Tensor& tensor) const;
  std::uint32_t leaf(const Tensor& tensor);
  void grow_leaves();
  std::size_t list_leaves();
  void sweep(Run& run, std::uint32_t last, std::size_t count);
  void write_words(Run& run);
  struct Apart;
  bool is_new(const Key128& address);
  std::shared_ptr<const Program> find_program(const Run& run, const Key128& address, const LazyRunner& runner,
                                              bool greedy, Lock& lock);
  Apart take_apart(const Run& run) const;
  std::size_t mark_targets(std::span<LazyResult* const> targets, bool all, std::uint32_t& last);
  void run_targets(std::span<LazyResult* const> targets, bool all);
  static void run_program(const Program& program, const LazyRunner& runner, Run& run);
  void lend(std::span<const ReusableInputs> reused, std::size_t num_outputs, Run& run);
  static void take_back(Run& run) noexcept;
  void wait_for_lent(Lock& lock);
  template <class Predicate>
  void wait_while_running(Lock& lock, const Predicate& concerns);
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
  // Following; see lazy_follow.hpp.
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

  std::shared_ptr<LazyTrace> self_;  // until end(): for its promises
  const std::thread::id thread_ = std::this_thread::get_id();
  tidu::detail::LightMutex mutex_;
  std::vector<Op> ops_;
  std::vector<std::uint32_t> operands_;
  LazyValues values_;
  std::vector<std::uint32_t> leaves_;  // open addressing: value, or no_index; a power of two
  std::size_t num_leaves_ = 0;
  LazyRunner runner_;
  std::uint32_t sweep_ = 0;
  std::size_t limit_;  // of operations before those that nobody refers to are looked for
  bool due_ = false;   // it is time to: much of what is recorded was evaluated, or much memory is held
  static constexpr std::size_t min_bytes = std::size_t{1} << 26;
  std::size_t fresh_bytes_ = 0;         // of leaves and literals that came since they were looked for
  std::size_t byte_limit_ = min_bytes;  // of them
  std::unique_ptr<Run> spare_;
  // Empty, with room for what comes.
  std::vector<Op> spare_ops_;
  std::vector<std::uint32_t> spare_operands_;
  std::vector<Value> spare_values_;
  LazyStatistics counters_;
  std::atomic<bool> greedy_{false};
  std::uint64_t hot_compiled_ = 0, hot_deferred_ = 0, hot_recomputed_ = 0;
  struct Seen {
    Key128 address;
    int times = 0;
    std::uint64_t last = 0;  // when it was looked for
  };
  // What was evaluated greedily lately. Each may be in a few places: were there one, two programs of a loop
  // would in some processes drive each other out, and never be compiled.
  static constexpr std::size_t seen_ways = 8;
  std::array<std::array<Seen, seen_ways>, 64> seen_;
  std::uint64_t looked_for_ = 0;
  std::array<std::array<Known, 4>, 256> known_;  // graphs met lately, by address
  std::vector<std::unique_ptr<Pattern>> patterns_;
  std::size_t replaced_ = 0;    // how many had to go
  Pattern* follows_ = nullptr;  // values_ are those of its first operations; ops_ and the like are empty
  std::size_t at_ = 0;          // so many operations of it
  Pattern* last_ = nullptr;     // what was evaluated last, where that is a pattern
  std::vector<Running> running_;
  std::atomic<std::uint32_t> runs_ended_{0};  // while somebody waits for one
  std::atomic<std::uint32_t> waiting_{0};
  std::uint64_t batch_ = 0;                                     // runs of patterns so far
  std::uint64_t followed_ = 0;                                  // how often a pattern began
  std::vector<eager::detail::Node*> tape_nodes_, tape_leaves_;  // of the backward call that is looked at
  std::vector<eager::Key> tape_keys_;                           // of its leaves
};

}  // namespace tidu::frontend_detail
