// executor_kit.cpp - runs the checks one after another, and writes the report.
#include "check/executor_kit.hpp"

#include <algorithm>

namespace tidu {

std::string_view to_string(ExecutorCheck check) {
  constexpr std::string_view names[] = {"results", "aliasing", "ownership",    "lifetime",
                                        "errors",  "recovery", "determinism",  "threads",
                                        "slots",   "backward", "create_graph", "operands"};
  static_assert(std::size(names) == num_executor_checks);
  return names[static_cast<std::size_t>(check)];
}

bool ExecutorReport::found(ExecutorCheck check) const {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const ExecutorFinding& finding) { return finding.check == check; });
}

bool ExecutorReport::found(ExecutorCheck check, std::string_view hook) const {
  return std::any_of(findings.begin(), findings.end(), [&](const ExecutorFinding& finding) {
    return finding.check == check && finding.hook == hook;
  });
}

std::string to_text(const ExecutorReport& report) {
  std::string text;
  for (const ExecutorFinding& finding : report.findings) {
    text += detail::str(to_string(finding.check), ", ", finding.hook, ": ", finding.message, '\n');
    if (finding.more != 0)
      text += detail::str("  and ", finding.more, " more of ", to_string(finding.check), ", ", finding.hook,
                          '\n');
  }
  if (report.ok) {
    std::string tested;
    for (std::size_t i = 0; i < num_executor_checks; ++i) {
      if (report.tested[i] == 0) continue;
      tested += detail::str(tested.empty() ? " " : ", ", to_string(static_cast<ExecutorCheck>(i)), ' ',
                            report.tested[i]);
    }
    text += tested.empty() ? "nothing was tested\n" : "the executor passes:" + tested + '\n';
  }
  for (const std::string& note : report.notes) text += "note: " + note + '\n';
  return text;
}

namespace check {
namespace {

// A check that the executor breaks off (by a conversion that throws, say) leaves a finding, and the next one
// runs.
void run(Kit& kit, const char* name, void (*check)(Kit&), ExecutorCheck kind) {
  const std::string failure = failure_of([&] { check(kit); });
  if (!failure.empty()) kit.log.finding(kind, name, "expected to run this check to its end, got " + failure);
}

}  // namespace

ExecutorReport check_executor(const AnyExecutor& executor, const ExecutorKitOptions& options) {
  ExecutorReport report;
  Kit kit(executor, options, report);
  kit.make_trials();
  run(kit, "hooks", check_results, ExecutorCheck::results);
  run(kit, "add_operands", check_addition, ExecutorCheck::results);
  run(kit, "hooks", check_aliasing, ExecutorCheck::aliasing);
  run(kit, "hooks", check_lifetime, ExecutorCheck::lifetime);
  run(kit, "hooks", check_errors, ExecutorCheck::errors);
  run(kit, "hooks", check_threads, ExecutorCheck::threads);
  run(kit, "hooks", check_foreign_slots, ExecutorCheck::slots);
  run(kit, "operands", check_operands, ExecutorCheck::operands);
  run(kit, "backward", check_backward, ExecutorCheck::backward);
  note_untested(kit, report);
  return report;
}

ExecutorReport check_slots(const AnyExecutor& first, const AnyExecutor& second,
                           const ExecutorKitOptions& options) {
  ExecutorReport report;
  Kit kit(first, options, report);
  kit.make_trials();
  const auto test = [&](Hook hook, const std::vector<Trial>& trials) {
    kit.announce(ExecutorCheck::slots, to_string(hook));
    for (const Trial& trial : trials) {
      const Graph& graph = trial.graph.graph();
      const eager::ExecutorSlot shared;
      for (int round = 0; round < 2; ++round) {
        for (const AnyExecutor* executor : {&first, &second}) {
          const eager::ExecutorSlot own;
          const AnyOperands inputs = kit.operands(trial.inputs);
          const Outcome alone = Kit::call(*executor, hook, {graph, own}, inputs);
          const Outcome together = Kit::call(*executor, hook, {graph, shared}, inputs);
          const auto expected = kit.tensors(ExecutorCheck::slots, to_string(hook), trial, alone);
          const auto got = kit.tensors(ExecutorCheck::slots, to_string(hook), trial, together);
          kit.log.tested(ExecutorCheck::slots);
          for (std::size_t i = 0; expected && got && i < got->size(); ++i) {
            if (same_bits((*expected)[i], (*got)[i])) continue;
            const ShownPair shown = show_pair((*expected)[i], (*got)[i]);
            kit.log.finding(
                ExecutorCheck::slots, to_string(hook),
                detail::str(trial.what, ": expected ", shown.expected, " for result ", i, " of the ",
                            executor == &first ? "first" : "second", " executor, as by itself, got ",
                            shown.got, " with a slot that both use", show(graph, trial.inputs)));
          }
        }
      }
    }
  };
  test(Hook::execute_forward, kit.forward);
  test(Hook::run_transposed_linear, kit.transposed);
  return report;
}

}  // namespace check
}  // namespace tidu
