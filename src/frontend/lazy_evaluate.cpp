// lazy_evaluate.cpp - LazyTrace: evaluation, from lazy tensors to a run of their operations, and from its
// results to tensors.
#include <exception>

#include "frontend/lazy.hpp"

namespace tidu::frontend_detail {
namespace {

// Lazy tensors of a thread that has ended cannot be evaluated.
void check_not_ended(std::span<LazyResult* const> targets) {
  for (LazyResult* const target : targets) {
    if (target->has_elements() || target->number() != no_index || target->is_deferred()) continue;
    throw Error(
        ErrorKind::invalid_argument,
        "[lazy] expected a value of a thread that runs, got a lazy tensor that could not be evaluated before "
        "its thread ended");
  }
}

// Throws the first error after all.
void evaluate_each(LazyTrace& trace, std::span<const Tensor> tensors) {
  std::exception_ptr first;
  for (const Tensor& tensor : tensors) {
    try {
      trace.evaluate(std::span(&tensor, 1));
    } catch (const Error&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace

// Returns false, without effect, if it is no deferred result. Two threads may compute it at once; the first
// one's is kept. Takes the lock itself.
bool LazyTrace::make_deferred(LazyResult& result) {
  std::shared_ptr<const DeferredResult> deferred;
  {
    const std::lock_guard lock(mutex_);
    deferred = result.deferred();
  }
  if (deferred == nullptr) return false;
  Tensor made = deferred->make();
  std::shared_ptr<const DeferredResult> done;  // objects that it owns are destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (!result.is_deferred()) return true;
  done = result.set_deferred_elements(std::move(made));
  ++counters_.hot_recomputed;
  deferred->use->read.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// --- runs

void LazyTrace::run_targets(std::span<LazyResult* const> targets, bool all) {
  LazyDropped dropped;
  std::unique_ptr<LazyRun> run;
  std::unique_ptr<HotTrace> gone;
  std::unique_lock lock(mutex_);
  evaluator_.wait_for_lent(lock);
  check_not_ended(targets);
  if (all && replay_.is_active()) {
    if (const HotTrace::Known* const known = replay_.find_known(runner_); known != nullptr)
      return run_known(*known, lock);
  }
  leave(dropped.values);
  const RecordedOps::Marked marked = ops_.mark_targets(targets, all);
  if (marked.count == 0) {
    if (all) compact(dropped);
    return;
  }
  run = evaluator_.new_run();
  const std::uint32_t sweep = ops_.sweep();
  const bool greedy = greedy_;
  std::shared_ptr<const LazyProgram> program;
  try {
    ops_.plan(*run, marked, runner_);
    program = evaluator_.run(*run, ops_, runner_, greedy, lock);
  } catch (...) {
    ++counters_.lazy.failures;
    throw;
  }
  run->keep_results(values());
  counters_.count_evaluation(run->order.size(), greedy && program != nullptr);
  if (all) {
    // The trace was not used in the meantime: the run had all of its operations.
    if (greedy && program != nullptr && ops_.sweep() == sweep)
      gone = replay_.learn(ops_, runner_, *run, std::move(program));
    compact(dropped);
  } else {
    ops_.note_evaluated(run->order.size());
  }
  evaluator_.put_away(std::move(run), std::move(dropped), ops_, lock);
}

// Runs the hot trace in replay, and begins anew.
void LazyTrace::run_known(const HotTrace::Known& known, Lock& lock) {
  std::unique_ptr<LazyRun> run = evaluator_.new_run();
  run->list(known.program, known.use, values(), known.input_values, known.output_values);
  const std::shared_ptr<const LazyProgram> program = known.program;
  const std::size_t num_ops = known.num_ops;
  const std::uint64_t batch = ++batch_, replay = replay_.count();
  try {
    evaluator_.run_hot_trace(*run, *program, runner_, this, lock);
  } catch (...) {
    ++counters_.lazy.failures;
    lock.unlock();  // objects that the run releases may be the last references
    throw;
  }
  const auto is_undisturbed = [&] {
    return batch == batch_ && replay == replay_.count() && replay_.is_active();
  };
  std::exception_ptr failed;
  // Operations that came in the meantime may read any of it.
  if (run->defers() && !is_undisturbed()) failed = evaluator_.compute_deferred(*run, lock);
  evaluator_.end(*run);
  LazyDropped dropped;
  run->keep_results(values());
  if (failed == nullptr) counters_.hot_deferred += run->keep_deferred(values());
  counters_.count_evaluation(num_ops, greedy_);
  if (!is_undisturbed()) {
    compact(dropped);  // another thread was here
  } else {
    replay_.finish(known, run->dropped);
  }
  evaluator_.put_away(std::move(run), std::move(dropped), ops_, lock);
  if (failed != nullptr) std::rethrow_exception(failed);
}

// --- readers

void LazyTrace::settle(LazyResult& result) {
  if (make_deferred(result)) return;
  LazyResult* const target = &result;
  const bool all = greedy_ && !evaluating();  // a kernel may read values that depend on it
  try {
    run_targets(std::span(&target, 1), all);
  } catch (const Error&) {
    if (!all) throw;
    run_targets(std::span(&target, 1), false);  // it may be another that fails
  }
  make_deferred(result);  // by that run, or one on another thread
}

void LazyTrace::wait_for_readers(const tidu::detail::TensorStorage& storage) {
  Lock lock(mutex_);
  evaluator_.wait_for_readers(storage, lock);
}

void LazyTrace::evaluate(std::span<const Tensor> targets) {
  std::vector<LazyResult*> mine;
  for (const Tensor& target : targets) {
    LazyResult* const result = lazy_result(target, this);
    if (result != nullptr && !make_deferred(*result)) mine.push_back(result);
  }
  if (mine.empty()) return;
  run_targets(mine, false);
  for (LazyResult* const result : mine) make_deferred(*result);  // by a run on another thread
}

// If a joint evaluation fails, each is evaluated by itself, so that a failing one does not keep the others
// from their values.
void LazyTrace::evaluate_all() {
  try {
    return run_targets({}, true);
  } catch (const Error&) {
    std::vector<Tensor> waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting = values().awaited();
    }
    if (waiting.size() < 2) throw;
    evaluate_each(*this, waiting);
  }
}

}  // namespace tidu::frontend_detail
