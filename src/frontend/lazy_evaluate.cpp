// lazy_evaluate.cpp - evaluation: from lazy tensors to a program, by one lookup, and from its results to
// tensors.
#include <algorithm>
#include <exception>

#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "frontend/lazy_program.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/optimizer/cache.hpp"

namespace tidu::frontend_detail {
namespace {

// Evaluations of this thread, one inside another, and as many as may be: a value that needs itself has no
// end.
thread_local int evaluations_here = 0;
constexpr int max_evaluations = 32;

// Operations of a program's custom kernels are not recorded in the trace of the program: a scope that a
// kernel opens has its own trace, so that its end evaluates nothing of the running program.
class EagerHere {
 public:
  EagerHere() : context_(context()) {
    if (evaluations_here == max_evaluations) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("[lazy] expected a value that does not need itself, got one whose evaluation "
                              "reads it again, ",
                              max_evaluations, " times over"));
    }
    ++evaluations_here;
    lazy_ = std::exchange(context_.lazy, 0);
    hot_on_ = std::exchange(context_.hot_on, false);
    trace_ = std::exchange(context_.trace, nullptr);
    hot_ = std::exchange(context_.hot, nullptr);
    context_.update();
  }
  EagerHere(const EagerHere&) = delete;
  EagerHere& operator=(const EagerHere&) = delete;
  ~EagerHere() {
    --evaluations_here;
    if (context_.trace != nullptr) context_.retire(std::move(context_.trace));
    context_.lazy = lazy_;
    context_.hot_on = hot_on_;
    context_.trace = std::move(trace_);
    context_.hot = std::move(hot_);
    context_.update();
  }

 private:
  Context& context_;
  int lazy_ = 0;
  bool hot_on_ = false;
  std::shared_ptr<LazyTrace> trace_;
  std::unique_ptr<HotDetector> hot_;
};

// Runs that many pending operations, with an event in the thread's profile.
template <class Body>
void profiled(std::size_t operations, const Body& body) {
  eager::Profile* const profile = context().recorder.options().profile;
  if (profile == nullptr) [[likely]]
    return body();
  eager::ProfileEvent event;
  event.begin = profile->now();
  body();
  event.end = profile->now();
  try {
    event.phase = eager::ProfilePhase::execute;
    event.name = detail::str("lazy program of ", operations, " operations");
    profile->add(std::move(event));
  } catch (const std::bad_alloc&) {  // the operations that ran are complete
  }
}

}  // namespace

bool evaluating() { return evaluations_here != 0; }

// The needed operations, the last one first. `count` of them are marked so far, none after `last`.
void LazyTrace::sweep(Run& run, std::uint32_t last, std::size_t count) {
  for (std::uint32_t i = last; count != 0; --i) {
    const Op& op = ops_[i];
    if (op.marked != sweep_) continue;
    --count;
    run.order.push_back(i);
    for (std::uint32_t k = 0; k < op.num_operands; ++k) {
      const Value& value = values_[operands_[op.first_operand + k]];
      if (value.op == no_index || ops_[value.op].marked == sweep_ || !waits(value)) continue;
      ops_[value.op].marked = sweep_;
      ++count;
    }
  }
}

// See Note [One lookup].
void LazyTrace::write_words(Run& run) {
  std::uint32_t next = 0;
  std::vector<std::uint64_t>& words = run.words;
  for (std::size_t i = run.order.size(); i-- > 0;) {
    const Op& op = ops_[run.order[i]];
    words.push_back(reinterpret_cast<std::uintptr_t>(&op.graph.data()));
    std::uint64_t word = 0;
    for (std::uint32_t k = 0; k < op.num_operands; ++k) {
      const std::uint32_t id = operands_[op.first_operand + k];
      Value& value = values_[id];
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
      if (k % 2 == 1 || k + 1 == op.num_operands) words.push_back(word);
    }
    run.first_numbers.push_back(next);
    for (std::uint32_t slot = 0; slot < op.num_values; ++slot) {
      Value& value = values_[op.first_value + slot];
      const std::uint32_t number = next++;
      if (value.tensor.pending() == nullptr) continue;  // has elements already: a leaf
      value.numbered = sweep_;
      value.number = number;
      if (value.wanted == sweep_ || referred(value)) {
        run.output_values.push_back(op.first_value + slot);
        run.promised.push_back(value.tensor);
      }
    }
  }
  run.numbers = next;
  const std::size_t ends = words.size();
  for (const std::uint32_t id : run.output_values) words.push_back(values_[id].number);
  words.push_back(ends);
  words.push_back(runner_.executor->id());
  words.push_back(runner_.placement.device);
  words.push_back(runner_.placement.stream);
  for (const Tensor& input : run.inputs) run.pointers.push_back(&input);
}

