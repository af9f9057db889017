// lazy_ops.cpp - see lazy_ops.hpp.
#include "frontend/lazy_ops.hpp"

#include <algorithm>
#include <utility>

#include "tidu/graph/error.hpp"

namespace tidu::frontend_detail {

std::uint64_t count_pending(std::span<const LazyOp> ops, const LazyValues& values) {
  std::uint64_t count = 0;
  for (const LazyOp& op : ops) {
    bool pending = false;
    for (std::uint32_t slot = 0; slot < op.num_values; ++slot)
      pending = pending || values[op.first_value + slot].waits();
    count += pending ? 1U : 0U;
  }
  return count;
}

// --- recording

std::uint32_t RecordedOps::leaf(const Tensor& tensor) {
  const std::uint32_t& entry = leaves_.entry(values_, tensor);
  if (entry != no_index && values_[entry].version == tensor.version()) return entry;
  const auto id = static_cast<std::uint32_t>(values_.size());
  values_.emplace_back(tensor);
  leaves_.set(entry, id);
  tensor.watch();
  fresh_bytes_ += tensor.num_bytes();
  is_due_ = is_due_ || fresh_bytes_ > byte_limit_;
  return id;
}

std::uint32_t RecordedOps::value_of(const Tensor& tensor) {
  if (const auto* const pending = tensor.pending(); pending != nullptr)
    return static_cast<const LazyResult*>(pending)->number();
  return leaf(tensor);
}

void RecordedOps::add(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out,
                      const LazyTensorFactory& factory) {
  // Memory is reserved first, so that an exception leaves no incomplete operation.
  const std::size_t num_operands = inputs.size(), num_results = out.size();
  const auto reserve = [](auto& list, std::size_t more) {
    if (list.capacity() - list.size() < more) list.reserve(std::max(2 * list.capacity(), list.size() + more));
  };
  reserve(ops_, 1);
  reserve(operands_, num_operands);
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
      values_.emplace_back(factory.make(graph.type(graph.outputs()[i]), id), op);
    }
  } catch (...) {
    values_.truncate(first_value);
    operands_.resize(first_operand);
    throw;
  }
  for (std::size_t i = 0; i < num_results; ++i) out[i] = values_[first_value + i].tensor;
  ops_.push_back({graph, static_cast<std::uint32_t>(first_operand), static_cast<std::uint32_t>(first_value),
                  static_cast<std::uint32_t>(num_operands), static_cast<std::uint32_t>(num_results), 0});
}

void RecordedOps::take(std::vector<LazyOp> ops, std::vector<std::uint32_t> operands, LazyValues& values) {
  fresh_bytes_ = leaves_.list(values);
  swap(values_, values);
  is_due_ = is_due_ || fresh_bytes_ > byte_limit_;
  ops_.swap(ops);
  operands_.swap(operands);
}

bool RecordedOps::is_unique(const Tensor& old, const tidu::detail::LazyStorage* lazy_storage) {
  const std::uint32_t known = leaves_.find(values_, old);
  if (lazy_storage != nullptr) {
    return lazy_storage->references.load(std::memory_order_acquire) == (known == no_index ? 1U : 2U);
  }
  if (known == no_index) return old.exclusive();
  Tensor& held = values_[known].tensor;
  held = Tensor();
  const bool unique = old.exclusive();
  held = old;
  return unique;
}

// --- evaluation

RecordedOps::Marked RecordedOps::mark_targets(std::span<LazyResult* const> targets, bool all) {
  ++sweep_;
  Marked marked;
  const auto want = [&](LazyValue& value) {
    value.wanted = sweep_;
    LazyOp& op = ops_[value.op];
    marked.last = std::max(marked.last, value.op);
    if (op.marked == sweep_) return;
    op.marked = sweep_;
    ++marked.count;
  };
  for (LazyResult* const target : targets)
    if (!target->has_elements() && !target->is_deferred()) want(values_[target->number()]);
  for (std::size_t i = 0; all && i < values_.size(); ++i)
    if (values_[i].waits() && values_[i].is_referred()) want(values_[i]);
  return marked;
}

