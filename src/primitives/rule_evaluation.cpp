// rule_evaluation.cpp - see rule_evaluation.hpp.
#include "primitives/rule_evaluation.hpp"

#include <algorithm>
#include <memory>

#include "primitives/affine.hpp"
#include "primitives/custom_rules.hpp"
#include "tidu/graph/region_bindings.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

bool any_linear(const std::vector<Tracked>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const Tracked& t) { return t.linear; });
}
bool any_vanishes(const std::vector<Tracked>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const Tracked& t) { return t.vanishes; });
}
std::vector<bool> are_tangents(const std::vector<Tracked>& operands) {
  std::vector<bool> flags;
  for (const Tracked& operand : operands) flags.push_back(operand.linear || operand.vanishes);
  return flags;
}

bool has_graph(const Primitive& primitive) {
  return std::any_of(primitive.attributes.begin(), primitive.attributes.end(),
                     [](const AttributeSpec& spec) { return spec.name == "graph"; });
}
bool has_user_rule(const Operation& operation) {
  return operation.name() == custom_jvp_call.name || operation.name() == custom_vjp_call.name;
}

// Operations that are linear in their last operands by construction stay, if the others are primal.
bool linear_as_it_is(const Operation& operation, const std::vector<Tracked>& operands) {
  const std::optional<std::size_t> residuals = residuals_of_linear(operation);
  return residuals &&
         std::all_of(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(*residuals),
                     [](const Tracked& t) { return t.value && !t.linear; });
}

// Were the tangents there, the operation would be linear in them.
bool gives_vanishing(const Operation& operation, const std::vector<Tracked>& operands) {
  if (operation.primitive().has_trait(Trait::holds_graph) || any_linear(operands)) return false;
  const auto flags = std::make_unique<bool[]>(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) flags[i] = operands[i].vanishes;
  return any_vanishes(operands) &&
         operation.primitive().linearity.allows(std::span<const bool>(flags.get(), operands.size()));
}

// Which operations have to run for these outputs, where some values are known; those with effects do.
std::vector<bool> needed_operations(const Graph& graph, const std::vector<std::optional<Tracked>>& known) {
  std::vector<bool> values(graph.num_values(), false), operations(graph.num_operations(), false);
  for (const ValueId id : graph.outputs()) values[id] = true;
  for (std::size_t i = graph.num_operations(); i-- > 0;) {
    const Operation operation = graph.operation(i);
    bool needed = operation.is_impure();
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      const ValueId id = operation.output(slot);
      needed = needed || (values[id] && !known[id]);
    }
    operations[i] = needed;
    if (!needed) continue;
    for (const ValueId id : operation.inputs()) values[id] = true;
  }
  return operations;
}

}  // namespace

Value RuleEvaluation::made(Tracked& tracked) {
  if (!tracked.value) tracked.value = zeros(emitter_, tracked.type);
  return *tracked.value;
}

ADRuleError RuleEvaluation::bent(const std::string& message) const {
  return {ADRuleError::Rule::jvp, std::string(primitive_), std::nullopt, message};
}

std::vector<Tracked> RuleEvaluation::run(const Graph& graph, const std::vector<Tracked>& inputs,
                                         const std::vector<std::optional<Tracked>>& known) {
  const bool some_known = !known.empty();
  const std::vector<bool> needed = some_known ? needed_operations(graph, known) : std::vector<bool>();
  std::vector<Tracked> values(graph.num_values()), operands, outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    std::vector<Tracked> results(operation.num_outputs());
    if (!some_known || needed[i]) {
      operands.clear();
      for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
      results = apply(graph, operation, operands);
    }
    for (std::size_t slot = 0; slot < results.size(); ++slot) {
      const ValueId id = operation.output(slot);
      values[id] = some_known && known[id] ? *known[id] : results[slot];
      values[id].type = graph.type(id);
    }
  }
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return outputs;
}

