// custom_rules.cpp - see custom_rules.hpp.
#include "primitives/custom_rules.hpp"

#include <numeric>

#include "tidu/primitives/custom.hpp"

namespace tidu::prim {
namespace {

// Its first outputs, by its first inputs.
Graph first_outputs(const Graph& graph, std::size_t num_inputs, std::size_t num_outputs) {
  std::vector<bool> inputs(graph.inputs().size(), false);
  std::fill_n(inputs.begin(), num_inputs, true);
  std::vector<std::size_t> outputs(num_outputs);
  std::iota(outputs.begin(), outputs.end(), std::size_t{0});
  return restricted(graph, inputs, outputs);
}

}  // namespace

// See Note [Results of a rule].
Values emit_results(JvpContext& c, std::string_view rule) {
  const Graph graph = c.op().graph("graph");
  const std::size_t inputs = graph.inputs().size(), outputs = graph.outputs().size();
  const Graph by_rule = first_outputs(c.op().graph(rule), inputs, outputs);
  Op op = c.op();
  if (by_rule.structural_key() != first_outputs(graph, inputs, outputs).structural_key()) {
    Attributes attributes = op.attributes();
    for (auto& [name, value] : attributes) {
      if (name == "graph") value = by_rule;
    }
    op = Op::make(op.primitive(), std::move(attributes));
  }
  const Values results = c.emitter().emit(op, c.primals());
  c.host().replace_results(std::span<const Value>(results.data(), results.size()));
  return results;
}

std::vector<std::optional<Tracked>> results_known(const Graph& rule, std::span<const Value> results) {
  std::vector<std::optional<Tracked>> known(rule.num_values());
  const std::vector<bool> computed = depending_on(rule, std::vector<bool>(rule.inputs().size(), true));
  for (std::size_t k = 0; k < results.size(); ++k) {
    const ValueId id = rule.outputs()[k];
    if (computed[id] && rule.producer(id) && !known[id]) known[id] = Tracked{results[k], results[k].type()};
  }
  return known;
}

std::optional<std::size_t> residuals_of_linear(const Operation& operation) {
  if (operation.name() == linear_call.name)
    return static_cast<std::size_t>(operation.op().integer("num_residuals"));
  if (operation.name() == custom_jvp_transpose.name)
    return operation.num_inputs() - operation.op().ints("outputs").size();
  return std::nullopt;
}

bool linear_by_rule(const Op& op, const std::vector<bool>& operands) {
  const Graph graph = op.graph("graph"), forward = op.graph("forward"), backward = op.graph("backward");
  const std::vector<std::size_t> inexact = inexact_positions(graph, graph.inputs());
  std::vector<ValueId> cotangents;
  for (std::size_t k = 0; k < inexact.size(); ++k) {
    if (operands[inexact[k]]) cotangents.push_back(backward.outputs()[k]);
  }
  const std::vector<bool> read = reachable(backward, cotangents), depends = depending_on(forward, operands);
  const std::span<const ValueId> residuals = forward.outputs().subspan(graph.outputs().size());
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    if (read[backward.inputs()[r]] && depends[residuals[r]]) return false;
  }
  return true;
}

}  // namespace tidu::prim
