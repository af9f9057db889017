// lazy_program.cpp - makes and runs programs of traces.
#include "frontend/lazy_program.hpp"

#include <algorithm>
#include <iterator>

#include "frontend/context.hpp"
#include "frontend/hot.hpp"
#include "frontend/lazy.hpp"
#include "tidu/eager/profile.hpp"
#include "tidu/graph/builder.hpp"

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

// A tensor whose memory nothing else can write to.
Tensor own(Tensor&& made) {
  return made.exclusive() || made.resident() != nullptr ? std::move(made) : made.clone();
}

}  // namespace

bool evaluating() { return evaluations_here != 0; }

std::vector<ReusableInputs> safely_reused(const Executable& executable) {
  std::vector<ReusableInputs> reused;
  std::ranges::copy_if(executable.reusable_inputs(), std::back_inserter(reused), &ReusableInputs::safe);
  return reused;
}

void StandaloneOps::run(const LazyRunner& runner, std::vector<Tensor>& made) const {
  const EagerHere guard;
  profiled(steps.size(), [&] {
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
  });
}

Graph StandaloneOps::build_graph(std::vector<Graph>& parts) const {
  GraphBuilder::Options options;
  options.record_where = false;
  GraphBuilder builder("lazy", standard_primitives(), options);
  std::vector<tidu::Value> values(numbers);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const auto& [number, tensor] = inputs[k];
    values[number] = builder.input(detail::str('x', k), tensor.type());
  }
  for (const Step& step : steps) {
    std::vector<tidu::Value> operands;
    for (const std::uint32_t number : step.operands) operands.push_back(values[number]);
    const std::vector<tidu::Value> results = inline_graph(builder, step.graph, operands);
    for (std::size_t slot = 0; slot < step.graph.outputs().size(); ++slot)
      values[step.first_result + slot] = results[step.graph.outputs()[slot]];
    parts.push_back(step.graph);
  }
  std::vector<tidu::Value> made;
  for (const std::uint32_t number : outputs) made.push_back(values[number]);
  return prune(builder.build(made));
}

std::shared_ptr<LazyProgram> LazyProgram::make(const StandaloneOps& ops, const LazyRunner& runner,
                                               bool defers) {
  const EagerHere guard;
  auto made = std::make_shared<LazyProgram>();
  made->graph = ops.build_graph(made->parts);
  if (runner.cpu != nullptr) {
    made->executable.emplace(runner.cpu->compile(made->graph));
    made->reused = safely_reused(*made->executable);
  }
  if (defers && runner.cpu == &cpu()) made->deferral = Deferral::make(made->graph);
  return made;
}

void LazyProgram::run(const LazyRunner& runner, std::span<const Tensor* const> inputs,
                      std::vector<Tensor>& made) const {
  const EagerHere guard;
  profiled(graph.num_operations(), [&] {
    made.resize(graph.outputs().size());
    if (executable) return executable->run_into(inputs, made);
    eager::Operands<Tensor> results =
        runner.executor->execute_forward({graph, slot, runner.placement}, inputs).value();
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = own(std::move(results[i]));
  });
}

void LazyProgram::run_deferring(std::span<const Tensor* const> inputs, std::vector<Tensor>& made) const {
  const EagerHere guard;
  made.resize(deferral->graph.outputs().size());
  profiled(deferral->graph.num_operations(), [&] { deferral->executable.run_into(inputs, made); });
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

}  // namespace tidu::frontend_detail
