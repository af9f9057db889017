// checker.cpp - the tests on the whole graph, order by order; where one fails, on each of its operations; and
// within an operation that fails, on what its rules emitted. First-order faults hide those of second order.
#include "check/checker.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "check/level.hpp"
#include "check/terms.hpp"
#include "tidu/tensor/inspect.hpp"

namespace tidu::check {
namespace {

using Rule = ADRuleError::Rule;

constexpr Kinds just(CheckKind kind) {
  Kinds kinds{};
  kinds[index(kind)] = true;
  return kinds;
}

// The first level at which each kind fails.
struct Faults {
  struct Fault {
    Subject subject;
    Disagreement disagreement;
    int order;
  };
  std::array<std::optional<Fault>, num_check_kinds> of;
  std::array<double, num_check_kinds> worst{};
  std::array<std::size_t, num_check_kinds> comparisons{};
  bool cancelled = false;  // see LevelResult
  std::vector<std::string> notes;
  bool any() const {
    return std::any_of(of.begin(), of.end(), [](const auto& fault) { return fault.has_value(); });
  }
};

// A subject, then the graphs of its jvp and vjp, until something fails.
Faults test(const Subject& subject, const KeySet& frozen, const Executor& executor,
            const CheckOptions& options, int order, const Kinds& kinds) {
  Faults faults;
  std::vector<Subject> level{subject};
  for (int at = 1; at <= order && !level.empty(); ++at) {
    for (const Subject& one : level) {
      const LevelResult result = check_level(one, frozen, executor, options, kinds);
      for (std::size_t k = 0; k < num_check_kinds; ++k) {
        faults.worst[k] = std::max(faults.worst[k], result.worst[k]);
        faults.comparisons[k] += result.comparisons[k];
        if (result.failed[k] && !faults.of[k]) faults.of[k] = Faults::Fault{one, *result.failed[k], at};
      }
      faults.cancelled = faults.cancelled || result.cancelled;
      for (const std::size_t k : result.without_differences) {
        std::string note = detail::str("jvp was not compared with differences in output ", k, " of \"",
                                       one.graph.name(), '"', at > 1 ? " at second order" : "",
                                       ": there is a kink, or they are too inexact to tell");
        if (std::find(faults.notes.begin(), faults.notes.end(), note) == faults.notes.end())
          faults.notes.push_back(std::move(note));
      }
      faults.notes.insert(faults.notes.end(), result.notes.begin(), result.notes.end());
    }
    if (faults.any() || at == order) break;
    std::vector<Subject> next;
    for (const Subject& one : level) {
      for (Subject& derived : next_order(one, options.seed)) next.push_back(std::move(derived));
    }
    level = std::move(next);
  }
  return faults;
}

// An operation of `graph` by itself on these values; wrt: operands with a true flag in `active`.
Subject alone(const Graph& graph, std::uint32_t operation, const Tensors& values,
              const std::vector<bool>& active) {
  Subject subject{single_operation(graph, operation), {}, {}};
  const std::span<const ValueId> operands = graph.operation(operation).inputs();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    subject.inputs.push_back(values[operands[i]]);
    if (active[operands[i]]) subject.wrt.push_back(i);
  }
  return subject;
}

// By value: does it depend on one of these inputs by a path of inexact values?
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

// The graph that an operation of the user's own rule says it with, by attribute: "jvp", "backward" or
// "transpose"; empty for operations without.
std::string_view custom_rule(const Operation& operation) {
  if (!operation.primitive().has_trait(Trait::holds_graph)) return {};
  for (const AttributeSpec& spec : operation.primitive().attributes) {
    if (spec.kind != AttributeKind::graph) continue;
    for (const std::string_view name : {"jvp", "backward", "transpose"}) {
      if (spec.name == name) return name;
    }
  }
  return {};
}
// Does it stand for its attribute `graph`, without a rule of its own?
bool stands_for_graph(const Operation& operation) {
  if (!operation.primitive().has_trait(Trait::holds_graph) || !custom_rule(operation).empty()) return false;
  for (const AttributeSpec& spec : operation.primitive().attributes) {
    if (spec.kind == AttributeKind::graph && spec.name == "graph") return true;
  }
  return false;
}

class Checker {
 public:
  Checker(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor,
          const CheckOptions& options, const Kinds& kinds)
      : graph_(graph), executor_(executor), options_(options), kinds_(kinds) {
    if (options.order < 1 || options.order > 2) {
      throw Error(ErrorKind::invalid_argument,
                  detail::str("check_gradients: expected order 1 or 2, got ", options.order));
    }
    check_inputs(graph, inputs);
    subject_ = Subject{graph, inexact_inputs(graph), Tensors(inputs.begin(), inputs.end())};
  }

