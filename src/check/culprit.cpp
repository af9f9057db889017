// culprit.cpp - see culprit.hpp. The operations that a rule emitted are tested one by one, and so are the
// operations in the graphs that the operation holds, as it runs them.
#include "check/culprit.hpp"

#include <sstream>

#include "check/derived.hpp"
#include "check/equations.hpp"
#include "check/implicit_rules.hpp"
#include "check/inside.hpp"

namespace tidu::check {
namespace {

using Rule = ADRuleError::Rule;

Rule rule_of(CheckKind kind) {
  if (kind == CheckKind::batch) return Rule::batch;
  return kind == CheckKind::transpose || kind == CheckKind::twice_transposed ? Rule::transpose : Rule::jvp;
}
std::string place_of(const Graph& graph, std::uint32_t operation, const std::string& holder) {
  const std::string_view where = graph.operation(operation).where();
  return detail::str("operation ", operation, " of ", holder,
                     where.empty() ? std::string() : detail::str(" (", detail::printable(where), ')'));
}

class Finder {
 public:
  Finder(const Executor& executor, const CheckOptions& options) : executor_(executor), options_(options) {}

  Culprit find(const Subject& one, CheckKind kind, const Faults& faults) const {
    const Operation operation = one.graph.operation(0);
    const Faults::Fault& fault = *faults.of[index(kind)];
    const std::vector<Execution> inner = executions(one, executor_);
    if (!inner.empty()) {
      if (std::optional<Culprit> found = find_inside(inner, kind, fault.order)) return *std::move(found);
    }
    Culprit found{std::string(operation.name()), std::nullopt, {}};
    found.cause = name_rule(kind, fault, faults, found);
    if (const std::string_view rule = custom_rule(operation);
        !rule.empty() && may_be_custom_rule(kind, fault, found.primitive, one.graph.primitives()))
      return custom_culprit(operation, rule);
    if (solves_equation(operation)) {
      if (const auto wrong = equation_fault(one, kind, executor_, options_))
        return {std::string(operation.name()),
                rule_of(kind),
                detail::str("the equation of ", operation.name(), " is at fault: ", *wrong),
                {},
                attribute_graphs(operation)};
    }
    // Right steps may be put together wrongly, or a later one be wrong.
    if (!inner.empty()) {
      found = {std::string(operation.name()), rule_of(kind), {}};
      found.cause = detail::str("a rule of what ", inner[0].place, " holds is at fault, or the ",
                                kind == CheckKind::batch ? "batch rule" : to_string(rule_of(kind)), " of ",
                                operation.name(), " itself: each operation there by itself agrees");
    }
    return found;
  }

 private:
  // The first operation in these runs that fails the test too, and its fault.
  std::optional<Culprit> find_inside(const std::vector<Execution>& runs, CheckKind kind, int order) const {
    for (const Execution& run : runs) {
      const Graph& graph = run.subject.graph;
      const Tensors values = all_values(graph, run.subject.inputs, executor_);
      const std::vector<bool> active = reached_from(graph, run.subject.wrt);
      for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
        const Subject one = standalone(graph, i, values, active);
        if (one.inputs.empty() || (one.wrt.empty() && kind != CheckKind::batch)) continue;
        try {
          if (!test_with_rules(one, executor_, options_, order, just(kind)).faults.any()) continue;
          const Faults faults = test_with_rules(one, executor_, options_, order, all_kinds).faults;
          if (!faults.of[index(kind)]) continue;
          Culprit found = find(one, kind, faults);
          found.place += (found.place.empty() ? "" : ", in ") + place_of(graph, i, run.place);
          return found;
        } catch (const Error&) {
          // Without an optional rule, it may be right.
        }
      }
    }
    return std::nullopt;
  }

  // Not where a primitive that the rule is made of was found to be at fault.
  static bool may_be_custom_rule(CheckKind kind, const Faults::Fault& fault, std::string_view primitive,
                                 const PrimitiveSet& primitives) {
    if (kind == CheckKind::differences) return fault.order == 1;
    if (kind != CheckKind::transpose && kind != CheckKind::linearity) return false;
    const Primitive* found = primitives.find(primitive);
    return found != nullptr && found->has_trait(Trait::holds_graph);
  }

  // Blames the user's rule, and not the primitives that it consists of.
  static Culprit custom_culprit(const Operation& operation, std::string_view rule) {
    const Graph given = operation.op().graph(rule), graph = operation.op().graph("graph");
    const std::string_view relation = rule == "jvp"        ? "the derivative of"
                                      : rule == "backward" ? "the transposed derivative of"
                                                           : "the transpose of";
    return {std::string(operation.name()),
            rule == "jvp" ? Rule::jvp : Rule::transpose,
            detail::str("the custom rule of ", operation.name(), " is at fault: its graph ", rule, " (",
                        detail::in_quotes(given.name()), ") is not ", relation, " its graph (",
                        detail::in_quotes(graph.name()), ")"),
            {},
            attribute_graphs(operation)};
  }

