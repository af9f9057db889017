// lazy_follow.cpp - replays a pattern, position by position, learns one, and leaves it. See Note [Pattern
// replay] in lazy.hpp. All functions hold the trace's lock, except while a program runs.
#include <algorithm>

#include "eager/template.hpp"
#include "frontend/hot.hpp"
#include "frontend/lazy_follow.hpp"
#include "frontend/lazy_program.hpp"

namespace tidu::frontend_detail {
namespace {

constexpr std::size_t max_patterns = 8;
constexpr std::size_t max_known = 4;  // of one pattern
constexpr std::size_t max_ops = std::size_t{1} << 12;

}  // namespace

// Which pattern begins like that? The one that came next the last time, or any.
bool LazyTrace::start_following(const Graph& graph) {
  if (!greedy_ || patterns_.empty()) return false;
  const auto begins = [&](const Pattern& pattern) {
    return &pattern.ops[0].graph.data() == &graph.data() && pattern.runner == runner_ &&
           pattern.executor == runner_.executor->id();
  };
  Pattern* found = last_ != nullptr ? last_->next : nullptr;
  if (found == nullptr || !begins(*found)) {
    const auto at =
        std::find_if(patterns_.begin(), patterns_.end(), [&](const auto& one) { return begins(*one); });
    if (at == patterns_.end()) return false;
    found = at->get();
  }
  start(*found);
  return true;
}

void LazyTrace::start(Pattern& pattern) {
  swap(values_, pattern.values);
  values_.make_room(pattern.results.size());
  if (last_ != nullptr) last_->next = &pattern;
  follows_ = &pattern;
  at_ = 0;
  ++followed_;
}

// Replays the next operation, if it is the pattern's. Otherwise leaves of it that were recorded stay.
bool LazyTrace::follow(const Graph& graph, std::span<const Tensor* const> inputs, std::span<Tensor> out) {
  Pattern& pattern = *follows_;
  if (at_ == pattern.ops.size()) return false;
  const Op& op = pattern.ops[at_];
  if (&op.graph.data() != &graph.data() || inputs.size() != op.num_operands) return false;
  for (std::uint32_t k = 0; k < op.num_operands; ++k)
    if (!follow_operand(pattern, pattern.operands[op.first_operand + k], *inputs[k], true, false))
      return false;
  if (values_.size() != op.first_value) return false;
  for (std::uint32_t slot = 0; slot < op.num_values; ++slot) follow_result(op.first_value);
  for (std::uint32_t slot = 0; slot < op.num_values; ++slot)
    out[slot] = values_[op.first_value + slot].tensor;
  ++at_;
  ++counters_.recorded;
  return true;
}

// Records the operations that were replayed so far. If there is none, leaves that were recorded for the first
// one have no reader: they are passed to the caller, who destroys them without the lock.
void LazyTrace::leave(std::vector<Value>& dropped) {
  if (follows_ == nullptr) return;
  if (at_ == 0) {
    values_.swap(dropped);
  } else {
    values_.drop_kept();
  }
  const std::span<const Op> done = recorded();
  const std::size_t num_operands = done.empty() ? 0 : done.back().first_operand + done.back().num_operands;
  const std::span<const std::uint32_t> read(follows_->operands.data(), num_operands);
  std::vector<Op> ops(done.begin(), done.end());
  std::vector<std::uint32_t> operands(read.begin(), read.end());
  fresh_bytes_ = leaves_.list(values_);
  due_ = due_ || fresh_bytes_ > byte_limit_;
  ops_.swap(ops);
  operands_.swap(operands);
  follows_ = nullptr;
  at_ = 0;
}

// The known program for the values that are referred to now, if a pattern has come to its end; else null.
// Every evaluation except the run of a whole pattern leaves the pattern, so here all of its results are
// pending.
const LazyTrace::Pattern::Known* LazyTrace::known_end() {
  if (follows_ == nullptr || at_ != follows_->ops.size()) return nullptr;
  if (follows_->executor != runner_.executor->id()) return nullptr;  // assigned to in the meantime
  for (const std::uint32_t id : follows_->leaves)
    if (values_[id].tensor.version() != values_[id].version) return nullptr;
  const auto fits = [this](const Pattern::Known& known) {
    const Value* value = values_.begin();
    for (const std::uint8_t expected : known.referred) {
      if (value->promise != nullptr && referred(*value) != (expected != 0)) return false;
      ++value;
    }
    return true;
  };
  const auto found = std::find_if(follows_->known.begin(), follows_->known.end(), fits);
  return found != follows_->known.end() ? &*found : nullptr;
}

// Are this trace and, if it is about to be written to, the Array that holds it the only references?
bool LazyTrace::alone_in_pattern(const Tensor& old, const tidu::detail::LazyStorage* promised) {
  // There is no table of leaves, and one may occur several times.
  const std::uint32_t references =
      promised != nullptr ? promised->references.load(std::memory_order_acquire) : 0;
  Value* held = nullptr;
  std::uint32_t times = 0;
  for (const std::uint32_t id : follows_->leaves) {
    if (1 + times == references || id >= values_.size()) break;
    if (!values_[id].tensor.shares_storage_with(old)) continue;
    held = &values_[id];
    ++times;
  }
  if (promised != nullptr) return references == 1 + times;
  if (times == 0) return old.exclusive();
  if (times != 1 || held->tensor.type() != old.type()) return false;
  held->tensor = Tensor();
  const bool alone = old.exclusive();
  held->tensor = old;
  return alone;
}

// Runs it, and begins anew.
void LazyTrace::run_known(const Pattern::Known& known, Lock& lock) {
  std::unique_ptr<Run> run = spare_ != nullptr ? std::move(spare_) : std::make_unique<Run>();
  for (const std::uint32_t id : known.input_values) run->inputs.push_back(values_[id].tensor);
  list_results(known, *run);
  for (const Tensor& input : run->inputs) run->pointers.push_back(&input);
  const std::shared_ptr<const Program> program = known.program;
  const std::size_t num_ops = known.num_ops;
  const LazyRunner runner = runner_;
  const std::uint64_t batch = ++batch_, followed = followed_;
  running_.reserve_one();  // once memory is lent, nothing may throw before the run has begun
  const bool defers = !run->put_off.empty();
  lend(defers ? program->deferral->reused : program->reused,
       (defers ? program->deferral->graph : program->graph).outputs().size(), *run);
  running_.begin(*run, runner_.cpu == &cpu());
  lock.unlock();
  try {
    defers ? run_deferring(*program, *run) : run_program(*program, runner, *run);
  } catch (...) {
    lock.lock();
    take_back(*run);
    running_.end(*run);
    ++counters_.failures;
    lock.unlock();  // objects that the run releases may be the last references
    throw;
  }
  take_operands(*run);
  const auto is_alone = [&] { return batch == batch_ && followed == followed_ && follows_ != nullptr; };
  std::exception_ptr failed;
  lock.lock();
  if (defers && !is_alone()) {  // operations that came in the meantime may read any of it
    lock.unlock();
    try {
      make_put_off(*run);
    } catch (...) {
      failed = std::current_exception();
    }
    lock.lock();
  }
  running_.end(*run);
  std::vector<Value> dropped;
  std::vector<Op> dropped_ops;
  keep_results(*run);
  if (failed == nullptr) keep_put_off(*run);
  ++counters_.evaluations;
  counters_.evaluated += num_ops;
  if (greedy_) hot_compiled_ += num_ops;
  if (!is_alone()) {
    compact(dropped, dropped_ops);  // another thread was here
  } else {
    Pattern& pattern = *follows_;
    const auto take = [&](Value& value) {
      run->dropped.push_back(std::move(value.tensor));
      value.promise = nullptr;
    };
    for (const std::uint32_t id : pattern.leaves) take(values_[id]);
    for (const std::uint32_t id : known.output_values) take(values_[id]);
    values_.keep_all();
    swap(values_, pattern.values);
    last_ = follows_;
    follows_ = nullptr;
    at_ = 0;
  }
  put_away(std::move(run), dropped, dropped_ops, lock);
  if (failed != nullptr) std::rethrow_exception(failed);
}

// Keeps the evaluated operations, which were all of the trace and one run, as a pattern. Returns the replaced
// pattern, to be destroyed without the lock.
std::unique_ptr<LazyTrace::Pattern> LazyTrace::learn(const Run& run, std::shared_ptr<const Program> program) {
  Pattern* const before = std::exchange(last_, nullptr);
  if (ops_.size() > max_ops) return nullptr;
  // Values of an operation that was not replayed to its end come after all of these.
  const std::size_t num_values = ops_.back().first_value + ops_.back().num_values;
  Pattern::Known known;
  known.referred.resize(num_values);
  for (const std::uint32_t id : run.output_values) known.referred[id] = 1;
  for (std::size_t id = 0; id < num_values; ++id)
    if (values_[id].op != no_index && known.referred[id] == 0 && !waits(values_[id])) return nullptr;
  for (const std::uint32_t id : run.input_values)
    if (values_[id].op != no_index) return nullptr;
  known.input_values = run.input_values;
  known.output_values = run.output_values;
  known.num_ops = run.order.size();
  known.program = std::move(program);
  if (known.program->deferral != nullptr) known.use = std::make_shared<DeferralUse>();
  const auto same = [&](const auto& pattern) {
    return pattern->runner == runner_ && pattern->executor == runner_.executor->id() &&
           pattern->operands == operands_ &&
           std::equal(pattern->ops.begin(), pattern->ops.end(), ops_.begin(), ops_.end(),
                      [](const Op& a, const Op& b) {
                        return &a.graph.data() == &b.graph.data() && a.first_value == b.first_value;
                      });
  };
  std::unique_ptr<Pattern> gone;
  const auto found = std::find_if(patterns_.begin(), patterns_.end(), same);
  Pattern* pattern = found != patterns_.end() ? found->get() : nullptr;
  if (pattern == nullptr) {
    auto fresh = std::make_unique<Pattern>();
    fresh->ops = ops_;
    fresh->num_ops = ops_.size();
    fresh->places.resize(ops_.size());
    fresh->recorded.resize(ops_.size());
    fresh->leaf_nodes.resize(num_values);
    fresh->operands = operands_;
    for (std::uint32_t id = 0; id < num_values; ++id) {
      fresh->results.push_back(values_[id].op != no_index ? 1 : 0);
      fresh->types.push_back(values_[id].tensor.type());
      if (values_[id].op == no_index) fresh->leaves.push_back(id);
    }
    fresh->executor = runner_.executor->id();
    fresh->runner = runner_;
    if (patterns_.size() < max_patterns) {
      patterns_.push_back(std::move(fresh));
      pattern = patterns_.back().get();
    } else {
      pattern = patterns_[replaced_++ % max_patterns].get();
      std::swap(*pattern, *fresh);  // who points to it expects another one, which is no harm
      gone = std::move(fresh);
    }
  }
  if (pattern->known.size() < max_known) {
    pattern->known.push_back(std::move(known));
  } else {
    std::swap(pattern->known[pattern->replaced++ % max_known], known);
    gone = gone != nullptr ? std::move(gone) : std::make_unique<Pattern>();
    gone->known.push_back(std::move(known));
  }
  if (before != nullptr) before->next = pattern;
  last_ = pattern;
  return gone;
}

}  // namespace tidu::frontend_detail