  CheckReport run() {
    const KeySet frozen = frozen_values(graph_);
    const Faults faults = test(subject_, frozen, executor_, options_, options_.order, kinds_);
    report_.worst = faults.worst;
    report_.comparisons = faults.comparisons;
    report_.notes = faults.notes;
    note_not_finite();
    compare_outputs_of_rules(graph_, subject_.inputs, std::nullopt);
    // Where terms cancel, the whole may hide what its operations show.
    if (faults.any() || faults.cancelled) locate(faults);
    report_.ok = report_.findings.empty();
    return std::move(report_);
  }

 private:
  // Values that are not finite have no differences, and would seem to agree.
  void note_not_finite() {
    const auto note = [&](const std::string& what, const Tensor& values) {
      if (all_finite(values)) return;
      report_.notes.push_back(
          detail::str(what, " is not finite: it ", element_statistics(values),
                      "; what is not finite there, or follows from it, was not compared"));
    };
    for (std::size_t i = 0; i < subject_.inputs.size(); ++i)
      note(detail::str("input \"", graph_.input_name(i), '"'), subject_.inputs[i]);
    if (!report_.notes.empty()) return;
    const Tensors outputs = executor_.run(graph_, subject_.inputs);
    for (std::size_t slot = 0; slot < outputs.size(); ++slot)
      note(detail::str("output ", slot), outputs[slot]);
  }

