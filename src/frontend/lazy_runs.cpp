// lazy_runs.cpp - programs of a trace that run, and writers that wait for them. See Note [Who may be where]
// in lazy.hpp.
#include <algorithm>

#include "frontend/lazy.hpp"

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

void LazyTrace::wait_for_readers(const tidu::detail::TensorStorage& storage) {
  const auto here = std::this_thread::get_id();
  const std::uint32_t now = tidu::detail::Forks::count();
  const auto reads_it = [&](const Running& running) {
    return running.ends && running.thread != here && running.forks == now &&
           std::any_of(running.run->inputs.begin(), running.run->inputs.end(),
                       [&](const Tensor& input) { return input.lies_in(storage); });
  };
  std::unique_lock lock(mutex_);
  while (std::any_of(running_.begin(), running_.end(), reads_it)) {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t before = runs_ended_.load(std::memory_order_acquire);
    lock.unlock();
    runs_ended_.wait(before, std::memory_order_acquire);
    lock.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace tidu::frontend_detail