// The needed operations, the last one first.
void RecordedOps::list_needed(LazyRun& run, Marked marked) {
  for (std::uint32_t i = marked.last; marked.count != 0; --i) {
    const LazyOp& op = ops_[i];
    if (op.marked != sweep_) continue;
    --marked.count;
    run.order.push_back(i);
    for (std::uint32_t k = 0; k < op.num_operands; ++k) {
      const LazyValue& value = values_[operands_[op.first_operand + k]];
      if (value.op == no_index || ops_[value.op].marked == sweep_ || !value.waits()) continue;
      ops_[value.op].marked = sweep_;
      ++marked.count;
    }
  }
}

// `next`: the next number of a value in the run.
[[gnu::always_inline]] inline void RecordedOps::write_operands(LazyRun& run, const LazyOp& op,
                                                               std::uint32_t& next) {
  run.words.push_back(reinterpret_cast<std::uintptr_t>(&op.graph.data()));
  std::uint64_t word = 0;
  for (std::uint32_t k = 0; k < op.num_operands; ++k) {
    const std::uint32_t id = operands_[op.first_operand + k];
    LazyValue& value = values_[id];
    if (value.numbered != sweep_) {
      if (value.tensor.version() != value.version) {
        throw Error(ErrorKind::invalid_argument,
                    detail::str("[lazy] expected operands as they were when they were used, got ",
                                value.tensor.type(),
                                " that was written to since: evaluate its readers before the write"));
      }
      value.numbered = sweep_;
      value.number = next++;
      run.input_values.push_back(id);
      run.inputs.push_back(value.tensor);
    }
    word = k % 2 == 0 ? value.number : word | std::uint64_t{value.number} << 32;
    if (k % 2 == 1 || k + 1 == op.num_operands) run.words.push_back(word);
  }
}

[[gnu::always_inline]] inline void RecordedOps::write_results(LazyRun& run, const LazyOp& op,
                                                              std::uint32_t& next) {
  run.first_numbers.push_back(next);
  for (std::uint32_t slot = 0; slot < op.num_values; ++slot) {
    LazyValue& value = values_[op.first_value + slot];
    const std::uint32_t number = next++;
    if (value.tensor.pending() == nullptr) continue;  // has elements already: a leaf
    value.numbered = sweep_;
    value.number = number;
    if (value.wanted == sweep_ || value.is_referred()) {
      run.output_values.push_back(op.first_value + slot);
      run.results.push_back(value.tensor);
    }
  }
}

// See Note [One lookup].
void RecordedOps::plan(LazyRun& run, Marked marked, const LazyRunner& runner) {
  list_needed(run, marked);
  std::uint32_t next = 0;
  for (std::size_t i = run.order.size(); i-- > 0;) {
    const LazyOp& op = ops_[run.order[i]];
    write_operands(run, op, next);
    write_results(run, op, next);
  }
  run.numbers = next;
  std::vector<std::uint64_t>& words = run.words;
  const std::size_t ends = words.size();
  for (const std::uint32_t id : run.output_values) words.push_back(values_[id].number);
  words.push_back(ends);
  words.push_back(runner.executor->id());
  words.push_back(runner.placement.device);
  words.push_back(runner.placement.stream);
  for (const Tensor& input : run.inputs) run.pointers.push_back(&input);
}

// A result that an operation of the run recomputes although it has elements has no number of its own, and its
// slot is not read.
StandaloneOps RecordedOps::copy_ops(const LazyRun& run) const {
  StandaloneOps copy;
  copy.numbers = run.numbers;
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    copy.inputs.emplace_back(values_[run.input_values[i]].number, run.inputs[i]);
  for (std::size_t i = run.order.size(); i-- > 0;) {
    const LazyOp& op = ops_[run.order[i]];
    StandaloneOps::Step step{op.graph, {}, run.first_numbers[run.order.size() - 1 - i]};
    for (std::uint32_t k = 0; k < op.num_operands; ++k)
      step.operands.push_back(values_[operands_[op.first_operand + k]].number);
    copy.steps.push_back(std::move(step));
  }
  for (const std::uint32_t id : run.output_values) copy.outputs.push_back(values_[id].number);
  return copy;
}

// --- forgetting

void RecordedOps::set_limit() {
  limit_ = std::max(ops_.size() + min_limit, std::min(2 * ops_.size(), max_pending));
}

