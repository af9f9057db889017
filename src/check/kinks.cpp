// kinks.cpp - see kinks.hpp.
#include "check/kinks.hpp"

#include <algorithm>

#include "check/differences.hpp"
#include "check/implicit_rules.hpp"
#include "check/inside.hpp"
#include "tidu/graph/error.hpp"

namespace tidu::check {
namespace {

// Inputs changed at random, relative to their largest element.
Subject nearby(const Subject& subject, std::uint64_t seed) {
  constexpr double distance = 0.01;
  Subject moved = subject;
  Random random(seed);
  for (const std::size_t k : subject.wrt) {
    const Tensor& x = subject.inputs[k];
    double largest = 0.0;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double size = std::abs(x.at(i));
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
    const double step = distance * (largest > 0.0 ? largest : 1.0);
    moved.inputs[k] = combine(1.0, x, step, random_tensor(random, x.type()));
  }
  return moved;
}

bool agrees(const Subject& subject, const Executor& executor, const CheckOptions& options, int order) {
  constexpr CheckKind kind = CheckKind::differences;
  const Faults faults = test_with_rules(subject, executor, options, order, just(kind)).faults;
  return !faults.of[index(kind)] && faults.comparisons[index(kind)] > 0;
}

std::string results_with_kinks(const Subject& one, const Executor& executor, const CheckOptions& options) {
  const DifferenceFunction function = difference_function(one, executor);
  if (!function.obstacle.empty()) return {};
  const Tensors outputs = executor.run(one.graph, one.inputs);
  const double epsilon = coarsest_epsilon(one.graph);
  const double tolerance = difference_tolerance(one.graph, options, function.iterates);
  DifferenceTest test(function, outputs, executor, epsilon, tolerance, options.seed,
                      [](std::size_t, const Tensors&) { return 0.0; });
  std::string text;
  for (const std::size_t k : test.outputs_with_kinks()) text += detail::str(text.empty() ? "" : ", ", k);
  return text;
}

std::optional<std::string> first_kink(const Subject& subject, const Executor& executor,
                                      const CheckOptions& options, const std::string& holder) {
  const Tensors values = all_values(subject.graph, subject.inputs, executor);
  const std::vector<bool> active = reached_from(subject.graph, subject.wrt);
  for (std::uint32_t i = 0; i < subject.graph.num_operations(); ++i) {
    const Subject one = standalone(subject.graph, i, values, active);
    if (one.wrt.empty() || subject.graph.operation(i).primitive().has_trait(Trait::no_tangent)) continue;
    const std::string name = named_operation(subject.graph, i) + holder;
    for (const Execution& run : executions(one, executor)) {
      const std::string held = detail::str(" in ", run.place, ", which is ", name);
      if (auto found = first_kink(run.subject, executor, options, held)) return found;
    }
    const std::string results = results_with_kinks(one, executor, options);
    if (!results.empty()) return detail::str(name, ", has no derivative there (results ", results, ')');
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> kink_within(const Subject& subject, const Executor& executor,
                                       const CheckOptions& options, int order) {
  try {
    if (!agrees(nearby(subject, options.seed), executor, options, order)) return std::nullopt;
    return first_kink(subject, executor, options, "");
  } catch (const Error&) {
    return std::nullopt;  // nothing is known of such a point
  }
}

std::string named_operation(const Graph& graph, std::uint32_t operation) {
  const Operation one = graph.operation(operation);
  const std::string where =
      one.where().empty() ? std::string() : detail::str(" (", detail::printable(one.where()), ')');
  return detail::str("operation ", operation, ", ", one.name(), where);
}

}  // namespace tidu::check
