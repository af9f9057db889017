// lazy.cpp - LazyTrace: recording of lazy operations and removal of dead ones; and the Lazy scope. Evaluation
// is in lazy_evaluate.cpp.
#include "frontend/lazy.hpp"

#include <algorithm>

#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "graph/fork_locks.hpp"
#include "graph/fork_mutex.hpp"

namespace tidu::frontend_detail {
namespace {

// The traces of all threads. Never destroyed: threads may end after main.
struct Traces {
  std::mutex mutex;
  std::vector<std::weak_ptr<LazyTrace>> all;
  std::vector<std::shared_ptr<LazyTrace>> held;  // by a fork
};
Traces& traces();

// A fork waits until no thread is in a trace of the forking thread.
void hold_for_fork(bool locks) {
  Traces& known = traces();
  if (!locks) {
    for (const std::shared_ptr<LazyTrace>& trace : known.held) trace->unlock_after_fork();
    known.held.clear();
    return;
  }
  for (const std::weak_ptr<LazyTrace>& trace : known.all) {
    std::shared_ptr<LazyTrace> one = trace.lock();
    if (one == nullptr || !one->is_of_this_thread()) continue;
    one->lock_for_fork();
    known.held.push_back(std::move(one));
  }
}

// Traces of threads that the child does not have may be locked for ever. The reader of one of their lazy
// tensors gets an error if an operand of it was written to since.
void forget_other_threads() {
  std::erase_if(traces().all, [](const std::weak_ptr<LazyTrace>& trace) {
    const std::shared_ptr<LazyTrace> one = trace.lock();
    return one == nullptr || !one->is_of_this_thread();
  });
}

Traces& traces() {
  static Traces* const known = [] {
    auto* const made = new Traces;
    tidu::detail::ForkLocks::add(tidu::detail::ForkRank::traces, made->mutex, forget_other_threads,
                                 hold_for_fork);
    return made;
  }();
  return *known;
}

void add_trace(const std::shared_ptr<LazyTrace>& trace) {
  tidu::detail::Forks::watch();
  const std::lock_guard lock(traces().mutex);
  std::erase_if(traces().all, [](const std::weak_ptr<LazyTrace>& other) { return other.expired(); });
  traces().all.push_back(trace);
}

// Called before a write to a tensor that pending operations may read, of this thread or of another. Traces
// that do not read it are unaffected.
void before_write(const tidu::detail::TensorStorage& storage) {
  std::vector<std::shared_ptr<LazyTrace>> live;
  {
    const std::lock_guard lock(traces().mutex);
    for (const std::weak_ptr<LazyTrace>& trace : traces().all) {
      if (std::shared_ptr<LazyTrace> one = trace.lock(); one != nullptr) live.push_back(std::move(one));
    }
  }
  for (const std::shared_ptr<LazyTrace>& trace : live) {
    if (trace->reads(storage)) trace->evaluate_all();
    trace->wait_for_readers(storage);
  }
}

}  // namespace

std::shared_ptr<LazyTrace> LazyTrace::make() {
  auto trace = std::make_shared<LazyTrace>();
  trace->factory_.trace = trace;
  add_trace(trace);
  return trace;
}

LazyTrace::LazyTrace() {
  factory_.owner = this;
  tidu::detail::before_write.store(before_write);
}
LazyTrace::~LazyTrace() = default;

bool LazyTrace::may_replace(const Tensor& old, const tidu::detail::LazyStorage* lazy_storage,
                            const Tensor& replacement) {
  const auto* const pending = replacement.pending();
  if (pending == nullptr || pending->producer != this || old.num_bytes() == 0) return false;
  if (pending->references.load(std::memory_order_acquire) != 2) return false;  // the temporary's and ours
  const std::lock_guard lock(mutex_);
  if (const auto* const before = old.pending(); before != nullptr)
    return before->producer == this && before->references.load(std::memory_order_acquire) == 2;
  return replay_.is_active() ? replay_.is_unique(old, lazy_storage) : ops_.is_unique(old, lazy_storage);
}

// --- recording

// Replays the graph, if it is the next one of a hot trace or begins one. Otherwise leaves the hot trace.
[[gnu::always_inline]] inline bool LazyTrace::replay(const Graph& graph,
                                                     std::span<const Tensor* const> inputs,
                                                     std::span<Tensor> out) {
  std::vector<LazyValue> dropped;
  const std::lock_guard lock(mutex_);
  if (!replay_.is_active() && !(greedy_ && ops_.values().empty() && replay_.start(graph, runner_)))
    return false;
  if (replay_.replay(graph, inputs, out, factory_)) {
    ++counters_.lazy.recorded;
    return true;
  }
  leave(dropped);
  return false;
}

[[gnu::always_inline]] inline void LazyTrace::settle_deferred(std::span<const Tensor* const> inputs,
                                                              Lock& lock) {
  for (const Tensor* input : inputs) {
    const LazyResult* const result = lazy_result(*input, this);
    if (result == nullptr || !result->is_deferred()) continue;
    lock.unlock();
    input->pending()->settle();
    lock.lock();
  }
}

bool LazyTrace::record(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out) {
  if (replay(graph, inputs, out)) return true;
  const RecordableGraphs::Entry& known = graphs_.look_up(graph);
  if (!known.takes) return false;
  const std::size_t literal_bytes = known.literal_bytes;
  for (const Tensor* input : inputs) {
    if (input->borrowed()) return false;
    // A lazy tensor of another thread, which may be about to set its elements.
    if (auto* const pending = input->pending(); pending != nullptr && pending->producer != this)
      pending->settle();
  }
  LazyDropped dropped;
  std::unique_lock lock(mutex_);
  settle_deferred(inputs, lock);
  ops_.count_bytes(literal_bytes);
  if (ops_.is_search_due()) search_dead(dropped, lock);
  ops_.add(graph, inputs, out, factory_);
  ++counters_.lazy.recorded;
  return true;
}

void LazyTrace::leave(std::vector<LazyValue>& dropped) {
  if (replay_.is_active()) replay_.leave(ops_, dropped);
}

// Evaluates values that are referred to if too many operations wait, so that no chain of them grows without
// bound. Failed ones stay; their readers get the error.
void LazyTrace::search_dead(LazyDropped& dropped, Lock& lock) {
  compact(dropped);
  if (ops_.size() >= RecordedOps::max_pending) {
    lock.unlock();
    dropped.clear();
    try {
      evaluate_all();
    } catch (const Error&) {
    }
    lock.lock();
  }
  ops_.set_limit();
}

// --- forgetting

void LazyTrace::compact(LazyDropped& dropped) {
  leave(dropped.values);
  ops_.compact(dropped);
}

void LazyTrace::end() noexcept {
  LazyDropped dropped;
  std::vector<std::unique_ptr<HotTrace>> hot_traces;
  std::shared_ptr<LazyTrace> self;
  const std::lock_guard lock(mutex_);
  factory_.trace.swap(self);
  for (const LazyValue& value : values())
    if (value.waits()) value.result->set_number(no_index);
  hot_traces = replay_.end();
  ops_.end(dropped);
}

bool LazyTrace::reads(const tidu::detail::TensorStorage& storage) {
  const std::lock_guard lock(mutex_);
  return values().lie_in(storage);
}

LazyCounters LazyTrace::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

LazyStatistics LazyTrace::statistics() {
  const std::lock_guard lock(mutex_);
  LazyStatistics result = counters_.lazy;
  result.pending += count_pending(replay_.is_active() ? replay_.ops() : ops_.ops(), values());
  return result;
}

bool record_lazily(Context& c, const Graph& graph, std::uint32_t device,
                   std::span<const Tensor* const> inputs, std::span<Tensor> out) {
  const LazyRunner runner = c.runner_on(device);
  if (c.lazy == 0) return record_hot(c, graph, runner, inputs, out);
  return c.trace_for(runner).record(graph, inputs, out);
}

void eval_all(std::span<const Array> arrays, Where where) {
  std::vector<Tensor> tensors;
  for (const Array& array : arrays) {
    const Body& body = body_of(array, "eval", where);
    if (is_traced(body)) {
      refuse(ErrorKind::invalid_argument, "eval",
             detail::str("expected Arrays to compute, got one that is being traced (", array.type(), ")"),
             where);
    }
    tensors.push_back(body.tensor);
  }
  const Context& c = context();
  if (c.trace != nullptr) c.trace->evaluate(tensors);
  for (const Tensor& tensor : tensors)
    if (auto* const pending = tensor.pending(); pending != nullptr) pending->settle();  // of another thread
}

}  // namespace tidu::frontend_detail

namespace tidu {

using frontend_detail::context;

Lazy::Lazy() {
  frontend_detail::Context& c = context();
  if (c.trace == nullptr) c.trace = frontend_detail::LazyTrace::make();
  ++c.lazy;
  c.update();
}

Lazy::~Lazy() {
  frontend_detail::Context* const c = frontend_detail::current_context;
  if (c == nullptr || c->lazy == 0) return;  // of static duration: the thread's context has ended before
  if (--c->lazy == 0) {
    try {
      c->trace->evaluate_all();
    } catch (...) {  // the readers of failed values get the error
    }
  }
  c->update();
}

bool lazy_enabled() { return context().lazy != 0; }

bool is_lazy(const Array& array) {
  const frontend_detail::Body& body = array.required();
  return !frontend_detail::is_traced(body) && body.tensor.pending() != nullptr;
}

LazyStatistics lazy_statistics() {
  const frontend_detail::Context& c = context();
  return c.trace != nullptr ? c.trace->statistics() : LazyStatistics{};
}

}  // namespace tidu