std::vector<Tracked> RuleEvaluation::apply(const Graph& graph, const Operation& operation,
                                           std::vector<Tracked>& operands) {
  const Primitive& primitive = operation.primitive();
  const bool zero = gives_zeros(operation, [&](std::size_t i) { return operands[i].zero; });
  const bool known =
      std::all_of(operands.begin(), operands.end(), [](const Tracked& t) { return t.value && !t.linear; });
  if (known) return emit(operation.op(), operands, zero);
  const bool vanishes = gives_vanishing(operation, operands);
  if (zero || vanishes)
    return std::vector<Tracked>(operation.num_outputs(), Tracked{{}, Type(), false, true, vanishes});
  if (primitive.has_trait(Trait::barrier)) return pass_barrier(operation.op(), operands);
  if (has_user_rule(operation)) return keep_rule(graph, operation, operands);
  if (primitive.has_trait(Trait::holds_graph) && !has_graph(primitive))
    return control_flow(graph, operation, operands);
  if (primitive.has_trait(Trait::holds_graph)) {
    if (!linear_as_it_is(operation, operands)) return run(operation.op().graph("graph"), operands);
    if (!any_linear(operands) && any_vanishes(operands))
      return std::vector<Tracked>(operation.num_outputs(), Tracked{{}, Type(), false, true, true});
  } else if (std::optional<Tracked> sum = sum_with_zero(graph, operation, operands)) {
    return {*sum};
  }
  for (Tracked& operand : operands) made(operand);
  if (any_linear(operands)) require_linear(graph, operation, operands);
  return emit(operation.op(), operands, false);
}

std::vector<Tracked> RuleEvaluation::emit(const Op& op, const std::vector<Tracked>& operands, bool zero) {
  std::vector<Value> values;
  for (const Tracked& operand : operands) values.push_back(*operand.value);
  const bool linear = any_linear(operands);
  std::vector<Tracked> results;
  for (const Value& value : emitter_.emit(op, values))
    results.push_back({value, value.type(), linear, zero, false});
  return results;
}

// Tangents pass through their own barrier.
std::vector<Tracked> RuleEvaluation::pass_barrier(const Op& op, const std::vector<Tracked>& operands) {
  std::vector<Tracked> results = operands;
  for (const bool linear : {false, true}) {
    std::vector<Value> group;
    for (const Tracked& operand : operands) {
      if (operand.value && operand.linear == linear) group.push_back(*operand.value);
    }
    if (group.empty()) continue;
    const Values passed = emitter_.emit(op, group);
    std::size_t next = 0;
    for (Tracked& result : results) {
      if (result.value && result.linear == linear) result.value = passed[next++];
    }
  }
  return results;
}

// An operation with a rule of its own has to be linear in tangents, by its graph or by its rule. Results that
// depend on tangents are those of one operation, the others those of another, whose tangents do not count.
std::vector<Tracked> RuleEvaluation::keep_rule(const Graph& graph, const Operation& operation,
                                               const std::vector<Tracked>& operands) {
  std::vector<Tracked> results = tried(graph, operation, operands);
  const bool linear = any_linear(results);
  const bool primal = std::any_of(results.begin(), results.end(),
                                  [](const Tracked& t) { return !t.linear && !t.zero && !t.vanishes; });
  std::vector<Tracked> of_tangents, of_primals;
  if (linear) {
    std::vector<Tracked> given = operands;
    for (Tracked& operand : given) made(operand);
    of_tangents = emit(operation.op(), given, false);
  }
  if (primal) of_primals = without_tangents(operation, operands);
  for (std::size_t k = 0; k < results.size(); ++k) {
    Tracked& result = results[k];
    if (result.linear)
      result = of_tangents[k];
    else if (result.zero || result.vanishes)
      result.value.reset();
    else
      result = of_primals[k];
  }
  return results;
}

