// custom_rules.cpp - see custom_rules.hpp.
#include "primitives/custom_rules.hpp"

#include <numeric>

#include "tidu/graph/deferred_graph.hpp"
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

using Types = std::vector<Type>;

Types operator+(Types types, const Types& more) {
  types.insert(types.end(), more.begin(), more.end());
  return types;
}

Types types_of(const Graph& graph, std::span<const ValueId> ids, bool inexact_only = false) {
  Types types;
  for (const ValueId id : ids) {
    if (!inexact_only || is_inexact(graph.type(id).dtype())) types.push_back(graph.type(id));
  }
  return types;
}

void require_types(const Op& op, std::string_view attribute, const Graph& graph, std::span<const ValueId> ids,
                   const Types& expected, std::string_view which, bool more) {
  const auto refuse = [&](const auto&... what) {
    throw Error(ErrorKind::type, detail::str('[', op.name(), "] expected ", what..., " of graph ", attribute,
                                             " (", detail::in_quotes(graph.name()), ')'));
  };
  if (ids.size() < expected.size() || (!more && ids.size() > expected.size()))
    refuse(expected.size(), more ? " or more " : " ", which, "s, got ", ids.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (graph.type(ids[i]) != expected[i])
      refuse(expected[i], " for ", which, ' ', i, ", got ", graph.type(ids[i]));
  }
}

// The graph of an attribute, checked where that was not done when the operation was made.
Graph rule_of(const Op& op, std::string_view attribute, const Types& inputs, const Types& outputs,
              bool more_outputs = false) {
  Graph graph = op.graph(attribute);
  if (!is_deferred(op, attribute)) return graph;
  require_types(op, attribute, graph, graph.inputs(), inputs, "input", false);
  require_types(op, attribute, graph, graph.outputs(), outputs, "output", more_outputs);
  return graph;
}

}  // namespace

bool is_deferred(const Op& op, std::string_view attribute) {
  return op.attribute(attribute).get_if<std::shared_ptr<const DeferredGraph>>() != nullptr;
}

Graph jvp_of(const Op& op, const Graph& graph) {
  return rule_of(op, "jvp", types_of(graph, graph.inputs()) + types_of(graph, graph.inputs(), true),
                 types_of(graph, graph.outputs()) + types_of(graph, graph.outputs(), true));
}

VjpGraphs::VjpGraphs(const Op& op) : graph(op.graph("graph")) {
  const Types results = types_of(graph, graph.outputs());
  forward = rule_of(op, "forward", types_of(graph, graph.inputs()), results, true);
  const Types residuals = types_of(forward, forward.outputs().subspan(results.size()));
  backward = rule_of(op, "backward", residuals + types_of(graph, graph.outputs(), true),
                     types_of(graph, graph.inputs(), true));
}

Attribute batched_rule(BatchContext& c, std::string_view attribute, const std::vector<bool>& inputs) {
  if (!is_deferred(c.op(), attribute)) return c.host().batch(c.op().graph(attribute), inputs, c.size());
  const auto rule = *c.op().attribute(attribute).get_if<std::shared_ptr<const DeferredGraph>>();
  Key128 key = detail::mix(detail::mix(rule->key(), "batched"), static_cast<std::uint64_t>(c.size()));
  for (const bool batched : inputs) key = detail::mix(key, static_cast<std::uint64_t>(batched));
  return std::make_shared<const DeferredGraph>(rule->name(), key,
                                               [rule, inputs, size = c.size(), host = c.host().later()] {
                                                 return host->batch(rule->get(), inputs, size);
                                               });
}

// See Note [Results of a rule].
Values emit_results(JvpContext& c, const Graph& rule) {
  const Graph graph = c.op().graph("graph");
  const std::size_t inputs = graph.inputs().size(), outputs = graph.outputs().size();
  const Graph by_rule = first_outputs(rule, inputs, outputs);
  Op op = c.op();
  if (by_rule.structural_key() != first_outputs(graph, inputs, outputs).structural_key()) {
    Attributes attributes = op.attributes();
    for (auto& [name, value] : attributes) {
      if (name == "graph") value = by_rule;
    }
    op = Op::make(op.primitive(), std::move(attributes));
  }
  Values results = c.emitter().emit(op, c.primals());
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
  if (operation.name() == custom_linear_solve.name)
    return static_cast<std::size_t>(operation.op().integer("num_consts"));
  return std::nullopt;
}

bool linear_by_rule(const Op& op, const std::vector<bool>& operands) {
  const VjpGraphs graphs(op);
  const Graph &graph = graphs.graph, &forward = graphs.forward, &backward = graphs.backward;
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
