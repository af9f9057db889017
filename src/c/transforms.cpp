// transforms.cpp - transforms of graphs, with inputs by position.
#include "c/support.hpp"
#include "linearize/rule_call.hpp"
#include "tidu/optimizer/optimize.hpp"

using namespace tidu;
using namespace tidu::c_detail;
using tidu::detail::str;

namespace {

using Transform = Graph (*)(const Graph&, const Names&, const DerivativeOptions&);

DerivativeOptions options_from(const Call& call, const tidu_derivative_options* given) {
  const tidu_derivative_options read = options_of(call, given, "options");
  DerivativeOptions options;
  options.named_inputs = read.named_inputs != 0;
  options.has_aux = read.has_aux != 0;
  options.wide_accumulation = read.narrow_accumulation == 0;
  return options;
}

tidu_status derive(const char* function, Transform transform, const tidu_graph* graph, const size_t* wrt,
                   size_t num_wrt, const tidu_derivative_options* options, tidu_graph** result) {
  clear(result);
  return guarded(function, [&](const Call& call) {
    const Graph& g = call.need(graph, "graph").graph;
    call.need(result, "result");
    const Names names = names_at(g, positions(call, wrt, num_wrt, g.inputs().size(), "wrt"));
    *result = new tidu_graph(transform(g, names, options_from(call, options)));
  });
}

// Residuals become outputs of the one graph and inputs of the other.
Graph with_residuals(const Linearization& lin) {
  const auto builder = GraphBuilder::extending(lin.augmented);
  std::vector<ValueId> outputs(lin.augmented.outputs().begin(), lin.augmented.outputs().end());
  outputs.insert(outputs.end(), lin.residuals.begin(), lin.residuals.end());
  return prune(builder->build_ids(std::move(outputs)));
}

Graph closed_linear(const Linearization& lin) {
  GraphBuilder builder(str(lin.primal.name(), ".linear"), lin.primal.primitives());
  std::vector<ValueId> values(lin.linear.num_values(), no_index);
  for (std::size_t i = 0; i < lin.residuals.size(); ++i) {
    const ValueId id = lin.linear.externals()[i];
    values[id] = builder.input(str("residual.", i), lin.linear.type(id)).id();
  }
  for (std::size_t i = 0; i < lin.wrt.size(); ++i) {
    const ValueId id = lin.linear.inputs()[i];
    values[id] = builder.input(str("tangent.", lin.wrt[i]), lin.linear.type(id)).id();
  }
  tidu::detail::copy_linear(builder, lin.linear, values);
  std::vector<ValueId> outputs;
  for (const ValueId id : lin.linear.outputs()) outputs.push_back(values[id]);
  return builder.build_ids(std::move(outputs));
}

void give_positions(const std::vector<std::optional<std::size_t>>& from, std::uint32_t* to) {
  if (to == nullptr) return;
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = from[i] ? static_cast<std::uint32_t>(*from[i]) : TIDU_ABSENT;
}

}  // namespace

#define TIDU_C_DERIVATIVE(name)                                                          \
  tidu_status tidu_##name(const tidu_graph* graph, const size_t* wrt, size_t num_wrt,    \
                          const tidu_derivative_options* options, tidu_graph** result) { \
    return derive(__func__, tidu::name, graph, wrt, num_wrt, options, result);           \
  }
TIDU_C_DERIVATIVE(jvp)
TIDU_C_DERIVATIVE(vjp)
TIDU_C_DERIVATIVE(grad)
TIDU_C_DERIVATIVE(value_and_grad)
TIDU_C_DERIVATIVE(hvp)
TIDU_C_DERIVATIVE(jacfwd)
TIDU_C_DERIVATIVE(jacrev)
TIDU_C_DERIVATIVE(hessian)
#undef TIDU_C_DERIVATIVE

tidu_status tidu_linearize(const tidu_graph* graph, const size_t* wrt, size_t num_wrt, tidu_graph** augmented,
                           tidu_graph** linear, size_t* num_residuals, uint32_t* tangent_of_output) {
  clear(augmented);
  clear(linear);
  if (num_residuals != nullptr) *num_residuals = 0;
  clear(tangent_of_output, tidu_graph_num_outputs(graph));
  return guarded(__func__, [&](const Call& call) {
    const Graph& g = call.need(graph, "graph").graph;
    call.need(augmented, "augmented");
    call.need(linear, "linear");
    call.need(num_residuals, "num_residuals");
    LinearizeOptions options;
    if (num_wrt != 0) options.wrt = positions(call, wrt, num_wrt, g.inputs().size(), "wrt");
    const Linearization lin = linearize(g, options);
    auto first = std::make_unique<tidu_graph>(with_residuals(lin));
    auto second = std::make_unique<tidu_graph>(closed_linear(lin));
    *augmented = first.release();
    *linear = second.release();
    *num_residuals = lin.residuals.size();
    give_positions(lin.tangent_of_output, tangent_of_output);
  });
}

tidu_status tidu_linear_transpose(const tidu_graph* linear, const size_t* linear_inputs,
                                  size_t num_linear_inputs, tidu_graph** transposed,
                                  uint32_t* cotangent_of_input) {
  clear(transposed);
  clear(cotangent_of_input, num_linear_inputs != 0 ? num_linear_inputs : tidu_graph_num_inputs(linear));
  return guarded(__func__, [&](const Call& call) {
    const Graph& g = call.need(linear, "linear").graph;
    call.need(transposed, "transposed");
    TransposeOptions options;
    if (num_linear_inputs != 0) {
      options.linear_inputs =
          positions(call, linear_inputs, num_linear_inputs, g.inputs().size(), "linear_inputs");
    }
    const Transposition made = linear_transpose(g, options);
    *transposed = new tidu_graph(made.graph);
    give_positions(made.cotangent_of_input, cotangent_of_input);
  });
}

tidu_status tidu_vmap(const tidu_graph* graph, int64_t size, const uint8_t* batched, tidu_graph** result) {
  clear(result);
  return guarded(__func__, [&](const Call& call) {
    const Graph& g = call.need(graph, "graph").graph;
    call.need(result, "result");
    BatchOptions options;
    if (batched != nullptr) {
      options.inputs.emplace();
      for (std::size_t i = 0; i < g.inputs().size(); ++i) options.inputs->push_back(batched[i] != 0);
    }
    *result = new tidu_graph(batch(g, size, options).graph);
  });
}

tidu_status tidu_optimize(const tidu_graph* graph, tidu_graph** result) {
  clear(result);
  return guarded(__func__, [&](const Call& call) {
    const Graph& g = call.need(graph, "graph").graph;
    call.need(result, "result");
    *result = new tidu_graph(optimize(g));
  });
}
