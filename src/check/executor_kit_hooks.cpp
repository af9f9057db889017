// executor_kit_hooks.cpp - each method by itself: its results, the state of its operands afterwards, and the
// lifetime of its results.
#include <algorithm>
#include <array>

#include "check/executor_kit.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::check {
namespace {

using detail::str;
using eager::ExecutorSlot;

struct HookTrials {
  Hook hook;
  const std::vector<Trial>& trials;
};

std::array<HookTrials, 2> both(const Kit& kit) {
  return {HookTrials{Hook::execute_forward, kit.forward},
          HookTrials{Hook::run_transposed_linear, kit.transposed}};
}

// The same call again must give the same bits.
void judge_repetition(Kit& kit, Hook hook, const Trial& trial, const Tensors& first, const Outcome& second,
                      const char* how) {
  kit.log.tested(ExecutorCheck::determinism);
  const auto again = kit.tensors(ExecutorCheck::determinism, to_string(hook), trial, second);
  for (std::size_t i = 0; again && i < first.size(); ++i) {
    if (same_bits(first[i], (*again)[i])) continue;
    const ShownPair shown = show_pair(first[i], (*again)[i]);
    kit.log.finding(ExecutorCheck::determinism, to_string(hook),
                    str(trial.what, ": expected the same bits ", how, " for result ", i, ", got ",
                        shown.expected, " and ", shown.got, show(trial.graph.graph(), trial.inputs)));
    return;
  }
}

void judge_trial(Kit& kit, Hook hook, const Trial& trial) {
  const AnyOperands inputs = kit.operands(trial.inputs);
  const Kit::Snapshot before = kit.snapshot(inputs);
  const Outcome outcome = kit.call(hook, trial, inputs);
  const bool right = kit.judge(ExecutorCheck::results, to_string(hook), trial, outcome);
  kit.judge_ownership(to_string(hook), trial.what, before, inputs);
  const std::optional<Tensors> first =
      right ? kit.tensors(ExecutorCheck::results, to_string(hook), trial, outcome) : std::nullopt;
  if (first) {
    judge_repetition(kit, hook, trial, *first, kit.call(hook, trial, inputs), "of the same inputs");
    const ExecutorSlot fresh;
    judge_repetition(kit, hook, trial, *first,
                     Kit::call(kit.executor, hook, {trial.graph.graph(), fresh}, inputs),
                     "with a slot that is empty");
    std::vector<const AnyOperand*> pointers;
    for (const AnyOperand& input : inputs) pointers.push_back(&input);
    const Kit::Snapshot again = kit.snapshot(inputs);
    kit.judge(ExecutorCheck::results, "run_at", trial,
              Kit::call_in_place(kit.executor, hook, {trial.graph.graph(), trial.graph.slot()}, pointers));
    kit.judge_ownership("run_at", trial.what, again, inputs);
  }
  const Trial other = kit.elsewhere(trial);
  kit.judge(ExecutorCheck::results, to_string(hook), other,
            kit.call(hook, other, kit.operands(other.inputs)));
}

// A graph whose results are all made by arithmetic, so that none of them may share memory with an input.
std::optional<Graph> arithmetic(const Kit& kit, DType dtype) {
  GraphBuilder builder("arithmetic");
  const Value x = builder.input("x", {dtype, {3}}), y = builder.input("y", {dtype, {3}});
  const Graph graph = builder.build({x * y, ops::neg(y)});
  return kit.usable(graph) ? std::optional<Graph>(graph) : std::nullopt;
}

// Results with other references, and their original contents.
struct Held {
  std::string_view hook;
  const Trial* trial;
  AnyValues values;
  Tensors tensors;
};

void judge_held(Kit& kit, const Held& held, const char* when) {
  kit.log.tested(ExecutorCheck::lifetime);
  for (std::size_t i = 0; i < held.tensors.size(); ++i) {
    Tensor now;
    const std::string failure = failure_of([&] { now = kit.executor.to_tensor(held.values[i]); });
    if (failure.empty() && same_bits(held.tensors[i], now)) continue;
    const ShownPair shown =
        failure.empty() ? show_pair(held.tensors[i], now) : ShownPair{show(held.tensors[i]), failure};
    kit.log.finding(ExecutorCheck::lifetime, held.hook,
                    str(held.trial->what, ": expected result ", i, " to stay ", shown.expected, ' ', when,
                        ", got ", shown.got, show(held.trial->graph.graph(), held.trial->inputs)));
    return;
  }
}

void judge_addition(Kit& kit, Type type, const PrimitiveSet& set) {
  constexpr std::string_view hook = "add_operands";
  const eager::RecordedGraph sum = Kit::sum_of(type, set);
  const eager::AddCall call{type, &sum};
  const Trial trial = kit.trial(str("a + b of ", type), sum.graph(), false);
  const auto judge = [&](const char* what, AnyOperand a, const AnyOperand& b,
                         std::span<const AnyOperand> held, const Trial& expected) {
    const Kit::Snapshot before = kit.snapshot(held);
    Outcome outcome = Kit::add(kit.executor, call, std::move(a), b);
    kit.judge(ExecutorCheck::results, hook, expected, outcome);
    kit.judge_ownership(hook, expected.what + what, before, held);
    return outcome;
  };
  // Operands of their own for each call, so that one fault is not taken for another.
  const AnyOperands shared = kit.operands(trial.inputs);
  judge(", a held by the caller too (operand 0)", shared[0], shared[1], shared, trial);
  AnyOperands given = kit.operands(trial.inputs);
  Outcome first = judge(", a given away", std::move(given[0]), given[1], {&given[1], 1}, trial);

  // The sum is an operand like any other, and may be given away in its turn.
  if (first.values && first.values->size() == 1) {
    const AnyOperand b = kit.executor.from_tensor(trial.inputs[1]);
    const Trial second =
        kit.trial(trial.what + ", a being a sum", sum.graph(), {trial.expected[0], trial.inputs[1]}, false);
    const AnyOperands held{(*first.values)[0], b};
    judge(" and held (operand 0)", (*first.values)[0], b, held, second);
  }
  const Trial twice =
      kit.trial(trial.what + ", a and b being one", sum.graph(), {trial.inputs[0], trial.inputs[0]}, false);
  const AnyOperands one = kit.operands({trial.inputs[0]});
  judge("", one[0], one[0], one, twice);
}

void check_writes(Kit& kit, Hook hook, DType dtype) {
  const std::optional<Graph> graph = arithmetic(kit, dtype);
  if (!graph) return;
  const Trial trial = kit.trial(str("arithmetic of ", dtype), *graph, false);
  AnyOperands inputs = kit.operands(trial.inputs);
  Outcome outcome = kit.call(hook, trial, inputs);
  if (!outcome.values) return;
  // They are not read before the write: an executor that computes late would read the written elements.
  for (AnyOperand& input : inputs) kit.executor.write(input);
  kit.judge(ExecutorCheck::lifetime, to_string(hook), trial, outcome);
}

}  // namespace

