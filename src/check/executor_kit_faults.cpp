// executor_kit_faults.cpp - errors and the calls after them, threads, and slots.
#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "check/executor_kit.hpp"
#include "tidu/primitives/elementwise.hpp"

namespace tidu::check {
namespace {

using detail::str;
using eager::ExecutorSlot;

void judge_error(Kit& kit, std::string_view hook, const std::string& what, const Outcome& outcome) {
  kit.log.tested(ExecutorCheck::errors);
  if (outcome.values) {
    kit.log.finding(ExecutorCheck::errors, hook, what + ": expected an error, got results");
  } else if (outcome.no_exception) {
    kit.log.finding(ExecutorCheck::errors, hook,
                    what + ": expected a Result with an error, but the hook " + outcome.failure);
  } else if (outcome.failure.empty() || outcome.failure == "threw ") {
    kit.log.finding(ExecutorCheck::errors, hook,
                    what + ": expected a message that says what is wrong, got none");
  } else if (outcome.thrown) {
    kit.log.note(str(hook, " throws its errors; as a Result they cost less"));
  }
}

Tensor of_other_shape(Kit& kit, const Tensor& tensor) {
  Shape shape = tensor.shape();
  if (shape.empty()) {
    shape = {2};
  } else {
    shape.back() += 1;
  }
  return random_input(kit.random, Type(tensor.dtype(), shape), true);
}

void check_errors_of(Kit& kit, Hook hook, const std::vector<Trial>& trials) {
  kit.announce(ExecutorCheck::errors, to_string(hook));
  std::size_t left = 12;
  for (const Trial& trial : trials) {
    if (trial.inputs.empty() || trial.graph.graph().num_operations() == 0) continue;
    if (left-- == 0) return;
    const AnyOperands right = kit.operands(trial.inputs);
    const std::string graph = show(trial.graph.graph(), {});
    const auto refused = [&](const std::string& how, const AnyOperands& inputs) {
      judge_error(kit, to_string(hook), trial.what + ", " + how + graph, kit.call(hook, trial, inputs));
      kit.judge(ExecutorCheck::recovery, to_string(hook), trial, kit.call(hook, trial, right));
    };
    AnyOperands more = right;
    more.push_back(right[0]);
    refused("one input too many", more);
    refused("one input too few", AnyOperands(right.begin(), right.end() - 1));
    if (!kit.options.typed) continue;
    for (std::size_t i = 0; i < trial.inputs.size(); ++i) {
      const Tensor& tensor = trial.inputs[i];
      AnyOperands wrong = right;
      const Tensor longer = of_other_shape(kit, tensor);
      wrong[i] = kit.executor.from_tensor(longer);
      refused(str(longer.type(), " for input ", i), wrong);
      for (const DType dtype : kit.options.dtypes) {
        if (dtype == tensor.dtype()) continue;
        const Tensor other = random_input(kit.random, tensor.type().with_dtype(dtype), true);
        wrong[i] = kit.executor.from_tensor(other);
        refused(str(other.type(), " for input ", i), wrong);
        break;
      }
    }
  }
}

void check_errors_of_addition(Kit& kit) {
  kit.announce(ExecutorCheck::errors, "add_operands");
  for (const DType dtype : kit.options.dtypes) {
    if (!kit.options.typed || !kit.usable(prim::add, dtype)) continue;
    const Type type(dtype, {3});
    const eager::RecordedGraph sum = Kit::sum_of(type);
    const Trial trial = kit.trial(str("a + b of ", type), sum.graph(), true);
    const AnyOperands right = kit.operands(trial.inputs);
    const AnyOperand longer = kit.executor.from_tensor(of_other_shape(kit, trial.inputs[0]));
    judge_error(kit, "add_operands", trial.what + " with b of 4 elements",
                Kit::add(kit.executor, {type, &sum}, right[0], longer));
    judge_error(kit, "add_operands", trial.what + " with a of 4 elements",
                Kit::add(kit.executor, {type, &sum}, longer, right[1]));
    kit.judge(ExecutorCheck::recovery, "add_operands", trial,
              Kit::add(kit.executor, {type, &sum}, right[0], right[1]));
  }
}

struct Shared {
  Hook hook;
  const Trial* trial;
  AnyOperands inputs;
  Tensors expected;  // the results of one thread
};

}  // namespace

void check_errors(Kit& kit) {
  check_errors_of(kit, Hook::execute_forward, kit.forward);
  check_errors_of(kit, Hook::run_transposed_linear, kit.transposed);
  check_errors_of_addition(kit);
  if (!kit.options.typed) kit.log.note("inputs of a wrong type: not tested, for operands have none");
}

void check_threads(Kit& kit) {
  if (kit.options.threads < 2) {
    kit.log.note("threads: not tested, for options.threads is less than 2");
    return;
  }
  std::vector<Shared> shared;
  const auto share = [&](Hook hook, const std::vector<Trial>& trials) {
    for (std::size_t i = 0; i < std::min<std::size_t>(trials.size(), 24); ++i) {
      const Trial& trial = trials[trials.size() - 1 - i];
      AnyOperands inputs = kit.operands(trial.inputs);
      const Outcome outcome = kit.call(hook, trial, inputs);
      auto expected = kit.tensors(ExecutorCheck::threads, to_string(hook), trial, outcome);
      if (expected) shared.push_back({hook, &trial, std::move(inputs), std::move(*expected)});
    }
  };
  kit.announce(ExecutorCheck::threads, "both hooks");
  share(Hook::execute_forward, kit.forward);
  share(Hook::run_transposed_linear, kit.transposed);

  // Unused slots, so that the threads also race to create their entries.
  std::vector<std::unique_ptr<ExecutorSlot>> slots;
  for (std::size_t i = 0; i < shared.size(); ++i) slots.push_back(std::make_unique<ExecutorSlot>());
  std::atomic<int> waiting{kit.options.threads};
  const auto work = [&](std::size_t thread) {
    --waiting;
    while (waiting.load() > 0) std::this_thread::yield();
    for (std::size_t round = 0; round < 4; ++round) {
      for (std::size_t k = 0; k < shared.size(); ++k) {
        const std::size_t at = (k + thread * (round / 2)) % shared.size();
        const Shared& one = shared[at];
        const std::string_view hook = to_string(one.hook);
        kit.log.tested(ExecutorCheck::threads);
        const Outcome outcome =
            Kit::call(kit.executor, one.hook, {one.trial->graph.graph(), *slots[at]}, one.inputs);
        const auto results = kit.tensors(ExecutorCheck::threads, hook, *one.trial, outcome);
        for (std::size_t i = 0; results && i < results->size(); ++i) {
          if (same_bits(one.expected[i], (*results)[i])) continue;
          const ShownPair shown = show_pair(one.expected[i], (*results)[i]);
          kit.log.finding(ExecutorCheck::threads, hook,
                          str(one.trial->what, ": expected ", shown.expected, " for result ", i,
                              " as on one thread, got ", shown.got, " with ", kit.options.threads, " threads",
                              show(one.trial->graph.graph(), one.trial->inputs)));
        }
      }
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(kit.options.threads));
  for (int i = 0; i < kit.options.threads; ++i) {
    try {
      threads.emplace_back(work, static_cast<std::size_t>(i));
    } catch (const std::system_error& error) {  // it goes with those that there are
      kit.log.note(str("several threads: ", i, " instead of ", kit.options.threads, ", for ", error.what()));
      waiting -= kit.options.threads - i;
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

void check_foreign_slots(Kit& kit) {
  struct Stranger : eager::ExecutorIdentity {
  } before, after;
  const auto test = [&](Hook hook, const std::vector<Trial>& trials) {
    kit.announce(ExecutorCheck::slots, to_string(hook));
    const std::size_t count = std::min<std::size_t>(trials.size(), 40);
    std::vector<std::unique_ptr<ExecutorSlot>> slots;
    for (std::size_t i = 0; i < count; ++i) {
      slots.push_back(std::make_unique<ExecutorSlot>());
      slots[i]->get<std::string>(before.id(), [] { return std::string("another executor's"); });
    }
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < count; ++i) {
        // Every graph at one address: an executor that identifies graphs by their address confuses them.
        const Graph graph = trials[i].graph.graph();
        kit.judge(ExecutorCheck::slots, to_string(hook), trials[i],
                  Kit::call(kit.executor, hook, {graph, *slots[i]}, kit.operands(trials[i].inputs)));
      }
      for (const auto& slot : slots) slot->get<int>(after.id(), [] { return 7; });
    }
    for (const auto& slot : slots) {
      if (slot->get<std::string>(before.id(), [] { return std::string(); }) != "another executor's")
        kit.log.finding(ExecutorCheck::slots, to_string(hook),
                        "what another executor kept in a slot has changed");
    }
  };
  test(Hook::execute_forward, kit.forward);
  test(Hook::run_transposed_linear, kit.transposed);
}

}  // namespace tidu::check
