// lazy.cpp - recording of lazy operations and removal of dead ones; and the Lazy scope. Evaluation is in
// lazy_evaluate.cpp.
#include "frontend/lazy.hpp"

#include <algorithm>

#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "graph/fork_locks.hpp"
#include "tidu/graph/pool.hpp"

namespace tidu::frontend_detail {
namespace {

constexpr std::size_t min_limit = 1024;
constexpr std::size_t max_pending = std::size_t{1} << 16;  // operations; more are evaluated unasked

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

void LazyResult::settle() {
  if (resident.load(std::memory_order_acquire) == nullptr) {
    const std::shared_ptr<LazyTrace> trace = trace_;
    if (trace->make_deferred(*this)) return;
    LazyResult* const target = this;
    const bool all = trace->greedy_ && !evaluating();  // a kernel may read values that depend on it
    try {
      trace->run_targets(std::span(&target, 1), all);
    } catch (const Error&) {
      if (!all) throw;
      trace->run_targets(std::span(&target, 1), false);  // it may be another that fails
    }
    trace->make_deferred(*this);  // by that run, or one on another thread
  }
}

void LazyResult::fulfil() {
  settle();
  if (resident.load(std::memory_order_acquire) != nullptr)
    made.store(const_cast<std::byte*>(tensor_.bytes()), std::memory_order_release);
}

void LazyResult::discard() noexcept {
  this->~LazyResult();
  tidu::detail::pool_deallocate(this, sizeof(LazyResult));
}

std::shared_ptr<LazyTrace> LazyTrace::make() {
  auto trace = std::make_shared<LazyTrace>();
  trace->self_ = trace;
  tidu::detail::Forks::watch();
  const std::lock_guard lock(traces().mutex);
  std::erase_if(traces().all, [](const std::weak_ptr<LazyTrace>& other) { return other.expired(); });
  traces().all.push_back(trace);
  return trace;
}

LazyTrace::LazyTrace() : limit_(min_limit) { tidu::detail::before_write.store(before_write); }
LazyTrace::~LazyTrace() = default;

// --- values

std::uint32_t LazyTrace::leaf(const Tensor& tensor) {
  const std::uint32_t& entry = leaves_.entry(values_, tensor);
  if (entry != no_index && values_[entry].version == tensor.version()) return entry;
  const auto id = static_cast<std::uint32_t>(values_.size());
  values_.emplace_back(tensor);
  leaves_.set(entry, id);
  tensor.watch();
  fresh_bytes_ += tensor.num_bytes();
  due_ = due_ || fresh_bytes_ > byte_limit_;
  return id;
}

std::uint32_t LazyTrace::value_of(const Tensor& tensor) {
  if (const auto* const pending = tensor.pending(); pending != nullptr)
    return static_cast<const LazyResult*>(pending)->value_;
  return leaf(tensor);
}

bool LazyTrace::may_replace(const Tensor& old, const tidu::detail::LazyStorage* promised,
                            const Tensor& promise) {
  const auto* const pending = promise.pending();
  if (pending == nullptr || pending->maker != this || old.num_bytes() == 0) return false;
  if (pending->references.load(std::memory_order_acquire) != 2) return false;  // the temporary's and ours
  const std::lock_guard lock(mutex_);
  if (const auto* const before = old.pending(); before != nullptr)
    return before->maker == this && before->references.load(std::memory_order_acquire) == 2;
  if (follows_ != nullptr) return alone_in_pattern(old, promised);
  const std::uint32_t known = leaves_.find(values_, old);
  if (promised != nullptr) {
    return promised->references.load(std::memory_order_acquire) == (known == no_index ? 1U : 2U);
  }
  if (known == no_index) return old.exclusive();
  Tensor& held = values_[known].tensor;
  held = Tensor();
  const bool alone = old.exclusive();
  held = old;
  return alone;
}

Tensor LazyTrace::make_lazy_result(Type type, std::uint32_t id) {
  void* const memory = tidu::detail::pool_allocate(sizeof(LazyResult));
  auto* const promise = ::new (memory) LazyResult(self_, id);
  promise->maker = this;
  promise->device.store(runner_.placement.device, std::memory_order_relaxed);
  return Tensor::promise(type, promise);
}

bool LazyTrace::record(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out) {
  {
    std::vector<Value> taken_up;
    const std::lock_guard lock(mutex_);
    if (follows_ != nullptr || (values_.empty() && start_following(graph))) {
      if (follow(graph, inputs, out)) return true;
      leave(taken_up);
    }
  }
  const RecordableGraphs::Entry& known = graphs_.look_up(graph);
  if (!known.takes) return false;
  const std::size_t literal_bytes = known.literal_bytes;
  for (const Tensor* input : inputs) {
    if (input->borrowed()) return false;
    // A lazy tensor of another thread, which may be about to set its elements.
    if (auto* const pending = input->pending(); pending != nullptr && pending->maker != this)
      pending->settle();
  }
  std::vector<Value> dropped;
  std::vector<Op> dropped_ops;
  std::unique_lock lock(mutex_);
  for (const Tensor* input : inputs) {
    if (!is_deferred(*input)) continue;
    lock.unlock();
    input->pending()->settle();
    lock.lock();
  }
  fresh_bytes_ += literal_bytes;
  if (due_ || fresh_bytes_ > byte_limit_ || ops_.size() >= limit_) {
    compact(dropped, dropped_ops);
    if (ops_.size() >= max_pending) {
      lock.unlock();
      dropped.clear();
      dropped_ops.clear();
      bound();
      lock.lock();
    }
    limit_ = std::max(ops_.size() + min_limit, std::min(2 * ops_.size(), max_pending));
  }
  // Memory is reserved first, so that an exception leaves no incomplete operation.
  const std::size_t num_operands = inputs.size(), num_results = out.size();
  const auto room = [](auto& list, std::size_t more) {
    if (list.capacity() - list.size() < more) list.reserve(std::max(2 * list.capacity(), list.size() + more));
  };
  room(ops_, 1);
  room(operands_, num_operands);
  values_.make_room(num_operands + num_results);
  const std::size_t first_operand = operands_.size();
  try {
    for (const Tensor* input : inputs) operands_.push_back(value_of(*input));
  } catch (...) {
    operands_.resize(first_operand);
    throw;
  }
  const std::size_t first_value = values_.size();
  const auto op = static_cast<std::uint32_t>(ops_.size());
  try {
    for (std::size_t i = 0; i < num_results; ++i) {
      const auto id = static_cast<std::uint32_t>(values_.size());
      values_.emplace_back(make_lazy_result(graph.type(graph.outputs()[i]), id), op);
    }
  } catch (...) {
    values_.truncate(first_value);
    operands_.resize(first_operand);
    throw;
  }
  for (std::size_t i = 0; i < num_results; ++i) out[i] = values_[first_value + i].tensor;
  ops_.push_back({graph, static_cast<std::uint32_t>(first_operand), static_cast<std::uint32_t>(first_value),
                  static_cast<std::uint32_t>(num_operands), static_cast<std::uint32_t>(num_results), 0});
  ++counters_.recorded;
  return true;
}

// Evaluates the values that are referred to, so that no chain of pending operations grows without bound.
// Failed ones stay; their readers get the error.
void LazyTrace::bound() {
  try {
    evaluate_all();
  } catch (const Error&) {
  }
}

// --- forgetting

// Keeps live operations: those that something still refers to, and those that they need. Removed ones are
// passed to the caller, who destroys them without the lock.
void LazyTrace::compact(std::vector<Value>& dropped, std::vector<Op>& dropped_ops) {
  leave(dropped);
  ++sweep_;
  due_ = false;
  std::size_t live = 0;
  for (std::size_t i = ops_.size(); i-- > 0;) {
    Op& op = ops_[i];
    bool needed = false;
    for (std::uint32_t slot = 0; slot < op.num_values && !needed; ++slot) {
      const Value& value = values_[op.first_value + slot];
      needed = waits(value) && (value.numbered == sweep_ || referred(value));
    }
    if (!needed) continue;
    op.marked = sweep_;
    ++live;
    for (std::uint32_t k = 0; k < op.num_operands; ++k)
      values_[operands_[op.first_operand + k]].numbered = sweep_;
  }
  if (live == ops_.size()) {
    byte_limit_ = std::max(byte_limit_, 2 * fresh_bytes_);
    return;
  }
  std::vector<Value> values = std::exchange(spare_values_, {});
  std::vector<Op> ops = std::exchange(spare_ops_, {});
  std::vector<std::uint32_t> operands = std::exchange(spare_operands_, {});
  if (live != 0) {
    values.reserve(values_.size());
    ops.reserve(ops_.size());
    operands.reserve(operands_.size());
  }
  for (std::size_t i = 0; live != 0 && i < values_.size(); ++i) {
    Value& value = values_[i];
    const bool pending = waits(value);
    const bool of_live = value.op != no_index && ops_[value.op].marked == sweep_;
    if (!of_live && value.numbered != sweep_) continue;
    value.number = static_cast<std::uint32_t>(values.size());
    if (pending) {
      static_cast<LazyResult*>(value.tensor.pending())->value_ = value.number;
    } else if (!of_live) {
      value.op = no_index;
      value.promise = nullptr;
    }
    values.push_back(std::move(value));  // removed values refer to no value that stays
  }
  for (Op& op : ops_) {
    if (live == 0) break;
    if (op.marked != sweep_) continue;
    const auto number = static_cast<std::uint32_t>(ops.size());
    const auto first_operand = static_cast<std::uint32_t>(operands.size());
    for (std::uint32_t k = 0; k < op.num_operands; ++k)
      operands.push_back(values_[operands_[op.first_operand + k]].number);
    const std::uint32_t first_value = values_[op.first_value].number;
    for (std::uint32_t slot = 0; slot < op.num_values; ++slot) values[first_value + slot].op = number;
    ops.push_back({op.graph, first_operand, first_value, op.num_operands, op.num_values, 0});
  }
  // A leaf without readers is no longer watched, since another trace may read it: watching it again costs
  // little.
  values_.swap(values);
  ops_.swap(ops);
  operands_.swap(operands);
  operands.clear();
  spare_operands_ = std::move(operands);
  // Leaves are found again by the operations that come.
  for (const Value& value : values_)
    if (value.tensor.pending() == nullptr) value.tensor.watch();
  const std::size_t bytes = leaves_.list(values_);
  byte_limit_ = std::max(min_bytes, bytes);
  fresh_bytes_ = 0;
  dropped = std::move(values);
  dropped_ops = std::move(ops);
}

void LazyTrace::end() noexcept {
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<std::unique_ptr<Pattern>> patterns;
  std::shared_ptr<LazyTrace> self;
  const std::lock_guard lock(mutex_);
  self_.swap(self);
  ++sweep_;  // a running evaluation must not learn a pattern from the rest
  follows_ = nullptr;
  last_ = nullptr;
  patterns_.swap(patterns);
  for (const Value& value : values_)
    if (waits(value)) static_cast<LazyResult*>(value.tensor.pending())->value_ = no_index;
  values_.swap(values);
  ops_.swap(ops);
  operands_.clear();
  leaves_.clear();
}

bool LazyTrace::reads(const tidu::detail::TensorStorage& storage) {
  const std::lock_guard lock(mutex_);
  return std::any_of(values_.begin(), values_.end(),
                     [&](const Value& value) { return value.tensor.lies_in(storage); });
}

std::uint64_t LazyTrace::evaluations() {
  const std::lock_guard lock(mutex_);
  return counters_.evaluations;
}

void LazyTrace::add_to(HotStatistics& statistics) {
  const std::lock_guard lock(mutex_);
  statistics.compiled += hot_compiled_;
  statistics.deferred += hot_deferred_;
  statistics.recomputed += hot_recomputed_;
}

LazyStatistics LazyTrace::statistics() {
  const std::lock_guard lock(mutex_);
  LazyStatistics result = counters_;
  for (const Op& op : recorded()) {
    bool pending = false;
    for (std::uint32_t slot = 0; slot < op.num_values; ++slot)
      pending = pending || waits(values_[op.first_value + slot]);
    result.pending += pending ? 1U : 0U;
  }
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

bool is_promise(const Array& array) {
  const frontend_detail::Body& body = array.required();
  return !frontend_detail::is_traced(body) && body.tensor.pending() != nullptr;
}

LazyStatistics lazy_statistics() {
  const frontend_detail::Context& c = context();
  return c.trace != nullptr ? c.trace->statistics() : LazyStatistics{};
}

}  // namespace tidu