// The operations of a run, one after another, for those that are not worth a program.
struct LazyTrace::Apart {
  struct Step {
    Graph graph;
    std::vector<std::uint32_t> operands;
    std::uint32_t first_result;
  };
  std::vector<Step> steps;
  std::vector<std::pair<std::uint32_t, Tensor>> inputs;
  std::vector<std::uint32_t> outputs;
  std::uint32_t numbers;

  void run(const LazyRunner& runner, std::vector<Tensor>& made) const {
    std::vector<Tensor> values(numbers);
    for (const auto& [number, tensor] : inputs) values[number] = tensor;
    for (const Step& step : steps) {
      std::vector<const Tensor*> operands;
      for (const std::uint32_t number : step.operands) operands.push_back(&values[number]);
      const std::span<Tensor> results(values.data() + step.first_result, step.graph.outputs().size());
      if (runner.cpu != nullptr) {
        std::vector<Tensor> fresh(results.size());
        runner.cpu->compile(step.graph).run_into(operands, fresh);
        std::move(fresh.begin(), fresh.end(), results.begin());
      } else {
        const eager::ExecutorSlot slot;
        eager::Operands<Tensor> fresh =
            runner.executor->execute_forward({step.graph, slot, runner.placement}, operands).value();
        for (std::size_t i = 0; i < results.size(); ++i) results[i] = own(std::move(fresh[i]));
      }
    }
    for (const std::uint32_t number : outputs) made.push_back(values[number]);
  }
};

// A result that an operation of the run recomputes although it has elements has no number of its own, and its
// slot is not read.
LazyTrace::Apart LazyTrace::take_apart(const Run& run) const {
  Apart apart;
  apart.numbers = run.numbers;
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    apart.inputs.emplace_back(values_[run.input_values[i]].number, run.inputs[i]);
  for (std::size_t i = run.order.size(); i-- > 0;) {
    const Op& op = ops_[run.order[i]];
    Apart::Step step{op.graph, {}, run.first_numbers[run.order.size() - 1 - i]};
    for (std::uint32_t k = 0; k < op.num_operands; ++k)
      step.operands.push_back(values_[operands_[op.first_operand + k]].number);
    apart.steps.push_back(std::move(step));
  }
  for (const std::uint32_t id : run.output_values) apart.outputs.push_back(values_[id].number);
  return apart;
}

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
std::shared_ptr<const LazyTrace::Program> LazyTrace::find_program(const Run& run, const Key128& address,
                                                                  const LazyRunner& runner, bool greedy,
                                                                  Lock& lock) {
  const CacheRequest request{address, run.words, nullptr};
  if (auto known = compile_cache().find<Program>(request); known != nullptr) return known;
  const Apart apart = take_apart(run);
  lock.unlock();
  return compile_cache().get<Program>(request, [&] {
    const EagerHere guard;
    GraphBuilder::Options options;
    options.record_where = false;
    GraphBuilder builder("lazy", standard_primitives(), options);
    std::vector<tidu::Value> numbers(apart.numbers);
    for (std::size_t k = 0; k < apart.inputs.size(); ++k) {
      const auto& [number, tensor] = apart.inputs[k];
      numbers[number] = builder.input(detail::str('x', k), tensor.type());
    }
    auto made = std::make_shared<Program>();
    for (const Apart::Step& step : apart.steps) {
      std::vector<tidu::Value> operands;
      for (const std::uint32_t number : step.operands) operands.push_back(numbers[number]);
      const std::vector<tidu::Value> results = inline_graph(builder, step.graph, operands);
      for (std::size_t slot = 0; slot < step.graph.outputs().size(); ++slot)
        numbers[step.first_result + slot] = results[step.graph.outputs()[slot]];
      made->parts.push_back(step.graph);
    }
    std::vector<tidu::Value> outputs;
    for (const std::uint32_t number : apart.outputs) outputs.push_back(numbers[number]);
    made->graph = prune(builder.build(outputs));
    if (runner.cpu != nullptr) made->compile(*runner.cpu);
    if (greedy && runner.cpu == &cpu()) made->deferral = Deferral::make(made->graph);
    const std::size_t bytes = 4096 + 16 * run.words.size() + made->kept_bytes();
    return CacheMade<Program>{std::move(made), bytes};
  });
}

