// lazy.hpp - LazyTrace: the lazy operations of a thread, stored flat: operations in the order of recording,
// and values that are leaves (tensors) or results (lazy tensors). Values do not point to one another, so
// nothing recurses. The trace holds a reference to every lazy tensor; one that nothing else refers to is
// dead. Pending operations are either recorded (RecordedOps) or those of a hot trace that is replayed
// (LazyReplay), never both.
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
// Note [Replay of hot traces]: the operations of a hot sequence that are evaluated together, from an empty
// trace to an empty trace, are kept as a hot trace. While the next operations are those of a hot trace,
// position by position, they are replayed: only values are recorded, lazy tensors of the last replay that
// nothing refers to are used again, and the program is known. An unexpected operation ends the replay, and
// the operations so far are recorded as usual.
//
// Note [Calls]: the first call at a position of a hot trace looks up its graph by the call and the operands'
// types, and the part of its node that depends on the operands that require a gradient. Both are kept beside
// the hot trace. The same call at the same position is then compared with the expected one, and gets its lazy
// tensor and its node without any lookup.
//
// Note [Backward replay]: a backward call depends on its tape alone: the invocations and their edges, saved
// operands, the leaves' slots, and hooks. If its operations are a range of a hot trace, the call is kept
// beside the hot trace: its tape, saved operands by value, and the value that each leaf got. A later call at
// the same position is replayed instead of run if its tape is found to be the same, node by node, without
// hooks and with empty slots: its operations count as replayed, and the leaves get their values. The result
// is indistinguishable. If the tape was recorded by known calls of the same hot trace, each of these has
// checked its node, so edges need not be compared.
//
// Note [Donated memory]: if a hot trace runs from its leaves, and only the trace refers to one of them (such
// as a parameter that was replaced), the program may write an output into the leaf's memory. Until the run
// has ended, no other thread may run a reader of the leaf. A child of fork() that reads it gets an error,
// since its version says that it was written to. A run that fails has written nothing (ReusableInputs::safe).
//
// Note [Deferred results]: the gradients that a step leaves in its parameters are seldom read, since the next
// step computes them again. If such a result is a matmul of two much smaller arrays, the program of a hot
// trace returns these arrays (copies, if they are leaves) instead. A reader of the result computes it from
// them; nothing else holds the arrays, so they are unchanged. Programs whose results are read repeatedly
// compute them at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "frontend/context.hpp"
#include "frontend/hot_trace.hpp"
#include "frontend/lazy_backward.hpp"
#include "frontend/lazy_evaluator.hpp"
#include "frontend/lazy_ops.hpp"
#include "frontend/lazy_program.hpp"
#include "frontend/lazy_replay.hpp"
#include "frontend/lazy_runner.hpp"
#include "frontend/lazy_tables.hpp"
#include "frontend/lazy_values.hpp"
#include "graph/light_mutex.hpp"
#include "tidu/eager/recorded_graph.hpp"
#include "tidu/frontend/hot_paths.hpp"
#include "tidu/frontend/lazy.hpp"
#include "tidu/graph/graph.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// Counters of a thread's traces.
struct LazyCounters {
  LazyStatistics lazy;
  std::uint64_t hot_compiled = 0, hot_deferred = 0, hot_recomputed = 0;

  void count_evaluation(std::size_t operations, bool is_hot) {
    ++lazy.evaluations;
    lazy.evaluated += operations;
    if (is_hot) hot_compiled += operations;
  }
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
  /// Evaluates a lazy tensor of this trace that has no elements yet, for a reader on any thread.
  void settle(LazyResult& result);
  /// Evaluates all values with references from outside.
  void evaluate_all();
  /// Evaluates all values, and then changes the runner. Returns false if an operation failed whose results
  /// are still referred to: the runner then stays, since no other may run operations that were recorded for
  /// it. For the recording thread.
  bool change_runner(const LazyRunner& runner) noexcept;
  /// Is it the runner? For the recording thread.
  bool is_run_by(const LazyRunner& runner) const { return runner == runner_; }
  /// May an Array take the lazy tensor `replacement` instead of being overwritten by its elements? Only if
  /// this is unobservable: the Array's tensor `old` (with storage `lazy_storage`, if it is a lazy tensor's)
  /// has no references except the Array's and this trace's, and `replacement` is a temporary.
  bool may_replace(const Tensor& old, const tidu::detail::LazyStorage* lazy_storage,
                   const Tensor& replacement);
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
  LazyCounters counters();

  /// Replays a known backward call from the single output of `root`, if there is one at this position with
  /// the same tape. Otherwise returns false, without effect. For the recording thread.
  bool repeat_backward(eager::detail::Node& root, Context& c);
  /// Before a backward call from `root` with this seed runs: the state that learn_backward needs; null if the
  /// call is not worth learning.
  std::unique_ptr<ObservedBackward> watch_backward(eager::detail::Node& root, const Tensor& seed);
  /// After the call has run.
  void learn_backward(ObservedBackward& seen);

  /// Returns the body of the result's Array if the call is the next operation of a hot trace; null if it must
  /// be recorded. For the recording thread.
  Body* replay_call(Context& c, const Call& call, std::span<const Input> operands, const Where& where);
  /// Stores the last call as the known one of its position. `specialization`: of its node, or null.
  void learn_call(const ComingCall& coming, const eager::RecordedGraph& graph,
                  const eager::detail::Specialization* specialization);

 private:
  using Lock = LazyEvaluator::Lock;

  // The values of the pending operations.
  const LazyValues& values() const { return replay_.is_active() ? replay_.values() : ops_.values(); }
  LazyValues& values() { return replay_.is_active() ? replay_.values() : ops_.values(); }
  bool replay(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out);
  void settle_deferred(std::span<const Tensor* const> inputs, Lock& lock);
  void search_dead(LazyDropped& dropped, Lock& lock);
  void leave(std::vector<LazyValue>& dropped);
  void compact(LazyDropped& dropped);

  void run_targets(std::span<LazyResult* const> targets, bool all);
  void run_known(const HotTrace::Known& known, Lock& lock);
  bool make_deferred(LazyResult& result);

  const std::thread::id thread_ = std::this_thread::get_id();
  tidu::detail::LightMutex mutex_;
  RecordableGraphs graphs_;
  RecordedOps ops_;
  LazyReplay replay_;
  BackwardReplay backward_;
  LazyEvaluator evaluator_;
  LazyRunner runner_;
  LazyTensorFactory factory_;  // of its lazy tensors
  std::atomic<bool> greedy_{false};
  std::uint64_t batch_ = 0;  // number of hot trace runs so far
  LazyCounters counters_;
};

}  // namespace tidu::frontend_detail