// The standing of the operation's results, by a trial run of its graph in a separate builder.
std::vector<Tracked> RuleEvaluation::tried(const Graph& graph, const Operation& operation,
                                           const std::vector<Tracked>& operands) const {
  const Graph inner = operation.op().graph("graph");
  GraphBuilder::Options options;
  options.record_where = false;
  GraphBuilder trial(inner.name(), graph.primitives(), options);
  std::vector<Tracked> inputs = operands;
  for (Tracked& input : inputs) {
    if (input.value) input.value = trial.input(detail::str('x', &input - inputs.data()), input.value->type());
  }
  try {
    return RuleEvaluation(trial, primitive_).run(inner, inputs);
  } catch (const ADRuleError&) {
    const std::vector<bool> tangents = are_tangents(operands);
    if (operation.name() != custom_vjp_call.name || !linear_by_rule(operation.op(), tangents)) throw;
    const std::vector<bool> depends = depending_on(inner, tangents);
    std::vector<Tracked> results;
    for (const ValueId id : inner.outputs())
      results.push_back({{}, inner.type(id), depends[id] && any_linear(operands), false, depends[id]});
    return results;
  }
}

// Such an operation stays one, and has to be linear in all operands that depend on tangents. Results that do
// not depend on them are computed by a primal one, whose tangents are dropped.
std::vector<Tracked> RuleEvaluation::control_flow(const Graph& graph, const Operation& operation,
                                                  const std::vector<Tracked>& operands) {
  std::vector<Tracked> given = operands, results(operation.num_outputs(), Tracked{{}, {}, false, true, true});
  const std::vector<bool> tangents = are_tangents(operands);
  if (any_linear(operands)) {
    std::vector<Standing> standings;
    for (std::size_t i = 0; i < operands.size(); ++i) standings.push_back({tangents[i], operands[i].zero});
    if (const std::optional<std::string> sum = affine_sum(operation, standings)) {
      throw bent(detail::str("expected graph jvp (", detail::in_quotes(graph.name()),
                             ") to be linear in its tangents, got a sum of one and of what neither depends "
                             "on tangents nor is zero by its making: ",
                             *sum));
    }
    for (Tracked& operand : given) made(operand);
    require_linear(graph, operation, given);
    results = emit(operation.op(), given, false);
  }
  const std::vector<bool> depends = depending_results(operation, tangents);
  if (std::find(depends.begin(), depends.end(), false) == depends.end()) return results;
  const std::vector<Tracked> primals = without_tangents(operation, operands);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!depends[k]) results[k] = primals[k];
  }
  return results;
}

// The results of the operation with zeros for tangents.
std::vector<Tracked> RuleEvaluation::without_tangents(const Operation& operation,
                                                      std::vector<Tracked> operands) {
  for (Tracked& operand : operands) {
    if (operand.linear || operand.vanishes) operand = Tracked{{}, operand.type};
    made(operand);
  }
  return emit(operation.op(), operands, false);
}

std::optional<Tracked> RuleEvaluation::sum_with_zero(const Graph& graph, const Operation& operation,
                                                     const std::vector<Tracked>& operands) {
  const PrimitiveSet::TransformOps& transform_ops = graph.primitives().transform_ops();
  const Primitive* primitive = &operation.primitive();
  if (primitive != transform_ops.add && primitive != transform_ops.sub) return std::nullopt;
  if (operands[1].zero) return operands[0];
  if (!operands[0].zero) return std::nullopt;
  if (primitive == transform_ops.add) return operands[1];
  return emit(Op::make(*transform_ops.neg), {operands[1]}, false)[0];
}

void RuleEvaluation::require_linear(const Graph& graph, const Operation& operation,
                                    const std::vector<Tracked>& operands) const {
  const auto flags = std::make_unique<bool[]>(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) flags[i] = operands[i].linear;
  const std::size_t residuals = residuals_of_linear(operation).value_or(0);
  if (operation.primitive().linearity.allows(std::span<const bool>(flags.get(), operands.size())) &&
      std::find(flags.get(), flags.get() + residuals, true) == flags.get() + residuals)
    return;
  throw bent(detail::str("expected graph jvp (", detail::in_quotes(graph.name()),
                         ") to be linear in its tangents, got ", operation.name(), " of them ",
                         describe_operation(graph, static_cast<std::uint32_t>(operation.index()))));
}

}  // namespace tidu::prim
