// faults.cpp - see faults.hpp.
#include "check/faults.hpp"

namespace tidu::check {

Faults test(const Subject& subject, const DifferenceFunction& function, const Executor& executor,
            const CheckOptions& options, int order, const Kinds& kinds) {
  Faults faults;
  std::vector<Level> levels{{subject, function}};
  for (int at = 1; at <= order && !levels.empty(); ++at) {
    for (const auto& [one, one_function] : levels) {
      const LevelResult result = check_level(one, one_function, executor, options, kinds);
      for (std::size_t k = 0; k < num_check_kinds; ++k) {
        faults.worst[k] = std::max(faults.worst[k], result.worst[k]);
        faults.comparisons[k] += result.comparisons[k];
        if (result.failed[k] && !faults.of[k]) faults.of[k] = Faults::Fault{one, *result.failed[k], at};
      }
      faults.cancelled = faults.cancelled || result.cancelled;
      faults.not_finite = faults.not_finite || result.not_finite;
      if (at == 1 && !result.no_reverse.empty()) {
        faults.notes.push_back(detail::str("forward mode was checked and reverse mode was not, which ",
                                           detail::in_quotes(one.graph.name()),
                                           " has not: ", result.no_reverse));
      }
      for (const std::size_t k : result.without_differences) {
        std::string note = detail::str("jvp was not compared with differences in output ", k, " of ",
                                       detail::in_quotes(one.graph.name()), at > 1 ? " at second order" : "",
                                       ": there is a kink, or they are too inexact to tell");
        if (std::find(faults.notes.begin(), faults.notes.end(), note) == faults.notes.end())
          faults.notes.push_back(std::move(note));
      }
      faults.notes.insert(faults.notes.end(), result.notes.begin(), result.notes.end());
    }
    if (faults.any() || at == order) break;
    std::vector<Level> next;
    for (const Level& level : levels) {
      for (Level& derived : next_order(level, options.seed, faults.notes)) next.push_back(std::move(derived));
    }
    levels = std::move(next);
  }
  return faults;
}

Subject standalone(const Graph& graph, std::uint32_t operation, const Tensors& values,
                   const std::vector<bool>& active) {
  Subject subject{single_operation(graph, operation), {}, {}};
  const std::span<const ValueId> operands = graph.operation(operation).inputs();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    subject.inputs.push_back(values[operands[i]]);
    if (active[operands[i]]) subject.wrt.push_back(i);
  }
  return subject;
}

std::vector<bool> reached_from(const Graph& graph, std::span<const std::size_t> wrt) {
  std::vector<bool> active(graph.num_values(), false);
  for (const std::size_t i : wrt) active[graph.inputs()[i]] = true;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (operation.primitive().has_trait(Trait::no_tangent)) continue;
    const auto operands = operation.inputs();
    if (std::none_of(operands.begin(), operands.end(), [&](ValueId id) { return active[id]; })) continue;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      active[operation.output(slot)] = is_inexact(graph.type(operation.output(slot)).dtype());
  }
  return active;
}

}  // namespace tidu::check