  // A rule of the operation, or of an operation that its rules emit.
  std::string name_rule(CheckKind kind, const Faults::Fault& fault, const Faults& faults,
                        Culprit& found) const {
    const std::string operation = found.primitive;
    const std::string agrees =
        faults.of[index(CheckKind::differences)]
            ? std::string()
            : ": its jvp agrees with differences to " + figure(faults.worst[index(CheckKind::differences)]);
    switch (kind) {
      case CheckKind::linearity: {
        found.rule = Rule::jvp;
        const auto culprit = culprit_in_linear_graph(fault.subject, CheckKind::linearity);
        if (!culprit)
          return detail::str("the jvp of ", found.primitive,
                             " is at fault: it is not linear in its tangents");
        if (*culprit == operation)
          return detail::str("the record of ", *culprit, " is at fault: it says linear, and is not");
        return detail::str("the jvp of ", found.primitive, " is at fault: it hands its tangents to ",
                           *culprit, ", whose record says linear and which is not");
      }
      case CheckKind::differences: {
        found.rule = Rule::jvp;
        if (fault.order == 1) return detail::str("the jvp of ", found.primitive, " is at fault");
        if (const auto culprit = culprit_in_graph(fault.subject, CheckKind::differences)) {
          found.primitive = *culprit;
          return detail::str("the jvp of ", *culprit, ", which the rules of ", operation,
                             " use, is at fault");
        }
        return detail::str("the jvp of ", found.primitive,
                           " is at fault: right at first order, and its residuals have a wrong derivative");
      }
      case CheckKind::transpose:
      case CheckKind::twice_transposed: {
        found.rule = Rule::transpose;
        const auto culprit = culprit_in_linear_graph(fault.subject, kind);
        if (culprit && *culprit != operation) {
          found.primitive = *culprit;
          return detail::str("the transpose of ", *culprit, ", which the rules of ", operation,
                             " use, is at fault", agrees);
        }
        return detail::str("the transpose of ", found.primitive, " is at fault", agrees);
      }
      case CheckKind::batch: {
        found.rule = Rule::batch;
        if (fault.order == 1) return detail::str("the batch rule of ", found.primitive, " is at fault");
        if (const auto culprit = culprit_in_graph(fault.subject, CheckKind::batch))
          found.primitive = *culprit;
        return detail::str("the batch rule of ", found.primitive, ", which the rules of ", operation,
                           " use, is at fault");
      }
    }
    return {};
  }

  // The primitive of the first operation of the subject that fails the test by itself.
  std::optional<std::string> culprit_in_graph(const Subject& subject, CheckKind kind) const {
    const Tensors values = all_values(subject.graph, subject.inputs, executor_);
    const std::vector<bool> active = reached_from(subject.graph, subject.wrt);
    return first_to_fail(subject.graph, values, active, kind);
  }

  // The same among the operations of its linear graph, at random tangents.
  std::optional<std::string> culprit_in_linear_graph(const Subject& subject, CheckKind kind) const {
    const Derived derived(subject.graph, subject.wrt);
    const Point point(derived, subject.inputs, executor_);
    Random random(options_.seed);
    const Graph& linear = derived.linearization().linear;
    const Closed every = close(linear, true);
    const Tensors tangents = point.random_tangents(random);
    const Tensors results = point.run(every, tangents);
    Tensors values(linear.num_values());
    for (std::size_t i = 0; i < tangents.size(); ++i) values[linear.inputs()[i]] = tangents[i];
    for (std::size_t i = 0; i < every.externals.size(); ++i)
      values[linear.externals()[i]] = point.value(every.externals[i]);
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < linear.num_operations(); ++i) {
      const Operation operation = linear.operation(i);
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        values[operation.output(slot)] = results[next++];
    }
    std::vector<std::size_t> all(linear.inputs().size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return first_to_fail(linear, values, reached_from(linear, all), kind);
  }

  std::optional<std::string> first_to_fail(const Graph& graph, const Tensors& values,
                                           const std::vector<bool>& active, CheckKind kind) const {
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      if (graph.operation(i).primitive().has_trait(Trait::no_tangent)) continue;
      const Subject one = standalone(graph, i, values, active);
      if (one.wrt.empty() && kind != CheckKind::batch) continue;
      try {
        const LevelResult result =
            check_level(one, difference_function(one, executor_), executor_, options_, just(kind));
        if (!result.ok()) return std::string(graph.operation(i).name());
      } catch (const ADRuleError&) {
        // Without an optional rule, it may be right.
      }
    }
    return std::nullopt;
  }

  const Executor& executor_;
  const CheckOptions& options_;
};

}  // namespace

Culprit find_culprit(const Subject& one, CheckKind kind, const Faults& faults, const Executor& executor,
                     const CheckOptions& options) {
  return Finder(executor, options).find(one, kind, faults);
}

std::string figure(double error) {
  std::ostringstream out;
  out.precision(2);
  out << error;
  return out.str();
}

}  // namespace tidu::check
