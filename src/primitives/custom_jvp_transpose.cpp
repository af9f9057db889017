// custom_jvp_transpose.cpp - the transpose of a custom_jvp_call in the operands that it is linear in. It
// keeps the rule.
//
// Note [Derivative of a transposed rule]: let y = L(a) b be linear in b, with a rule that gives
// dy = L(a) db + M(a, b) da. The transpose b' = L(a)^T y' has db' = L(a)^T dy' + N^T y', where N is the map
// b -> M(a, b) da for this a and da: so M, which the rule gives for db = 0, is transposed in b.
#include <algorithm>

#include "primitives/custom_rules.hpp"
#include "primitives/implicit.hpp"
#include "primitives/scan.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/elementwise.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec transpose_attributes[] = {{"graph", AttributeKind::graph},
                                                  {"of", AttributeKind::graph},
                                                  {"jvp", AttributeKind::rule},
                                                  {"linear", AttributeKind::ints},
                                                  {"outputs", AttributeKind::ints}};

// The operation's attributes. Its operands: those of `of` that are not linear, in order, then a cotangent of
// each of `outputs`; its results: a cotangent of each of `linear`.
struct Parts {
  explicit Parts(const Op& op)
      : of(op.graph("of")), jvp(op.attribute("jvp")), is_linear(of.inputs().size(), false) {
    for (const std::int64_t i : op.ints("linear")) is_linear.at(static_cast<std::size_t>(i)) = true;
    for (const std::int64_t k : op.ints("outputs")) outputs.push_back(static_cast<std::size_t>(k));
    num_residuals = of.inputs().size() - op.ints("linear").size();
  }
  Type input(std::size_t i) const { return of.type(of.inputs()[i]); }
  Type output(std::size_t k) const { return of.type(of.outputs()[k]); }
  // One value for each input of `of`.
  template <class Residual, class Linear>
  std::vector<Value> arguments(const Residual& residual, const Linear& linear) const {
    std::vector<Value> values;
    std::size_t next = 0;
    for (std::size_t i = 0; i < is_linear.size(); ++i)
      values.push_back(is_linear[i] ? linear(i) : residual(next++));
    return values;
  }

  Values emit_call(Emitter& emitter, std::span<const Value> operands) const {
    return emitter.emit(Op::make(custom_jvp_call, {{"graph", of}, {"jvp", jvp}}), operands);
  }

  Graph of;
  Attribute jvp;
  std::vector<bool> is_linear;  // by input of `of`
  std::vector<std::size_t> outputs;
  std::size_t num_residuals;
};

void require_positions(const InferContext& c, const Ints& positions, std::string_view attribute,
                       const Graph& graph, std::span<const ValueId> ids) {
  std::int64_t previous = -1;
  for (const std::int64_t i : positions) {
    const bool inside = i > previous && i < static_cast<std::int64_t>(ids.size());
    c.require(inside && is_inexact(graph.type(ids[static_cast<std::size_t>(i)]).dtype()), "expected ",
              attribute, " to be ascending positions below ", ids.size(),
              " of floating or complex values, got ", i);
    previous = i;
  }
}

void infer_transpose(InferContext& c) {
  const Graph graph = c.op().graph("graph"), of = c.op().graph("of");
  infer_inner_graph(c, graph);
  require_positions(c, c.op().ints("linear"), "linear", of, of.inputs());
  require_positions(c, c.op().ints("outputs"), "outputs", of, of.outputs());
  require_jvp(c, of);
  const Parts parts(c.op());
  std::vector<Slot> inputs, outputs;
  for (std::size_t i = 0; i < parts.is_linear.size(); ++i) {
    if (parts.is_linear[i])
      outputs.push_back({parts.input(i), "the cotangent of input", i});
    else
      inputs.push_back({parts.input(i), "which is input", i});
  }
  for (const std::size_t k : parts.outputs) inputs.push_back({parts.output(k), "the cotangent of output", k});
  require_slots(c, graph, "graph", "input", graph.inputs(), inputs);
  require_slots(c, graph, "graph", "output", graph.outputs(), outputs);
}

