// lazy_traces.cpp - chooses the trace in which a thread records: another one if the executor changes and
// pending operations of the former could not be evaluated.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "frontend/context.hpp"
#include "frontend/lazy.hpp"

namespace tidu::frontend_detail {

bool LazyTrace::change_runner(const LazyRunner& runner) noexcept {
  if (runner == runner_) return true;
  try {
    if (runner_.executor != nullptr) evaluate_all();
  } catch (...) {  // failed operations stay
  }
  std::vector<LazyValue> dropped;
  const std::lock_guard lock(mutex_);
  if (values().are_awaited()) return false;
  try {
    leave(dropped);
  } catch (...) {
    return false;
  }
  runner_ = runner;
  factory_.device = runner.placement.device;
  return true;
}

bool LazyTrace::idle() {
  const std::lock_guard lock(mutex_);
  return !values().are_awaited();
}

void LazyTrace::take_counters(LazyTrace& from) {
  const std::scoped_lock lock(mutex_, from.mutex_);
  counters_ = from.counters_;
}

// Operations that an executor failed to compute stay with that executor.
LazyTrace& Context::trace_for(const LazyRunner& runner) {
  if (trace->is_run_by(runner)) [[likely]]
    return *trace;
  if (!trace->change_runner(runner)) [[unlikely]] {
    std::shared_ptr<LazyTrace> fresh = LazyTrace::make();
    fresh->take_counters(*trace);
    fresh->change_runner(runner);
    retire(std::exchange(trace, std::move(fresh)));
    update();
  }
  return *trace;
}

void Context::retire(std::shared_ptr<LazyTrace> old) noexcept {
  old->set_greedy(false);
  const auto over = [](const std::shared_ptr<LazyTrace>& one) {
    if (!one->idle()) return false;
    one->end();
    return true;
  };
  std::erase_if(retired, over);
  if (over(old)) return;
  try {
    retired.emplace_back();
  } catch (...) {  // no memory: no lazy mode
    old->end();
    return;
  }
  retired.back() = std::move(old);
}

}  // namespace tidu::frontend_detail
