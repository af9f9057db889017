// lazy_evaluator.hpp - LazyEvaluator: runs operations of a trace without holding its lock, as a program or
// one by one.
#pragma once

#include <exception>
#include <memory>
#include <mutex>

#include "frontend/lazy_ops.hpp"
#include "frontend/lazy_program.hpp"
#include "frontend/lazy_runner.hpp"
#include "frontend/lazy_runs.hpp"
#include "frontend/lazy_tables.hpp"
#include "graph/light_mutex.hpp"
#include "tidu/tensor/tensor.hpp"

namespace tidu::frontend_detail {

/// Owns the runs in progress. All functions need the lock of the trace, and hold it when they end, also by an
/// exception; those that take it release it meanwhile.
class LazyEvaluator {
 public:
  using Lock = std::unique_lock<tidu::detail::LightMutex>;

  /// An empty run.
  std::unique_ptr<LazyRun> new_run() {
    return spare_ != nullptr ? std::move(spare_) : std::make_unique<LazyRun>();
  }
  /// Runs planned operations. `greedy`: new programs run operation by operation until they have occurred a
  /// few times. Returns the program, if they ran as one.
  std::shared_ptr<const LazyProgram> run(LazyRun& run, const RecordedOps& ops, LazyRunner runner, bool greedy,
                                         Lock& lock);
  /// Runs the program of a hot trace, which may take over memory of the leaves of `trace`. Unless it throws,
  /// the run is in progress until end().
  void run_hot_trace(LazyRun& run, const LazyProgram& program, LazyRunner runner, const LazyTrace* trace,
                     Lock& lock);
  /// Computes the deferred results of a run of a hot trace. Returns the exception, if there is one.
  std::exception_ptr compute_deferred(LazyRun& run, Lock& lock) noexcept;
  void end(const LazyRun& run) noexcept { running_.end(run); }
  /// Keeps the memory of a run, and of dropped lists, for others. Destroys their contents.
  void put_away(std::unique_ptr<LazyRun> run, LazyDropped&& dropped, RecordedOps& ops, Lock& lock);

  /// Waits until no run on another thread reads the storage.
  void wait_for_readers(const tidu::detail::TensorStorage& storage, Lock& lock);
  /// Waits until no leaf is lent to a run on another thread.
  void wait_for_lent(Lock& lock);

 private:
  std::shared_ptr<const LazyProgram> find_program(const LazyRun& run, const Key128& address,
                                                  const RecordedOps& ops, const LazyRunner& runner,
                                                  bool greedy, Lock& lock);

  RunsInProgress running_;
  SeenPrograms seen_;  // of greedy evaluations
  std::unique_ptr<LazyRun> spare_;
};

}  // namespace tidu::frontend_detail
