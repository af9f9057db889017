// checker.cpp - the tests on the whole graph, order by order, and if one fails, on each of its operations.
#include "check/checker.hpp"

#include <algorithm>
#include <cmath>

#include "check/culprit.hpp"
#include "check/faults.hpp"
#include "check/implicit_rules.hpp"
#include "check/inside.hpp"
#include "check/kinks.hpp"
#include "check/singular.hpp"
#include "check/terms.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::check {
namespace {

using Rule = ADRuleError::Rule;

class Checker {
 public:
  Checker(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor,
          const CheckOptions& options, const Kinds& kinds)
      : graph_(graph), executor_(executor), options_(options), kinds_(kinds) {
    if (options.order < 1 || options.order > 2) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("check_gradients: expected order 1 or 2, got ", options.order));
    }
    if (options.directions < 1)
      throw Error(ErrorKind::invalid_argument, "check_gradients: expected 1 or more directions, got 0");
    check_inputs(graph, inputs);
    subject_ = Subject{graph, inexact_inputs(graph), Tensors(inputs.begin(), inputs.end())};
  }

  CheckReport run() {
    const TestResult result = test_with_rules(subject_, executor_, options_, options_.order, kinds_);
    const Faults& faults = result.faults;
    report_.worst = faults.worst;
    report_.comparisons = faults.comparisons;
    report_.notes = faults.notes;
    note_not_finite();
    if (faults.not_finite) {
      for (std::string& note : notes_on_singular_operations(subject_, executor_, options_))
        report_.notes.push_back(std::move(note));
    }
    note_implicit_rules(result.views);
    compare_outputs_of_rules(graph_, subject_.inputs, std::nullopt);
    // If terms cancel, the whole graph may hide errors that its operations show.
    if (faults.any() || faults.cancelled) locate(faults, result.views);
    report_.ok = report_.findings.empty();
    return std::move(report_);
  }

 private:
  // Values that are not finite have no differences, and would seem to agree.
  void note_not_finite() {
    const std::size_t before = report_.notes.size();
    const auto note = [&](const std::string& what, const Tensor& values) {
      if (all_finite(values)) return;
      report_.notes.push_back(
          detail::str(what, " is not finite: it ", element_statistics(values),
                      "; what is not finite there, or follows from it, was not compared"));
    };
    for (std::size_t i = 0; i < subject_.inputs.size(); ++i)
      note(detail::str("input ", detail::in_quotes(graph_.input_name(i))), subject_.inputs[i]);
    if (report_.notes.size() != before) return;  // outputs follow from inputs
    const Tensors outputs = executor_.run(graph_, subject_.inputs);
    for (std::size_t slot = 0; slot < outputs.size(); ++slot)
      note(detail::str("output ", slot), outputs[slot]);
  }

  // Which operations of the graph have, or hold operations that have, a rule that is right by values.
  void note_implicit_rules(const RuleViews& views) {
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      if (!holds_implicit_rule(graph_, i, views)) continue;
      report_.notes.push_back(detail::str(
          named(i),
          ", has, or holds, a custom rule that is not the derivative of its graph by each operand: it was "
          "compared with differences in which all operands move, those behind stop_gradient too"));
    }
  }
  static bool holds_implicit_rule(const Graph& graph, std::uint32_t operation, const RuleViews& views) {
    if (views.empty()) return false;
    bool found = false;
    prim::visit_operations(single_operation(graph, operation), [&](const Operation& inner, const Graph&) {
      found = found || view_of(views, inner) == RuleView::by_values;
    });
    return found;
  }
  std::string named(std::uint32_t index) const { return named_operation(graph_, index); }

  // The outputs of a custom rule stand for those of its graph, and must be them; also in graphs that
  // operations hold. `top`: the operation of the checked graph that `graph` is in.
  void compare_outputs_of_rules(const Graph& graph, const Tensors& inputs, std::optional<std::uint32_t> top) {
    if (!has_custom_rule(graph)) return;
    const Tensors values = all_values(graph, inputs, executor_);
    const std::vector<bool> none(graph.num_values(), false);
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      if (!operation.primitive().has_trait(Trait::holds_graph)) continue;
      const Subject one = standalone(graph, i, values, none);
      const std::size_t before = report_.findings.size();
      for (const Execution& inner : executions(one, executor_)) {
        if (report_.findings.size() == before)  // one step suffices
          compare_outputs_of_rules(inner.subject.graph, inner.subject.inputs, top.value_or(i));
      }
      const std::string_view rule = custom_rule(operation);
      if (rule.empty() || rule == "transpose") continue;
      const std::string name = rule == "jvp" ? "jvp" : "forward";
      const Graph given = operation.op().graph(name);
      Tensors operands = one.inputs;
      for (std::size_t k = operands.size(); k < given.inputs().size(); ++k)
        operands.push_back(Tensor::zeros(given.type(given.inputs()[k])));
      const Tensors results = executor_.run(given, operands);
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        const Tensor& expected = values[operation.output(slot)];
        const double tolerance = difference_tolerance(graph, options_, has_iterating_rule(graph));
        double error = relative_error(results[slot], expected);
        if (error > tolerance && std::isfinite(error)) {
          const double terms = magnitude_of_terms(operation.op().graph("graph"), one.inputs, slot, executor_);
          error = relative_error(results[slot], expected, terms);
        }
        if (error <= tolerance) continue;
        CheckFinding finding;
        finding.operation = top.value_or(i);
        finding.operation_primitive = graph_.operation(*finding.operation).name();
        finding.primitive = operation.name();
        finding.rule = Rule::jvp;
        finding.order = 0;
        finding.custom_rule = attribute_graphs(operation);
        finding.relative_error = error;
        finding.message = detail::str(
            "a custom rule disagrees with its graph in operation ", *finding.operation, ", ",
            finding.operation_primitive, ": relative error ", figure(error), " in output ", slot,
            "\n  the custom rule of ", finding.primitive, " is at fault: output ", slot, " of its graph ",
            name, " (", detail::in_quotes(given.name()), ") is not that of its graph (",
            detail::in_quotes(operation.op().graph("graph").name()), ")");
        if (!known(finding)) report_.findings.push_back(std::move(finding));
        break;
      }
    }
  }

  // An operation, which has an implicit rule, against differences as part of the graph up to it.
  std::optional<Faults::Fault> fault_in_graph(std::uint32_t operation) const {
    std::vector<ValueId> outputs;
    for (std::size_t slot = 0; slot < graph_.operation(operation).num_outputs(); ++slot)
      outputs.push_back(graph_.operation(operation).output(slot));
    Subject part = subject_;
    part.graph = GraphBuilder::extending(graph_)->build_ids(std::move(outputs));
    return test_with_rules(part, executor_, options_, options_.order, just(CheckKind::differences))
        .faults.of[index(CheckKind::differences)];
  }

  void locate(const Faults& whole, const RuleViews& views) {
    const Tensors values = all_values(graph_, subject_.inputs, executor_);
    const std::vector<bool> active = reached_from(graph_, subject_.wrt);
    std::string untested;
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const Subject one = standalone(graph_, i, values, active);
      if (one.inputs.empty()) continue;
      try {
        Faults faults = test_with_rules(one, executor_, options_, options_.order, kinds_).faults;
        std::optional<Faults::Fault>& differences = faults.of[index(CheckKind::differences)];
        if (differences && holds_implicit_rule(graph_, i, views)) {
          differences = report_.findings.empty() ? fault_in_graph(i) : std::nullopt;
          if (!report_.findings.empty())
            report_.notes.push_back(named(i) +
                                    ", was not compared with differences: that takes right rules before it");
        }
        blame(i, one, faults, whole);
      } catch (const ADRuleError&) {
        // The graph needs no such rule of it, or not yet: the operation may be right.
        untested += detail::str(untested.empty() ? ", but for operation " : ", ", i, " (",
                                graph_.operation(i).name(), ')');
      }
    }
    if (!untested.empty()) untested += ", which could not be tested: a rule is missing";
    for (const CheckKind kind : kinds_in_order) {
      const auto& fault = whole.of[index(kind)];
      if (!fault || !report_.findings.empty()) continue;
      if (std::isinf(fault->disagreement.error)) {
        report_.notes.push_back(detail::str("derivatives of ", detail::in_quotes(graph_.name()),
                                            " are not finite where one of the two sides of a test is (",
                                            describe(kind), "); each operation by itself agrees", untested));
        continue;
      }
      if (kind == CheckKind::differences &&
          note_kink(subject_, detail::str("the whole of ", detail::in_quotes(graph_.name())), fault->order))
        continue;
      CheckFinding finding;
      finding.kind = kind;
      describe_direction(finding, *fault, true);
      finding.message =
          detail::str(describe(kind), " in the whole of ", detail::in_quotes(graph_.name()),
                      direction_text(finding, true), "\n  each operation by itself agrees", untested);
      report_.findings.push_back(std::move(finding));
    }
  }

  // Is it the chain rule that does not hold?
  bool note_kink(const Subject& subject, const std::string& what, int order) {
    std::optional<std::string> kink = kink_within(subject, executor_, options_, order);
    if (!kink) return false;
    const std::string alone = detail::str("operation 0, ", subject.graph.operation(0).name(), ',');
    if (&subject != &subject_ && kink->starts_with(alone)) kink->replace(0, alone.size(), "it");
    report_.worst[index(CheckKind::differences)] = 0.0;
    report_.comparisons[index(CheckKind::differences)] = 0;
    report_.notes.push_back(detail::str("jvp was not compared with differences in ", what, ": ", *kink,
                                        ", and derivatives through it do not follow the chain rule; nearby "
                                        "they agree"));
    return true;
  }

  // If an operation fails several tests, reports the first one that explains the others: an operation that is
  // not linear or has a wrong tangent cannot serve as the reference of another test.
  void blame(std::uint32_t operation, const Subject& one, const Faults& faults, const Faults& whole) {
    // Outputs of a rule that are not those of its graph explain derivatives that are not.
    const auto& found = report_.findings;
    if (std::any_of(found.begin(), found.end(), [operation](const CheckFinding& finding) {
          return finding.order == 0 && finding.operation == operation;
        }))
      return;
    const auto failed = [&](CheckKind kind) { return faults.of[index(kind)].has_value(); };
    for (const CheckKind kind : kinds_in_order) {
      if (!failed(kind)) continue;
      if (kind == CheckKind::twice_transposed && failed(CheckKind::transpose)) continue;
      if (kind != CheckKind::linearity && kind != CheckKind::batch && failed(CheckKind::linearity)) continue;
      const Faults::Fault& fault = *faults.of[index(kind)];
      // By itself an operation follows no chain rule, unless it runs others.
      const bool chained = fault.order > 1 || !executions(one, executor_).empty();
      if (kind == CheckKind::differences && chained && !std::isinf(fault.disagreement.error) &&
          note_kink(one, named(operation), fault.order))
        continue;
      CheckFinding finding;
      finding.kind = kind;
      finding.operation = operation;
      finding.operation_primitive = graph_.operation(operation).name();
      const Culprit culprit = find_culprit(one, kind, faults, executor_, options_);
      finding.primitive = culprit.primitive;
      finding.rule = culprit.rule;
      finding.custom_rule = culprit.custom_rule;
      const std::string cause =
          culprit.cause + (culprit.place.empty() ? "" : "\n  found in " + culprit.place);
      const auto& seen = whole.of[index(kind)];
      const bool in_whole = seen && seen->order == fault.order;
      describe_direction(finding, in_whole ? *seen : fault, in_whole);
      const std::string direction = direction_text(finding, in_whole);
      add(std::move(finding), direction, cause);
    }
  }

  // `input`: of the fault's graph, which is that of `finding.operation` alone unless `of_whole`.
  void describe_direction(CheckFinding& finding, const Faults::Fault& fault, bool of_whole) const {
    finding.order = fault.order;
    finding.relative_error = fault.disagreement.error;
    finding.direction = fault.disagreement.direction;
    if (!fault.disagreement.input) return;
    const std::string name = fault.subject.graph.input_name(*fault.disagreement.input);
    finding.input = of_whole ? name : known_as(name, *finding.operation);
  }
  // Inputs of an operation by itself, and of its derivatives, are in no graph of the user's.
  static std::string known_as(const std::string& name, std::uint32_t operation) {
    constexpr std::string_view operand = "operand.", tangent = ".tangent";
    if (!name.starts_with(operand)) return detail::str("a cotangent of operation ", operation);
    const std::string rest = name.substr(operand.size());
    if (!rest.ends_with(tangent)) return detail::str("operand ", rest, " of operation ", operation);
    return detail::str("the tangent of operand ", rest.substr(0, rest.size() - tangent.size()),
                       " of operation ", operation);
  }
  static std::string direction_text(const CheckFinding& finding, bool of_whole) {
    const std::string input =
        of_whole ? detail::str("input ", detail::in_quotes(finding.input)) : finding.input;
    return detail::str(finding.order > 1 ? " at second order" : "", ": relative error ",
                       figure(finding.relative_error), " in direction ", finding.direction,
                       finding.input.empty() ? std::string() : " of " + input);
  }

  bool known(const CheckFinding& finding) const {
    return std::any_of(report_.findings.begin(), report_.findings.end(),
                       [&](const CheckFinding& other) { return same_fault(finding, other); });
  }
  // One finding for each fault, at the first operation that shows it.
  void add(CheckFinding finding, const std::string& direction, const std::string& cause) {
    if (known(finding)) return;
    finding.message =
        detail::str(describe(finding.kind), " in ", named(*finding.operation), direction, "\n  ", cause);
    report_.findings.push_back(std::move(finding));
  }

  const Graph& graph_;
  const Executor& executor_;
  CheckOptions options_;
  Kinds kinds_;
  Subject subject_;
  CheckReport report_;
};

}  // namespace

bool same_fault(const CheckFinding& a, const CheckFinding& b) {
  return a.kind == b.kind && a.primitive == b.primitive && a.rule == b.rule && a.order == b.order &&
         std::ranges::equal(a.custom_rule, b.custom_rule, [](const Graph& one, const Graph& other) {
           return one.structural_key() == other.structural_key();
         });
}

CheckReport report(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor,
                   const CheckOptions& options, const Kinds& kinds) {
  return Checker(graph, inputs, executor, options, kinds).run();
}

}  // namespace tidu::check
