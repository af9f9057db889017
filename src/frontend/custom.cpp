// custom.cpp - see custom.hpp: a graph of one operation, called.
#include "tidu/frontend/custom.hpp"

#include <functional>

#include "frontend/context.hpp"
#include "tidu/frontend/modes.hpp"

namespace tidu::frontend_detail {

std::vector<Array> call_operation(std::string_view name, const std::vector<Array>& arguments,
                                  const std::function<Values(Emitter&, std::span<const Value>)>& emit,
                                  Where where, std::span<const Graph> bodies) {
  std::optional<Graph> graph;
  try {
    GraphBuilder builder{std::string(name), standard_primitives()};
    for (const Graph& body : bodies) builder.extend_primitives(body.primitives());
    std::vector<Value> inputs;
    for (const Array& argument : arguments)
      inputs.push_back(builder.input(detail::str('x', inputs.size()), argument.type()));
    const Values results = emit(builder, inputs);
    graph = builder.build(std::span<const Value>(results.data(), results.size()));
  } catch (const Error& error) {
    raise_located(error, name, types_of(arguments), where);
  }
  return call_graph(*graph, arguments, where);
}

Graph close_rule(const Traced& traced, std::string_view custom, Where where) {
  for (const Array& array : traced.captured) {
    const bool differentiated = array.requires_grad() && grad_enabled();
    if (!differentiated && !array.is_traced()) continue;
    refuse(ErrorKind::invalid_argument, custom,
           detail::str("expected functions of their arguments and of data, got one (",
                       detail::in_quotes(traced.graph.name()), ") that captures an Array (", array.type(),
                       ") ", differentiated ? "that requires a gradient" : "of another trace",
                       ": pass it as an argument, or what it holds where it is a constant, detach()"),
           where);
  }
  return closed(traced, where);
}

std::vector<Array> call_custom_jvp(const Graph& graph, const Graph& jvp, const std::vector<Array>& arguments,
                                   Where where) {
  const auto emit = [&](Emitter& emitter, std::span<const Value> operands) {
    return ops::custom_jvp_call(emitter, graph, jvp, operands, where);
  };
  const Graph bodies[] = {graph, jvp};
  return call_operation("custom_jvp", arguments, emit, where, bodies);
}

std::vector<Array> call_custom_vjp(const Graph& graph, const Graph& forward, const Graph& backward,
                                   const std::vector<Array>& arguments, Where where) {
  const auto emit = [&](Emitter& emitter, std::span<const Value> operands) {
    return ops::custom_vjp_call(emitter, graph, forward, backward, operands, where);
  };
  const Graph bodies[] = {graph, forward, backward};
  return call_operation("custom_vjp", arguments, emit, where, bodies);
}

std::vector<Array> call_checkpoint(const Graph& graph, const CheckpointPolicy& policy,
                                   const std::vector<Array>& arguments, Where where) {
  const auto emit = [&](Emitter& emitter, std::span<const Value> operands) {
    return ops::checkpoint(emitter, graph, operands, policy, where);
  };
  return call_operation("checkpoint", arguments, emit, where, std::span(&graph, 1));
}

}  // namespace tidu::frontend_detail