void check_results(Kit& kit) {
  for (const auto& [hook, trials] : both(kit)) {
    kit.announce(ExecutorCheck::results, to_string(hook));
    for (const Trial& trial : trials) judge_trial(kit, hook, trial);
  }
}

void check_addition(Kit& kit) {
  kit.announce(ExecutorCheck::results, "add_operands");
  for (const DType dtype : kit.options.dtypes) {
    if (!kit.usable(prim::add, dtype)) {
      kit.log.note(str("add_operands of ", dtype, ": left out for want of add"));
      continue;
    }
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{5}, Shape{3, 4}, Shape{0}, Shape{2, 0}, Shape{40, 50}})
      judge_addition(kit, Type(dtype, shape), standard_primitives());
  }
  for (const Graph& graph : kit.options.more_graphs) {
    const Primitive* add = graph.primitives().add();
    for (const ValueId output : graph.outputs()) {
      const Type type = graph.type(output);
      if (add != nullptr && is_inexact(type.dtype()) && kit.usable(*add, type.dtype()))
        judge_addition(kit, type, graph.primitives());
    }
  }
}

void check_aliasing(Kit& kit) {
  for (const auto& [hook, trials] : both(kit)) {
    kit.announce(ExecutorCheck::aliasing, to_string(hook));
    for (const Trial& trial : trials) {
      // The first input of each type stands for all of that type.
      std::vector<std::size_t> stand_in(trial.inputs.size());
      Tensors inputs = trial.inputs;
      bool any = false;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::size_t first = 0;
        while (inputs[first].type() != inputs[i].type()) ++first;
        stand_in[i] = first;
        inputs[i] = inputs[first];
        any = any || first != i;
      }
      if (!any) continue;
      const Trial aliased = kit.trial(trial.what + ", one operand for all inputs of a type",
                                      trial.graph.graph(), inputs, trial.exact);
      const AnyOperands made = kit.operands(inputs);
      // Copies of one operand, as a tape holds them.
      AnyOperands copies;
      for (const std::size_t i : stand_in) copies.push_back(made[i]);
      kit.judge(ExecutorCheck::aliasing, to_string(hook), aliased, kit.call(hook, aliased, copies));
      // One and the same object.
      std::vector<const AnyOperand*> pointers;
      for (const std::size_t i : stand_in) pointers.push_back(&made[i]);
      const Kit::Snapshot before = kit.snapshot(made);
      kit.judge(ExecutorCheck::aliasing, to_string(hook), aliased,
                Kit::call(kit.executor, hook, {aliased.graph.graph(), aliased.graph.slot()}, pointers));
      kit.judge_ownership(to_string(hook), aliased.what, before, made);
    }
  }
}

