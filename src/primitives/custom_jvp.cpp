// custom_jvp.cpp - custom_jvp_call. Its JVP rule evaluates the user's graph on primals and tangents:
// operations on a tangent are linear and go to the linear graph, the others are residual. Its transpose is a
// custom_jvp_transpose.
#include <algorithm>

#include "primitives/custom_rules.hpp"
#include "tidu/primitives/custom.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {
namespace {

constexpr AttributeSpec graph_and_jvp[] = {{"graph", AttributeKind::graph}, {"jvp", AttributeKind::rule}};

void infer_custom_jvp(InferContext& c) {
  const Graph graph = c.op().graph("graph");
  infer_inner_graph(c, graph);
  require_jvp(c, graph);
}

void require_primal_results(const RuleEvaluation& evaluation, const Graph& jvp, std::size_t count,
                            const std::vector<bool>& tangents) {
  const std::vector<bool> depends = depending_on(jvp, tangents);
  for (std::size_t k = 0; k < count; ++k) {
    if (!depends[jvp.outputs()[k]]) continue;
    throw evaluation.bent(detail::str("expected output ", k, " of graph jvp (", detail::in_quotes(jvp.name()),
                                      "), which is output ", k, " of graph, not to depend on tangents"));
  }
}

}  // namespace

void require_jvp(const InferContext& c, const Graph& graph) {
  if (is_deferred(c.op(), "jvp")) return;
  const Graph jvp = c.op().graph("jvp");
  std::vector<Slot> inputs, outputs;
  append_slots(inputs, graph, graph.inputs(), "which is input");
  append_slots(inputs, graph, graph.inputs(), "the tangent of input", true);
  append_slots(outputs, graph, graph.outputs(), "which is output");
  append_slots(outputs, graph, graph.outputs(), "the tangent of output", true);
  require_slots(c, jvp, "jvp", "input", jvp.inputs(), inputs);
  require_slots(c, jvp, "jvp", "output", jvp.outputs(), outputs);
}

Derivatives tangents_by_jvp(RuleEvaluation& evaluation, const Graph& rule, std::span<const Value> primals,
                            const std::vector<Tracked>& tangents, const Values& results) {
  const Graph jvp = eliminate_dead_code(rule);
  std::vector<Tracked> inputs;
  std::vector<bool> active(primals.size(), false);
  for (const Value& primal : primals) inputs.push_back({primal, primal.type()});
  for (const Tracked& tangent : tangents) {
    if (!is_inexact(tangent.type.dtype())) continue;
    inputs.push_back(tangent);
    active.push_back(tangent.linear);
  }
  const std::size_t count = results.size();
  require_primal_results(evaluation, jvp, count, active);
  const std::vector<Tracked> outputs =
      evaluation.run(jvp, inputs, results_known(jvp, {results.data(), count}));
  Derivatives derivatives;
  std::size_t at = count;
  for (const Value& result : results) {
    if (!is_inexact(result.dtype())) {
      derivatives.push_back(std::nullopt);
      continue;
    }
    const Tracked& tangent = outputs[at];
    if (!tangent.linear && !tangent.zero) {
      throw evaluation.bent(detail::str("expected output ", at, " of graph jvp (",
                                        detail::in_quotes(jvp.name()),
                                        "), a tangent, to depend on tangents or to be made of zeros"));
    }
    derivatives.push_back(tangent.linear ? tangent.value : std::nullopt);
    ++at;
  }
  return derivatives;
}

namespace {

Derivatives jvp_custom_jvp(JvpContext& c) {
  const Graph jvp = jvp_of(c.op(), c.op().graph("graph"));
  const Values results = emit_results(c, jvp);
  RuleEvaluation evaluation(c.emitter(), custom_jvp_call.name);
  std::vector<Tracked> given;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const std::optional<Value> tangent = c.tangent(i);
    given.push_back({tangent, c.primal(i).type(), tangent.has_value(), !tangent, !tangent});
  }
  return tangents_by_jvp(evaluation, jvp, c.primals(), given, results);
}

Values batch_custom_jvp(BatchContext& c) {
  const Graph graph = c.op().graph("graph");
  std::vector<bool> batched = batched_operands(c);
  const Graph mapped = c.host().batch(graph, batched, c.size());
  for (const std::size_t i : inexact_positions(graph, graph.inputs())) batched.push_back(batched[i]);
  const Op op = Op::make(custom_jvp_call, {{"graph", mapped}, {"jvp", batched_rule(c, "jvp", batched)}});
  return c.emitter().emit(op, operands_of(c));
}

}  // namespace

// y = graph(x)          (y, dy) = jvp(x, dx), with the y of the call
constinit const Primitive custom_jvp_call{.name = "custom_jvp_call",
                                          .arity = variadic,
                                          .num_outputs = variadic,
                                          .attributes = graph_and_jvp,
                                          .traits = Trait::holds_graph,
                                          .linearity = linearity::linear,
                                          .infer = infer_custom_jvp,
                                          .jvp = jvp_custom_jvp,
                                          .transpose = transpose_custom_jvp_call,
                                          .batch = batch_custom_jvp};

}  // namespace tidu::prim

namespace tidu::ops {

Values custom_jvp_call(Emitter& emitter, const Graph& graph, const Graph& jvp,
                       std::span<const Value> operands, Where where) {
  return emitter.emit(Op::make(prim::custom_jvp_call, {{"graph", graph}, {"jvp", jvp}}), operands, where);
}

Values custom_jvp_call(const Graph& graph, const Graph& jvp, std::span<const Value> operands, Where where) {
  return emit(Op::make(prim::custom_jvp_call, {{"graph", graph}, {"jvp", jvp}}), operands, where);
}

}  // namespace tidu::ops