// M of Note [Derivative of a transposed rule]: the tangents of parts.outputs. Inputs: those of `of`, then the
// tangents of active residuals.
Graph change_of_call(const Op& op, const Parts& parts, const std::vector<bool>& active) {
  GraphBuilder builder(parts.of.name() + ".tangent", parts.of.primitives());
  std::vector<Value> primals;
  for (std::size_t i = 0; i < active.size(); ++i)
    primals.push_back(builder.input(detail::str("x.", i), parts.input(i)));
  std::vector<Tracked> tangents;
  for (std::size_t i = 0; i < active.size(); ++i) {
    std::optional<Value> tangent;
    if (active[i]) tangent = builder.input(detail::str("tangent.", i), parts.input(i));
    tangents.push_back({tangent, parts.input(i), active[i], !active[i], !active[i]});
  }
  const Values results = parts.emit_call(builder, primals);
  RuleEvaluation evaluation(builder, custom_jvp_transpose.name);
  const Derivatives made = tangents_by_jvp(evaluation, jvp_of(op, parts.of), primals, tangents, results);
  std::vector<Value> outputs;
  for (const std::size_t k : parts.outputs)
    outputs.push_back(made[k] ? *made[k] : zeros(builder, parts.output(k)));
  return builder.build(outputs);
}

// N^T y' of the note, by linear input of `of`; nothing where no residual has a tangent.
std::vector<std::optional<Value>> tangents_by_residuals(JvpContext& c, const Parts& parts) {
  std::vector<bool> active, linear = parts.is_linear;
  std::vector<Tracked> operands, tangents;
  std::size_t next = 0;
  for (std::size_t i = 0; i < parts.is_linear.size(); ++i) {
    active.push_back(!parts.is_linear[i] && c.active(next));
    if (parts.is_linear[i]) continue;
    operands.push_back({c.primal(next), parts.input(i)});
    if (active.back()) tangents.push_back({c.tangent(next), parts.input(i), true});
    ++next;
  }
  std::vector<std::optional<Value>> result(parts.is_linear.size());
  if (tangents.empty()) return result;
  Graph change = change_of_call(c.op(), parts, active);
  linear.resize(change.inputs().size(), false);
  operands.insert(operands.end(), tangents.begin(), tangents.end());
  const std::vector<bool> depends = depending_on(change, linear);
  std::vector<std::size_t> outputs;
  for (std::size_t j = 0; j < parts.outputs.size(); ++j) {
    if (!depends[change.outputs()[j]]) continue;
    outputs.push_back(j);
    operands.push_back({c.primal(parts.num_residuals + j), parts.output(parts.outputs[j])});
  }
  if (outputs.empty()) return result;
  change = restricted(change, std::vector<bool>(linear.size(), true), outputs);
  const InnerTransposition inner =
      c.host().transpose(separated(change, linear), linear, std::vector<bool>(outputs.size(), true));
  RuleEvaluation evaluation(c.emitter(), custom_jvp_transpose.name);
  const std::vector<Tracked> made = evaluation.run(inner.graph, operands);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::optional<std::size_t>& at = inner.cotangent_of_input[i];
    if (at && made[*at].linear) result[i] = made[*at].value;
  }
  return result;
}

// See Note [Derivative of a transposed rule].
Derivatives jvp_transpose(JvpContext& c) {
  const Parts parts(c.op());
  std::vector<Value> operands;
  bool any = false;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const bool is_cotangent = i >= parts.num_residuals;
    any = any || (is_cotangent && c.active(i));
    operands.push_back(!is_cotangent ? c.primal(i)
                       : c.active(i) ? *c.tangent(i)
                                     : zeros(c.emitter(), c.primal(i).type()));
  }
  const std::vector<std::optional<Value>> by_residuals = tangents_by_residuals(c, parts);
  Values by_cotangents;
  if (any) by_cotangents = c.emitter().emit(c.op(), operands);
  Derivatives result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < parts.is_linear.size(); ++i) {
    if (!parts.is_linear[i]) continue;
    std::optional<Value> sum = by_residuals[i];
    if (any) sum = sum ? ops::add(*sum, by_cotangents[next]) : by_cotangents[next];
    result.push_back(sum);
    ++next;
  }
  return result;
}