void check_lifetime(Kit& kit) {
  std::vector<Held> held;
  for (const auto& [hook, trials] : both(kit)) {
    kit.announce(ExecutorCheck::lifetime, to_string(hook));
    for (std::size_t i = 0; i < std::min<std::size_t>(trials.size(), 40); ++i) {
      const Trial& trial = trials[i];
      AnyOperands inputs = kit.operands(trial.inputs);
      Outcome outcome = kit.call(hook, trial, inputs);
      auto results = kit.tensors(ExecutorCheck::lifetime, to_string(hook), trial, outcome);
      if (!results) continue;
      inputs.clear();
      held.push_back({to_string(hook), &trial, std::move(*outcome.values), std::move(*results)});
      judge_held(kit, held.back(), "when the inputs are gone");
      const Trial other = kit.elsewhere(trial);
      const Outcome later = kit.call(hook, other, kit.operands(other.inputs));
      judge_held(kit, held.back(), "when the graph runs again on others");
    }
  }
  kit.announce(ExecutorCheck::lifetime, "add_operands");
  for (const Held& one : held) {
    judge_held(kit, one, "when other graphs have run");
    for (std::size_t i = 0; i < one.tensors.size(); ++i) {
      const Type type = one.tensors[i].type();
      if (!is_inexact(type.dtype()) || !kit.usable(prim::add, type.dtype())) continue;
      const eager::RecordedGraph sum = Kit::sum_of(type);
      const AnyOperand b = kit.executor.from_tensor(random_input(kit.random, type, true));
      const Outcome outcome = Kit::add(kit.executor, {type, &sum}, one.values[i], b);
    }
    judge_held(kit, one, "when a copy of it was given to add_operands");
  }
  if (!kit.executor.can_write()) {
    kit.log.note("writes to inputs after a call, and versions: not tested, for no write was given");
    return;
  }
  for (const DType dtype : kit.options.dtypes) {
    check_writes(kit, Hook::execute_forward, dtype);
    check_writes(kit, Hook::run_transposed_linear, dtype);
  }
}

}  // namespace tidu::check