// The lock is not held, here and in the functions below.
void LazyTrace::run_program(const Program& program, const LazyRunner& runner, Run& run) {
  const EagerHere guard;
  profiled(program.graph.num_operations(), [&] { program.run(runner, run.pointers, run.made); });
}

void LazyTrace::run_deferring(const Program& program, Run& run) {
  const Deferral& deferral = *program.deferral;
  const EagerHere guard;
  run.made.resize(deferral.graph.outputs().size());
  profiled(deferral.graph.num_operations(), [&] { deferral.executable.run_into(run.pointers, run.made); });
}

Tensor DeferredResult::make() const {
  const Deferral::Result& result = program->deferral->results[which];
  const EagerHere guard;
  Tensor made;
  std::vector<const Tensor*> pointers;
  for (const Tensor& operand : operands) pointers.push_back(&operand);
  profiled(result.graph.num_operations(), [&] { result.executable.run_into(pointers, std::span(&made, 1)); });
  return made;
}

// With deferred results there are further arrays after the results.
void LazyTrace::keep_results(Run& run) {
  for (std::size_t i = 0; i < run.promised.size(); ++i) keep_result(run.promised[i], std::move(run.made[i]));
}

void LazyTrace::keep_result(const Tensor& promised, Tensor&& made) {
  auto* const promise = static_cast<LazyResult*>(promised.pending());
  if (promise == nullptr) return;  // another thread was there before
  promise->tensor_ = std::move(made);
  if (auto* const resident = promise->tensor_.resident(); resident != nullptr) {
    promise->resident.store(resident, std::memory_order_release);
  } else {
    promise->device.store(0, std::memory_order_relaxed);  // whatever its executor says of itself
    promise->made.store(const_cast<std::byte*>(promise->tensor_.bytes()), std::memory_order_release);
  }
  // Operations that wait may read it.
  if ((promise->version.load(std::memory_order_relaxed) & LazyResult::watched) == 0) promised.watch();
  if (promise->value_ != no_index) values_[promise->value_].version = promised.version();
}

// Released objects may be the last references, and an owner's deleter is arbitrary code: destroy them without
// the lock.
void LazyTrace::put_away(std::unique_ptr<Run> run, std::vector<Value>& dropped, std::vector<Op>& dropped_ops,
                         Lock& lock) {
  lock.unlock();
  run->clear();
  dropped.clear();
  dropped_ops.clear();
  lock.lock();
  spare_ = std::move(run);
  constexpr std::size_t max_spare = std::size_t{1} << 14;
  if (dropped.capacity() <= max_spare) spare_values_ = std::move(dropped);
  if (dropped_ops.capacity() <= max_spare) spare_ops_ = std::move(dropped_ops);
}

namespace {

bool has_elements(const LazyResult& target) {
  return target.made.load(std::memory_order_acquire) != nullptr ||
         target.resident.load(std::memory_order_acquire) != nullptr;
}

}  // namespace