// The call itself, on cotangents of the results.
Derivatives transpose_transpose(TransposeContext& c) {
  const Parts parts(c.op());
  for (std::size_t i = 0; i < parts.num_residuals; ++i) {
    if (!c.linear(i)) continue;
    throw Error(ErrorKind::invalid_argument,
                detail::str("expected an operation that is linear in operands from ", parts.num_residuals,
                            " on, got operand ", i, " depending on the linear inputs"));
  }
  std::size_t next = 0;
  const std::vector<Value> operands = parts.arguments([&](std::size_t i) { return c.operand(i); },
                                                      [&](std::size_t i) {
                                                        const std::optional<Value> ct = c.cotangent(next++);
                                                        return ct ? *ct : zeros(c.emitter(), parts.input(i));
                                                      });
  const Values results = parts.emit_call(c.emitter(), operands);
  Derivatives derivatives = Derivatives::absent(c.num_operands());
  for (std::size_t j = 0; j < parts.outputs.size(); ++j) {
    const std::size_t operand = parts.num_residuals + j;
    if (c.linear(operand)) derivatives.set(operand, results[parts.outputs[j]]);
  }
  return derivatives;
}

// Everything carries the axis but residuals that do not.
Values batch_transpose(BatchContext& c) {
  const Parts parts(c.op());
  std::vector<bool> of_inputs, operands_batched = batched_operands(c);
  std::vector<Value> operands = operands_of(c);
  std::size_t next = 0;
  for (const bool linear : parts.is_linear) of_inputs.push_back(linear || operands_batched[next++]);
  for (std::size_t i = parts.num_residuals; i < operands.size(); ++i) {
    if (!operands_batched[i]) operands[i] = broadcast_to_batch(operands[i], c.size());
    operands_batched[i] = true;
  }
  std::vector<bool> jvp_inputs = of_inputs;
  for (const std::size_t i : inexact_positions(parts.of, parts.of.inputs()))
    jvp_inputs.push_back(of_inputs[i]);
  const Op op = Op::make(custom_jvp_transpose,
                         {{"graph", c.host().batch(c.op().graph("graph"), operands_batched, c.size())},
                          {"of", c.host().batch(parts.of, of_inputs, c.size())},
                          {"jvp", batched_rule(c, "jvp", jvp_inputs)},
                          {"linear", c.op().ints("linear")},
                          {"outputs", c.op().ints("outputs")}});
  return c.emitter().emit(op, operands);
}

}  // namespace

Derivatives transpose_custom_jvp_call(TransposeContext& c) {
  const Graph of = c.op().graph("graph");
  std::vector<bool> linear;
  std::vector<Value> operands;
  Ints positions, outputs;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    linear.push_back(c.linear(i));
    if (c.linear(i))
      positions.push_back(static_cast<std::int64_t>(i));
    else
      operands.push_back(c.operand(i));
  }
  const std::vector<bool> depends = depending_on(of, linear);
  std::vector<std::size_t> seeded;
  for (std::size_t slot = 0; slot < c.num_results(); ++slot) {
    if (!depends[of.outputs()[slot]] || !c.cotangent(slot)) continue;
    seeded.push_back(slot);
    outputs.push_back(static_cast<std::int64_t>(slot));
    operands.push_back(*c.cotangent(slot));
  }
  if (seeded.empty()) return Derivatives::absent(c.num_operands());
  const Graph wanted = restricted(of, std::vector<bool>(c.num_operands(), true), seeded);
  const Op op = Op::make(custom_jvp_transpose, {{"graph", transposed_graph(c.host(), wanted, linear)},
                                                {"of", of},
                                                {"jvp", c.op().attribute("jvp")},
                                                {"linear", positions},
                                                {"outputs", outputs}});
  const Values cotangents = c.emitter().emit(op, operands);
  Derivatives result = Derivatives::absent(c.num_operands());
  for (std::size_t j = 0; j < positions.size(); ++j)
    result.set(static_cast<std::size_t>(positions[j]), cotangents[j]);
  return result;
}

// b' = graph(a, y'), the transpose of y = of(a, b) in b
constinit const Primitive custom_jvp_transpose{.name = "custom_jvp_transpose",
                                               .arity = variadic,
                                               .num_outputs = variadic,
                                               .attributes = transpose_attributes,
                                               .traits = Trait::holds_graph,
                                               .linearity = linearity::linear,
                                               .infer = infer_transpose,
                                               .jvp = jvp_transpose,
                                               .transpose = transpose_transpose,
                                               .batch = batch_transpose};

}  // namespace tidu::prim
