// inline.cpp - inlining: emits a graph's operations into an emitter. prune, merging and substitution are
// built on it.

#include "graph/copying.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"

namespace tidu {
namespace {

void bind_interface(std::vector<Value>& values, const Graph& graph, std::span<const ValueId> formal,
                    std::span<const Value> actual, std::string_view what) {
  if (formal.size() != actual.size()) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("inline_graph: expected ", formal.size(), ' ', what, "s for ",
                            detail::in_quotes(graph.name()), ", got ", actual.size()));
  }
  for (std::size_t i = 0; i < formal.size(); ++i) {
    if (actual[i].emitter() != nullptr && actual[i].type() != graph.type(formal[i])) {
      throw Error(ErrorKind::type,
                  detail::str("inline_graph: expected ", graph.type(formal[i]), " for ", what, ' ', i, " of ",
                              detail::in_quotes(graph.name()), ", got ", actual[i].type()));
    }
    values[formal[i]] = actual[i];
  }
}

void copy_into(GraphBuilder& builder, const Graph& graph, std::vector<Value>& values,
               const std::vector<bool>* needed) {
  const GraphData& g = graph.data();
  detail::OperationCopier copier(builder, graph, values);
  for (std::uint32_t i = 0; i < g.operations.size(); ++i) {
    const OperationRecord& record = g.operations[i];
    bool wanted = needed == nullptr || record.op->impure;
    for (std::uint32_t slot = 0; slot < record.num_outputs && !wanted; ++slot)
      wanted = (*needed)[record.first_output + slot];
    if (wanted) copier.copy(i);
  }
}

}  // namespace

std::vector<Value> inline_graph(Emitter& emitter, const Graph& graph, std::span<const Value> inputs,
                                std::span<const Value> externals, const std::vector<bool>* needed) {
  std::vector<Value> values(graph.num_values());
  bind_interface(values, graph, graph.inputs(), inputs, "input");
  bind_interface(values, graph, graph.externals(), externals, "external");
  if (auto* builder = dynamic_cast<GraphBuilder*>(&emitter)) {
    copy_into(*builder, graph, values, needed);
    return values;
  }
  std::vector<Value> operands;
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    bool wanted = needed == nullptr || operation.is_impure();
    for (std::size_t slot = 0; slot < operation.num_outputs() && !wanted; ++slot)
      wanted = (*needed)[operation.output(slot)];
    if (!wanted) continue;
    operands.clear();
    for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
    const Values results = emitter.emit(operation.op(), operands);
    for (std::size_t slot = 0; slot < results.size(); ++slot) values[operation.output(slot)] = results[slot];
  }
  return values;
}

std::vector<bool> reachable(const Graph& graph, std::span<const ValueId> roots) {
  std::vector<bool> live(graph.num_values(), false);
  for (const ValueId id : roots) live[id] = true;
  for (std::size_t i = graph.num_operations(); i-- > 0;) {
    const Operation operation = graph.operation(i);
    bool wanted = operation.is_impure();
    for (std::size_t slot = 0; slot < operation.num_outputs() && !wanted; ++slot)
      wanted = live[operation.output(slot)];
    if (!wanted) continue;
    for (const ValueId id : operation.inputs()) live[id] = true;
  }
  return live;
}

Graph prune(const Graph& graph) {
  const std::vector<bool> live = reachable(graph, graph.outputs());
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    inputs.push_back(builder.input(graph.input_key(i), graph.type(id), graph.label(id)));
  }
  std::vector<Value> externals;
  for (const ValueId id : graph.externals()) {
    externals.push_back(live[id] ? builder.external(graph.key(id), graph.type(id)) : Value());
  }
  const std::vector<Value> values = inline_graph(builder, graph, inputs, externals, &live);
  std::vector<Value> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
}

Graph with_input_names(const Graph& graph, std::span<const std::string> names) {
  if (names.size() != graph.inputs().size()) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("with_input_names: expected ", graph.inputs().size(), " names for ",
                            detail::in_quotes(graph.name()), ", got ", names.size()));
  }
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ValueId id = graph.inputs()[i];
    inputs.push_back(names[i].empty() ? builder.input(graph.input_key(i), graph.type(id), graph.label(id))
                                      : builder.input(names[i], graph.type(id)));
  }
  std::vector<Value> externals;
  for (const ValueId id : graph.externals())
    externals.push_back(builder.external(graph.key(id), graph.type(id)));
  const std::vector<Value> values = inline_graph(builder, graph, inputs, externals);
  std::vector<Value> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
}

}  // namespace tidu