// Marks the targets, or all that is referred to as well, and the operations that make them. Returns how many
// operations those are; `last`: the last of them.
std::size_t LazyTrace::mark_targets(std::span<LazyResult* const> targets, bool all, std::uint32_t& last) {
  ++sweep_;
  std::size_t count = 0;
  const auto want = [&](Value& value) {
    value.wanted = sweep_;
    Op& op = ops_[value.op];
    last = std::max(last, value.op);
    if (op.marked == sweep_) return;
    op.marked = sweep_;
    ++count;
  };
  for (LazyResult* const target : targets)
    if (!has_elements(*target) && target->deferred_ == nullptr) want(values_[target->value_]);
  for (std::size_t i = 0; all && i < values_.size(); ++i)
    if (waits(values_[i]) && referred(values_[i])) want(values_[i]);
  return count;
}

void LazyTrace::run_targets(std::span<LazyResult* const> targets, bool all) {
  std::vector<Value> dropped;
  std::vector<Op> dropped_ops;
  std::unique_ptr<Run> run;
  std::unique_ptr<Pattern> gone;
  std::unique_lock lock(mutex_);
  wait_for_lent(lock);
  for (LazyResult* const target : targets) {
    if (has_elements(*target) || target->value_ != no_index || target->deferred_ != nullptr) continue;
    throw Error(
        ErrorKind::invalid_argument,
        "[lazy] expected a value of a thread that runs, got a lazy tensor that could not be evaluated before "
        "its thread ended");
  }
  if (const Pattern::Known* const known = all ? known_end() : nullptr; known != nullptr)
    return run_known(*known, lock);
  leave(dropped);
  std::uint32_t last = 0;
  const std::size_t count = mark_targets(targets, all, last);
  if (count == 0) {
    if (all) compact(dropped, dropped_ops);
    lock.unlock();
    return;
  }
  run = spare_ != nullptr ? std::move(spare_) : std::make_unique<Run>();
  run->clear();
  const std::uint32_t sweep_here = sweep_;
  const bool greedy = greedy_;
  std::shared_ptr<const Program> program;
  bool begun = false;
  try {
    sweep(*run, last, count);
    write_words(*run);
    running_.begin(*run, runner_.cpu == &cpu());
    begun = true;
    const Key128 address = address_of(run->words);
    const LazyRunner runner = runner_;
    if (greedy && seen_.is_new(address)) {
      const Apart apart = take_apart(*run);
      lock.unlock();
      const EagerHere guard;
      profiled(apart.steps.size(), [&] { apart.run(runner, run->made); });
    } else {
      program = find_program(*run, address, runner, greedy, lock);
      if (lock.owns_lock()) lock.unlock();
      run_program(*program, runner, *run);
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    if (begun) running_.end(*run);
    ++counters_.failures;
    throw;
  }
  lock.lock();
  running_.end(*run);
  keep_results(*run);
  ++counters_.evaluations;
  counters_.evaluated += run->order.size();
  if (greedy && program != nullptr) hot_compiled_ += run->order.size();
  if (all) {
    // The trace was not used in the meantime: the run had all of its operations.
    if (greedy && program != nullptr && sweep_ == sweep_here) gone = learn(*run, std::move(program));
    compact(dropped, dropped_ops);
  } else {
    due_ = due_ || ops_.size() <= 4 * run->order.size() + 64;
  }
  put_away(std::move(run), dropped, dropped_ops, lock);
}

void LazyTrace::evaluate(std::span<const Tensor> targets) {
  std::vector<LazyResult*> mine;
  for (const Tensor& target : targets) {
    auto* const pending = target.pending();
    if (pending == nullptr || pending->maker != this) continue;
    if (!make_deferred(*static_cast<LazyResult*>(pending))) mine.push_back(static_cast<LazyResult*>(pending));
  }
  if (mine.empty()) return;
  run_targets(mine, false);
  for (LazyResult* const promise : mine) make_deferred(*promise);  // by a run on another thread
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
      for (const Value& value : values_)
        if (waits(value) && referred(value)) waiting.push_back(value.tensor);
    }
    if (waiting.size() < 2) throw;
    std::exception_ptr first;
    for (const Tensor& tensor : waiting) {
      try {
        evaluate(std::span(&tensor, 1));
      } catch (const Error&) {
        if (first == nullptr) first = std::current_exception();
      }
    }
    if (first != nullptr) std::rethrow_exception(first);
  }
}

}  // namespace tidu::frontend_detail