// Returns the number of live operations.
std::size_t RecordedOps::mark_live() {
  ++sweep_;
  is_due_ = false;
  std::size_t live = 0;
  for (std::size_t i = ops_.size(); i-- > 0;) {
    LazyOp& op = ops_[i];
    bool needed = false;
    for (std::uint32_t slot = 0; slot < op.num_values && !needed; ++slot) {
      const LazyValue& value = values_[op.first_value + slot];
      needed = value.waits() && (value.numbered == sweep_ || value.is_referred());
    }
    if (!needed) continue;
    op.marked = sweep_;
    ++live;
    for (std::uint32_t k = 0; k < op.num_operands; ++k)
      values_[operands_[op.first_operand + k]].numbered = sweep_;
  }
  return live;
}

// Removed values refer to no value that stays.
void RecordedOps::move_live_values(std::vector<LazyValue>& to) {
  for (LazyValue& value : values_) {
    const bool pending = value.waits();
    const bool of_live = value.op != no_index && ops_[value.op].marked == sweep_;
    if (!of_live && value.numbered != sweep_) continue;
    value.number = static_cast<std::uint32_t>(to.size());
    if (pending) {
      value.result->set_number(value.number);
    } else if (!of_live) {
      value.op = no_index;
      value.result = nullptr;
    }
    to.push_back(std::move(value));
  }
}

void RecordedOps::move_live_ops(std::vector<LazyOp>& to, std::vector<std::uint32_t>& operands,
                                std::vector<LazyValue>& values) {
  for (LazyOp& op : ops_) {
    if (op.marked != sweep_) continue;
    const auto number = static_cast<std::uint32_t>(to.size());
    const auto first_operand = static_cast<std::uint32_t>(operands.size());
    for (std::uint32_t k = 0; k < op.num_operands; ++k)
      operands.push_back(values_[operands_[op.first_operand + k]].number);
    const std::uint32_t first_value = values_[op.first_value].number;
    for (std::uint32_t slot = 0; slot < op.num_values; ++slot) values[first_value + slot].op = number;
    to.push_back({op.graph, first_operand, first_value, op.num_operands, op.num_values, 0});
  }
}

void RecordedOps::compact(LazyDropped& dropped) {
  const std::size_t live = mark_live();
  if (live == ops_.size()) {
    byte_limit_ = std::max(byte_limit_, 2 * fresh_bytes_);
    return;
  }
  std::vector<LazyValue> values = std::exchange(spare_values_, {});
  std::vector<LazyOp> ops = std::exchange(spare_ops_, {});
  std::vector<std::uint32_t> operands = std::exchange(spare_operands_, {});
  if (live != 0) {
    values.reserve(values_.size());
    ops.reserve(ops_.size());
    operands.reserve(operands_.size());
    move_live_values(values);
    move_live_ops(ops, operands, values);
  }
  // A leaf without readers is no longer watched, since another trace may read it: watching it again costs
  // little.
  values_.swap(values);
  ops_.swap(ops);
  operands_.swap(operands);
  operands.clear();
  spare_operands_ = std::move(operands);
  // Leaves are found again by the operations that come.
  for (const LazyValue& value : values_)
    if (value.tensor.pending() == nullptr) value.tensor.watch();
  const std::size_t bytes = leaves_.list(values_);
  byte_limit_ = std::max(min_bytes, bytes);
  fresh_bytes_ = 0;
  dropped.values = std::move(values);
  dropped.ops = std::move(ops);
}

void RecordedOps::end(LazyDropped& dropped) noexcept {
  ++sweep_;  // a running evaluation must not learn a hot trace from the rest
  values_.swap(dropped.values);
  ops_.swap(dropped.ops);
  operands_.clear();
  leaves_.clear();
}

void RecordedOps::reuse(LazyDropped&& dropped) {
  constexpr std::size_t max_spare = std::size_t{1} << 14;
  if (dropped.values.capacity() <= max_spare) spare_values_ = std::move(dropped.values);
  if (dropped.ops.capacity() <= max_spare) spare_ops_ = std::move(dropped.ops);
}

}  // namespace tidu::frontend_detail
