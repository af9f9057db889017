// lazy_evaluator.cpp - see lazy_evaluator.hpp.
#include "frontend/lazy_evaluator.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "frontend/context.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::frontend_detail {
namespace {

Key128 address_of(std::span<const std::uint64_t> words) {
  Key128 address{words.size(), 41};
  std::size_t i = 0;
  for (; i + 1 < words.size(); i += 2) address = tidu::detail::mix(address, Key128{words[i], words[i + 1]});
  if (i < words.size()) address = tidu::detail::mix(address, words[i]);
  return address;
}

}  // namespace

// The lock is released if the program is not known: compilation, here or on a thread that this one waits for,
// may compute with Arrays itself, and so with those of this trace.
std::shared_ptr<const LazyProgram> LazyEvaluator::find_program(const LazyRun& run, const Key128& address,
                                                               const RecordedOps& ops,
                                                               const LazyRunner& runner, bool greedy,
                                                               Lock& lock) {
  const CacheRequest request{address, run.words, nullptr};
  if (auto known = compile_cache().find<LazyProgram>(request); known != nullptr) return known;
  const StandaloneOps copy = ops.copy_ops(run);
  lock.unlock();
  return compile_cache().get<LazyProgram>(request, [&] {
    auto made = LazyProgram::make(copy, runner, greedy);
    const std::size_t bytes = 4096 + 16 * run.words.size() + made->kept_bytes();
    return CacheMade<LazyProgram>{std::move(made), bytes};
  });
}

std::shared_ptr<const LazyProgram> LazyEvaluator::run(LazyRun& run, const RecordedOps& ops, LazyRunner runner,
                                                      bool greedy, Lock& lock) {
  std::shared_ptr<const LazyProgram> program;
  running_.begin(run, runner.cpu == &cpu());
  try {
    const Key128 address = address_of(run.words);
    if (greedy && seen_.is_new(address)) {
      const StandaloneOps copy = ops.copy_ops(run);
      lock.unlock();
      copy.run(runner, run.made);
    } else {
      program = find_program(run, address, ops, runner, greedy, lock);
      if (lock.owns_lock()) lock.unlock();
      program->run(runner, run.pointers, run.made);
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    running_.end(run);
    throw;
  }
  lock.lock();
  running_.end(run);
  return program;
}

void LazyEvaluator::run_hot_trace(LazyRun& run, const LazyProgram& program, LazyRunner runner,
                                  const LazyTrace* trace, Lock& lock) {
  running_.reserve_one();  // once memory is lent, nothing may throw before the run has begun
  const bool is_own = runner.cpu == &cpu();  // kernels of other executors may be anything
  if (is_own && run.defers()) {
    run.lend(program.deferral->reused, program.deferral->graph.outputs().size(), trace);
  } else if (is_own) {
    run.lend(program.reused, program.graph.outputs().size(), trace);
  }
  running_.begin(run, is_own);
  lock.unlock();
  try {
    run.run(program, runner);
  } catch (...) {
    lock.lock();
    run.take_back();
    running_.end(run);
    throw;
  }
  lock.lock();
}

std::exception_ptr LazyEvaluator::compute_deferred(LazyRun& run, Lock& lock) noexcept {
  std::exception_ptr failed;
  lock.unlock();
  try {
    run.compute_deferred();
  } catch (...) {
    failed = std::current_exception();
  }
  lock.lock();
  return failed;
}

void LazyEvaluator::put_away(std::unique_ptr<LazyRun> run, LazyDropped&& dropped, RecordedOps& ops,
                             Lock& lock) {
  lock.unlock();
  run->clear();
  dropped.clear();
  lock.lock();
  spare_ = std::move(run);
  ops.reuse(std::move(dropped));
}

void LazyEvaluator::wait_for_readers(const tidu::detail::TensorStorage& storage, Lock& lock) {
  running_.wait(lock, [&](const LazyRun& run) {
    return std::any_of(run.inputs.begin(), run.inputs.end(),
                       [&](const Tensor& input) { return input.lies_in(storage); });
  });
}

void LazyEvaluator::wait_for_lent(Lock& lock) {
  running_.wait(lock, [](const LazyRun& run) { return !run.lent.empty(); });
}

}  // namespace tidu::frontend_detail
