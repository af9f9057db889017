// inner_graphs.hpp - functions that the primitives with graphs share: type rules, the rules of call, and
// graphs reduced to the inputs and outputs that are wanted.
#pragma once

#include <functional>
#include <vector>

#include "graph/known_zeros.hpp"
#include "primitives/rules.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/region_bindings.hpp"

namespace tidu::prim {

// --- type rules
/// Operands against the inputs of the graph in that attribute, and one result for each of its outputs.
void infer_inner_graph(InferContext& c, const Graph& inner);
/// Refuses a graph, called `what`, with operations that have effects, which rules could not keep in order.
/// Graphs in attributes count.
void refuse_effects(const InferContext& c, const Graph& inner, std::string_view what);

/// The required type of an input or output of a graph, and its meaning.
struct Slot {
  Type type;
  std::string_view what;  ///< "input" or "the tangent of output"
  std::size_t index;      ///< of that input or output
};
/// Refuses a graph whose inputs or outputs (`which`) are not these; `open`: more may follow.
void require_slots(const InferContext& c, const Graph& inner, std::string_view attribute,
                   std::string_view which, std::span<const ValueId> ids, const std::vector<Slot>& expected,
                   bool open = false);
/// Slots for values of a graph; `inexact_only`: for the floating and complex ones.
void append_slots(std::vector<Slot>& slots, const Graph& graph, std::span<const ValueId> ids,
                  std::string_view what, bool inexact_only = false);
/// Positions of the floating and complex ones.
std::vector<std::size_t> inexact_positions(const Graph& graph, std::span<const ValueId> ids);

// --- the rules of an operation that stands for its attribute `graph`
using EmitGraph = std::function<Values(const Graph&, std::span<const Value>)>;
Derivatives jvp_inner_graph(JvpContext& c, const EmitGraph& emit_graph);
/// By the operands with a true flag alone, which have tangents.
Derivatives jvp_inner_graph(JvpContext& c, const EmitGraph& emit_graph, const std::vector<bool>& active);
Derivatives transpose_inner_graph(TransposeContext& c, const EmitGraph& emit_graph);
std::vector<RegionBinding> bindings_of_inner_graph(const Op& op);
std::vector<Value> operands_of(const BatchContext& c);
std::vector<bool> batched_operands(const BatchContext& c);

// --- graphs
/// With those of the inputs, which the others do not need, and those outputs, by position.
Graph restricted(const Graph& graph, const std::vector<bool>& inputs, std::span<const std::size_t> outputs);
/// With these values as outputs after its own.
Graph with_more_outputs(const Graph& graph, std::span<const ValueId> values);
/// The values `wanted` of the graph on these inputs, of which those that `wanted` does not depend on may be
/// unset.
std::vector<Value> outputs_given(Emitter& emitter, const Graph& graph, std::span<const Value> inputs,
                                 std::span<const ValueId> wanted);
/// Separates the graph: each operation that holds graphs computes either values that depend on these inputs
/// or values that do not. Operations that compute both are duplicated. For transposition, which needs all
/// values that depend on linear inputs to be linear.
Graph separated(const Graph& graph, const std::vector<bool>& inputs);
/// The maximum number of operations of a graph, with those inside counted for each occurrence, for optional
/// inlining.
inline constexpr std::size_t max_unrolled = std::size_t{1} << 16;
/// The same function with inlined operations that have effects and stand for one graph, at any depth: their
/// graphs are not separated, since their effects would happen twice.
Graph with_effects_inlined(const Graph& graph);
/// By value: does it depend on one of these inputs? For operations that have region_bindings this is decided
/// for each result.
std::vector<bool> depending_on(const Graph& graph, const std::vector<bool>& inputs);
/// The same by result of an operation, of which some operand does.
std::vector<bool> depending_results(const Operation& operation, const std::vector<bool>& operands);
/// Calls visit(operation, graph) for each operation of the graph and of graphs in attributes, at any depth;
/// once for a graph that occurs several times.
void visit_operations(const Graph& graph, const std::function<void(const Operation&, const Graph&)>& visit);
using tidu::detail::gives_zeros;
/// The outputs of the graph on these inputs, where apply(operation, operands) gives the results of each of
/// its operations.
template <class V, class Apply>
std::vector<V> walk(const Graph& graph, std::span<const V> inputs, const Apply& apply) {
  std::vector<V> values(graph.num_values()), operands, outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
  for (std::size_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    operands.clear();
    for (const ValueId id : operation.inputs()) operands.push_back(values[id]);
    const std::vector<V> results = apply(operation, operands);
    for (std::size_t slot = 0; slot < results.size(); ++slot) values[operation.output(slot)] = results[slot];
  }
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return outputs;
}
/// The graph that the operation calls (Primitive::called), whatever rules it has; null if it calls none.
const std::shared_ptr<const GraphData>* called_graph(const Operation& operation);
/// Emits the graph on these inputs with all such operations inlined, and returns its outputs.
std::vector<Value> write_out(Emitter& emitter, const Graph& graph, std::span<const Value> inputs);
/// The batched `graph`, whose outputs with a true flag in `summed` are summed over the leading axis.
Graph batched_and_summed(RuleServices& host, const Graph& graph, const std::vector<bool>& batched,
                         const std::vector<bool>& summed, std::int64_t size);

}  // namespace tidu::prim