  // The outputs of a custom rule stand for those of its graph, and must be them; also in graphs that
  // operations stand for. `top`: the operation of the checked graph that `graph` is in.
  void compare_outputs_of_rules(const Graph& graph, const Tensors& inputs, std::optional<std::uint32_t> top) {
    std::vector<std::uint32_t> holders;
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      if (stands_for_graph(operation) || !custom_rule(operation).empty()) holders.push_back(i);
    }
    if (holders.empty()) return;
    const Tensors values = all_values(graph, inputs, executor_);
    for (const std::uint32_t i : holders) {
      const Operation operation = graph.operation(i);
      Tensors operands;
      for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
      if (stands_for_graph(operation)) {
        compare_outputs_of_rules(operation.op().graph("graph"), operands, top.value_or(i));
        continue;
      }
      const std::string_view rule = custom_rule(operation);
      if (rule == "transpose") continue;
      const std::string name = rule == "jvp" ? "jvp" : "forward";
      const Graph given = operation.op().graph(name);
      const Tensors operands_of_graph = operands;
      for (std::size_t k = operands.size(); k < given.inputs().size(); ++k)
        operands.push_back(Tensor::zeros(given.type(given.inputs()[k])));
      const Tensors results = executor_.run(given, operands);
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
        const Tensor& expected = values[operation.output(slot)];
        const double tolerance = difference_tolerance(graph, options_);
        double error = relative_error(results[slot], expected);
        if (error > tolerance && std::isfinite(error)) {
          const double terms =
              magnitude_of_terms(operation.op().graph("graph"), operands_of_graph, slot, executor_);
          error = relative_error(results[slot], expected, terms);
        }
        if (error <= tolerance) continue;
        CheckFinding finding;
        finding.operation = top.value_or(i);
        finding.operation_primitive = graph_.operation(*finding.operation).name();
        finding.primitive = operation.name();
        finding.rule = Rule::jvp;
        finding.relative_error = error;
        finding.message =
            detail::str("a custom rule disagrees with its graph in operation ", *finding.operation, ", ",
                        finding.operation_primitive, ": relative error ", figure(error), " in output ", slot,
                        "\n  the custom rule of ", finding.primitive, " is at fault: output ", slot,
                        " of its graph ", name, " (\"", given.name(), "\") is not that of its graph (\"",
                        operation.op().graph("graph").name(), "\")");
        report_.findings.push_back(std::move(finding));
        break;
      }
    }
  }

  void locate(const Faults& whole) {
    const Tensors values = all_values(graph_, subject_.inputs, executor_);
    const std::vector<bool> active = reached_from(graph_, subject_.wrt);
    for (std::uint32_t i = 0; i < graph_.num_operations(); ++i) {
      const Subject one = alone(graph_, i, values, active);
      if (one.inputs.empty()) continue;
      const KeySet frozen = frozen_values(one.graph);
      blame(i, test(one, frozen, executor_, options_, options_.order, kinds_), whole);
    }
    for (const CheckKind kind : kinds_in_order) {
      const auto& fault = whole.of[index(kind)];
      if (!fault || !report_.findings.empty()) continue;
      if (std::isinf(fault->disagreement.error)) {
        report_.notes.push_back(detail::str("derivatives of \"", graph_.name(),
                                            "\" are not finite where one of the two sides of a test is (",
                                            describe(kind), "); each operation by itself agrees"));
        continue;
      }
      CheckFinding finding;
      finding.kind = kind;
      describe_direction(finding, *fault);
      finding.message = detail::str(describe(kind), " in the whole of \"", graph_.name(), "\"",
                                    direction_text(finding), "\n  each operation by itself agrees");
      report_.findings.push_back(std::move(finding));
    }
  }

  // Of the tests that an operation fails, the first one that explains the others: what is not linear or has a
  // wrong tangent is no use to a test against it.
  void blame(std::uint32_t operation, const Faults& faults, const Faults& whole) {
    const auto failed = [&](CheckKind kind) { return faults.of[index(kind)].has_value(); };
    for (const CheckKind kind : kinds_in_order) {
      if (!failed(kind)) continue;
      if (kind == CheckKind::twice_transposed && failed(CheckKind::transpose)) continue;
      if (kind != CheckKind::linearity && kind != CheckKind::batch && failed(CheckKind::linearity)) continue;
      const Faults::Fault& fault = *faults.of[index(kind)];
      CheckFinding finding;
      finding.kind = kind;
      finding.operation = operation;
      finding.operation_primitive = graph_.operation(operation).name();
      std::string cause = name_rule(finding, fault, faults);
      if (may_be_custom_rule(finding)) {
        const std::string custom = name_custom_rule(finding, alone_of(operation));
        if (!custom.empty()) cause = custom;
      }
      const auto& seen = whole.of[index(kind)];
      describe_direction(finding, seen && seen->order == fault.order ? *seen : fault);
      add(std::move(finding), cause);
    }
  }

  Subject alone_of(std::uint32_t operation) const {
    return alone(graph_, operation, all_values(graph_, subject_.inputs, executor_),
                 reached_from(graph_, subject_.wrt));
  }

  // Not where a primitive that the rule is made of was found to be at fault.
  bool may_be_custom_rule(const CheckFinding& finding) const {
    if (finding.kind == CheckKind::differences) return finding.order == 1;
    if (finding.kind != CheckKind::transpose && finding.kind != CheckKind::linearity) return false;
    const Primitive* primitive = graph_.primitives().find(finding.primitive);
    return primitive != nullptr && primitive->has_trait(Trait::holds_graph);
  }

  // Where the operation, or one within the graph that it stands for, has a rule of the user's: says that the
  // rule is at fault, in the place of the primitives that it is made of.
  std::string name_custom_rule(CheckFinding& finding, const Subject& one) const {
    const Operation operation = one.graph.operation(0);
    if (stands_for_graph(operation)) {
      const Graph inner = operation.op().graph("graph");
      const Tensors values = all_values(inner, one.inputs, executor_);
      const std::vector<bool> active = reached_from(inner, one.wrt);
      for (std::uint32_t i = 0; i < inner.num_operations(); ++i) {
        const Operation candidate = inner.operation(i);
        if (!stands_for_graph(candidate) && custom_rule(candidate).empty()) continue;
        const Subject deeper = alone(inner, i, values, active);
        if (deeper.wrt.empty() ||
            !test(deeper, frozen_values(deeper.graph), executor_, options_, options_.order, kinds_)
                 .of[index(finding.kind)])
          continue;
        if (std::string cause = name_custom_rule(finding, deeper); !cause.empty()) return cause;
      }
      return {};
    }
    const std::string_view rule = custom_rule(operation);
    if (rule.empty()) return {};
    finding.primitive = operation.name();
    if (rule == "jvp") finding.rule = Rule::jvp;
    const Graph given = operation.op().graph(rule), graph = operation.op().graph("graph");
    const std::string_view relation = rule == "jvp"        ? "the derivative of"
                                      : rule == "backward" ? "the transposed derivative of"
                                                           : "the transpose of";
    if (rule != "jvp") finding.rule = Rule::transpose;
    return detail::str("the custom rule of ", finding.primitive, " is at fault: its graph ", rule, " (\"",
                       given.name(), "\") is not ", relation, " its graph (\"", graph.name(), "\")");
  }

  // Fills in primitive and rule, and says how it is known.
  std::string name_rule(CheckFinding& finding, const Faults::Fault& fault, const Faults& faults) {
    finding.order = fault.order;
    finding.primitive = finding.operation_primitive;
    const std::string agrees =
        faults.of[index(CheckKind::differences)]
            ? std::string()
            : ": its jvp agrees with differences to " + figure(faults.worst[index(CheckKind::differences)]);
    switch (finding.kind) {
      case CheckKind::linearity: {
        finding.rule = Rule::jvp;
        const auto culprit = culprit_in_linear_graph(fault.subject, CheckKind::linearity);
        if (!culprit)
          return detail::str("the jvp of ", finding.primitive,
                             " is at fault: it is not linear in its tangents");
        if (*culprit == finding.operation_primitive)
          return detail::str("the record of ", *culprit, " is at fault: it says linear, and is not");
        return detail::str("the jvp of ", finding.primitive, " is at fault: it hands its tangents to ",
                           *culprit, ", whose record says linear and which is not");
      }
      case CheckKind::differences: {
        finding.rule = Rule::jvp;
        if (fault.order == 1) return detail::str("the jvp of ", finding.primitive, " is at fault");
        if (const auto culprit = culprit_in_graph(fault.subject, CheckKind::differences)) {
          finding.primitive = *culprit;
          return detail::str("the jvp of ", *culprit, ", which the rules of ", finding.operation_primitive,
                             " use, is at fault");
        }
        return detail::str("the jvp of ", finding.primitive,
                           " is at fault: right at first order, and its residuals have a wrong derivative");
      }
      case CheckKind::transpose:
      case CheckKind::twice_transposed: {
        finding.rule = Rule::transpose;
        const auto culprit = culprit_in_linear_graph(fault.subject, finding.kind);
        if (culprit && *culprit != finding.operation_primitive) {
          finding.primitive = *culprit;
          return detail::str("the transpose of ", *culprit, ", which the rules of ",
                             finding.operation_primitive, " use, is at fault", agrees);
        }
        return detail::str("the transpose of ", finding.primitive, " is at fault", agrees);
      }
      case CheckKind::batch: {
        finding.rule = Rule::batch;
        if (fault.order == 1) return detail::str("the batch rule of ", finding.primitive, " is at fault");
        if (const auto culprit = culprit_in_graph(fault.subject, CheckKind::batch))
          finding.primitive = *culprit;
        return detail::str("the batch rule of ", finding.primitive, ", which the rules of ",
                           finding.operation_primitive, " use, is at fault");
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
      const Subject one = alone(graph, i, values, active);
      if (one.wrt.empty() && kind != CheckKind::batch) continue;
      const LevelResult result = check_level(one, frozen_values(one.graph), executor_, options_, just(kind));
      if (!result.ok()) return std::string(graph.operation(i).name());
    }
    return std::nullopt;
  }

  void describe_direction(CheckFinding& finding, const Faults::Fault& fault) const {
    finding.order = fault.order;
    finding.relative_error = fault.disagreement.error;
    finding.direction = fault.disagreement.direction;
    if (fault.disagreement.input) finding.input = fault.subject.graph.input_name(*fault.disagreement.input);
  }
  static std::string direction_text(const CheckFinding& finding) {
    return detail::str(finding.order > 1 ? " at second order" : "", ": relative error ",
                       figure(finding.relative_error), " in direction ", finding.direction,
                       finding.input.empty() ? std::string() : " of input \"" + finding.input + "\"");
  }

  // One finding for each fault, at the first operation that shows it.
  void add(CheckFinding finding, const std::string& cause) {
    for (const CheckFinding& other : report_.findings) {
      if (other.kind == finding.kind && other.primitive == finding.primitive && other.rule == finding.rule &&
          other.order == finding.order)
        return;
    }
    const Operation operation = graph_.operation(*finding.operation);
    const std::string place =
        operation.where().empty() ? std::string() : detail::str(" (", operation.where(), ')');
    finding.message = detail::str(describe(finding.kind), " in operation ", *finding.operation, ", ",
                                  finding.operation_primitive, place, direction_text(finding), "\n  ", cause);
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

std::string figure(double error) {
  std::ostringstream out;
  out.precision(2);
  out << error;
  return out.str();
}

CheckReport report(const Graph& graph, std::span<const Tensor> inputs, const Executor& executor,
                   const CheckOptions& options, const Kinds& kinds) {
  return Checker(graph, inputs, executor, options, kinds).run();
}

}  // namespace tidu::check
