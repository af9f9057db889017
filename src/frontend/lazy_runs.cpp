// lazy_runs.cpp - programs of a trace that run, and writers that wait for them. See Note [Who may be where]
// in lazy.hpp.
#include <algorithm>

#include "frontend/lazy_program.hpp"

namespace tidu::frontend_detail {

// For the thread that ran it, with the lock.
void LazyTrace::end_run(const Run& run) noexcept {
  const auto at = std::find_if(running_.begin(), running_.end(),
                               [&](const Running& running) { return running.run == &run; });
  *at = running_.back();
  running_.pop_back();
  if (waiting_.load(std::memory_order_relaxed) == 0) return;
  runs_ended_.fetch_add(1, std::memory_order_release);
  runs_ended_.notify_all();
}

// Runs of other threads, which end whatever this one does.
template <class Predicate>
void LazyTrace::wait_while_running(Lock& lock, const Predicate& concerns) {
  const auto here = std::this_thread::get_id();
  const std::uint32_t now = tidu::detail::Forks::count();
  const auto is_waited_for = [&](const Running& running) {
    return running.ends && running.thread != here && running.forks == now && concerns(*running.run);
  };
  while (std::any_of(running_.begin(), running_.end(), is_waited_for)) {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t before = runs_ended_.load(std::memory_order_acquire);
    lock.unlock();
    runs_ended_.wait(before, std::memory_order_acquire);
    lock.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void LazyTrace::wait_for_readers(const tidu::detail::TensorStorage& storage) {
  Lock lock(mutex_);
  wait_while_running(lock, [&](const Run& run) {
    return std::any_of(run.inputs.begin(), run.inputs.end(),
                       [&](const Tensor& input) { return input.lies_in(storage); });
  });
}

void LazyTrace::wait_for_lent(Lock& lock) {
  wait_while_running(lock, [](const Run& run) { return !run.lent.empty(); });
}

// With the lock. The leaf's value and the run have a reference each.
void LazyTrace::lend(std::span<const ReusableInputs> reused, std::size_t num_outputs, Run& run) {
  if (runner_.cpu != &cpu() || reused.empty()) return;  // others' kernels may be anything
  run.made.resize(num_outputs);
  std::size_t most = 0;
  for (const ReusableInputs& set : reused) most += set.outputs.size();
  run.lent.reserve(most);
  for (const ReusableInputs& set : reused) {
    auto output = set.outputs.begin();
    for (const std::uint32_t input : set.inputs) {
      if (output == set.outputs.end()) break;
      tidu::detail::LazyStorage* const kept = run.inputs[input].kept();
      if (kept == nullptr || kept->maker != this || kept->references.load(std::memory_order_acquire) != 2)
        continue;
      auto* const promise = static_cast<LazyResult*>(kept);
      if (!promise->tensor_.exclusive()) continue;
      run.made[*output] = std::move(promise->tensor_);
      run.pointers[input] = &run.made[*output];
      promise->version.fetch_add(1, std::memory_order_relaxed);
      run.lent.push_back({*output++, promise});
    }
  }
}

void LazyTrace::take_back(Run& run) noexcept {
  for (const Run::Lent& lent : run.lent) {
    lent.promise->tensor_ = std::move(run.made[lent.output]);
    lent.promise->version.fetch_sub(1, std::memory_order_relaxed);
  }
  run.lent.clear();
}

}  // namespace tidu::frontend_detail
