// inner_graphs.cpp - see inner_graphs.hpp.
#include "primitives/inner_graphs.hpp"

#include <algorithm>
#include <unordered_set>

#include "graph/copying.hpp"
#include "tidu/primitives/structural.hpp"

namespace tidu::prim {

void infer_inner_graph(InferContext& c, const Graph& inner) {
  c.require(c.num_operands() == inner.inputs().size(), "expected ", inner.inputs().size(),
            " operands for graph ", detail::in_quotes(inner.name()), ", got ", c.num_operands());
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    const Type expected = inner.type(inner.inputs()[i]);
    c.require(c.operand(i) == expected, "expected ", expected, " for operand ", i, ", input ",
              detail::in_quotes(inner.input_name(i)), " of graph ", detail::in_quotes(inner.name()), ", got ",
              c.operand(i));
  }
  c.require(!inner.outputs().empty(), "expected a graph with one output or more, got ",
            detail::in_quotes(inner.name()));
  for (const ValueId output : inner.outputs()) c.result(inner.type(output));
}

void refuse_effects(const InferContext& c, const Graph& inner, std::string_view what) {
  visit_operations(inner, [&](const Operation& operation, const Graph& graph) {
    const Primitive& primitive = operation.primitive();
    c.require(!primitive.has_trait(Trait::impure), "expected a ", what, " without effects, got ",
              primitive.name, " in ", detail::in_quotes(graph.name()));
  });
}

void require_slots(const InferContext& c, const Graph& inner, std::string_view attribute,
                   std::string_view which, std::span<const ValueId> ids, const std::vector<Slot>& expected,
                   bool open) {
  c.require(ids.size() == expected.size() || (open && ids.size() > expected.size()), "expected ",
            open ? "at least " : "", expected.size(), ' ', which, "s of graph ", attribute, " (",
            detail::in_quotes(inner.name()), "), got ", ids.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    c.require(inner.type(ids[i]) == expected[i].type, "expected ", expected[i].type, " for ", which, ' ', i,
              " of graph ", attribute, " (", detail::in_quotes(inner.name()), "), ", expected[i].what, ' ',
              expected[i].index, ", got ", inner.type(ids[i]));
  }
}

void append_slots(std::vector<Slot>& slots, const Graph& graph, std::span<const ValueId> ids,
                  std::string_view what, bool inexact_only) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Type type = graph.type(ids[i]);
    if (!inexact_only || is_inexact(type.dtype())) slots.push_back({type, what, i});
  }
}

std::vector<std::size_t> inexact_positions(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (is_inexact(graph.type(ids[i]).dtype())) positions.push_back(i);
  }
  return positions;
}

// The augmented graph replaces the operation: its further results are the residuals of the linear graph.
Derivatives jvp_inner_graph(JvpContext& c, const EmitGraph& emit_graph) {
  std::vector<bool> active;
  for (std::size_t i = 0; i < c.num_operands(); ++i) active.push_back(c.active(i));
  return jvp_inner_graph(c, emit_graph, active);
}

Derivatives jvp_inner_graph(JvpContext& c, const EmitGraph& emit_graph, const std::vector<bool>& active) {
  const std::size_t count = c.results().size();
  const InnerLinearization inner = c.host().linearize(c.op().graph("graph"), active);
  if (inner.linear.outputs().empty()) return Derivatives::absent(count);

  const Values primal = emit_graph(inner.primal, c.primals());
  c.host().replace_results(std::span<const Value>(primal.data(), count));
  std::vector<Value> operands(primal.begin() + count, primal.end());
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    if (active[i]) operands.push_back(*c.tangent(i));
  }
  const Values tangents = emit_graph(inner.linear, operands);
  Derivatives result;
  for (const std::optional<std::size_t>& at : inner.tangent_of_output) {
    result.push_back(at ? std::optional<Value>(tangents[*at]) : std::nullopt);
  }
  return result;
}

Derivatives transpose_inner_graph(TransposeContext& c, const EmitGraph& emit_graph) {
  std::vector<bool> linear, seeded;
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) {
    linear.push_back(c.linear(i));
    if (!c.linear(i)) operands.push_back(c.operand(i));
  }
  // A tangent that does not exist here, as that of a branch which has none, is zero, and so are values that
  // depend on it alone.
  Graph graph = c.op().graph("graph");
  const std::vector<bool> depends = depending_on(graph, linear);
  std::vector<std::size_t> outputs;
  for (std::size_t slot = 0; slot < c.num_results(); ++slot) {
    if (!depends[graph.outputs()[slot]]) continue;
    const std::optional<Value> ct = c.cotangent(slot);
    outputs.push_back(slot);
    seeded.push_back(ct.has_value());
    if (ct) operands.push_back(*ct);
  }
  if (outputs.size() < c.num_results())
    graph = restricted(graph, std::vector<bool>(c.num_operands(), true), outputs);
  const InnerTransposition inner = c.host().transpose(separated(graph, linear), linear, seeded);
  if (inner.graph.outputs().empty()) return Derivatives::absent(c.num_operands());
  const Values cotangents = emit_graph(inner.graph, operands);
  Derivatives result;
  for (const std::optional<std::size_t>& at : inner.cotangent_of_input) {
    result.push_back(at ? std::optional<Value>(cotangents[*at]) : std::nullopt);
  }
  return result;
}

std::vector<RegionBinding> bindings_of_inner_graph(const Op& op) {
  const Graph graph = op.graph("graph");
  std::vector<RegionBinding> region_bindings;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    RegionBinding& binding = region_bindings.emplace_back();
    binding.operands = {i};
    binding.inputs = {{0, i}};
  }
  for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
    RegionBinding& binding = region_bindings.emplace_back();
    binding.results = {k};
    binding.outputs = {{0, k}};
  }
  return region_bindings;
}

std::vector<Value> operands_of(const BatchContext& c) {
  std::vector<Value> operands;
  for (std::size_t i = 0; i < c.num_operands(); ++i) operands.push_back(c.operand(i));
  return operands;
}

std::vector<bool> batched_operands(const BatchContext& c) {
  std::vector<bool> batched;
  for (std::size_t i = 0; i < c.num_operands(); ++i) batched.push_back(c.batched(i));
  return batched;
}

Graph restricted(const Graph& graph, const std::vector<bool>& inputs, std::span<const std::size_t> outputs) {
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<ValueId> roots;
  for (const std::size_t k : outputs) roots.push_back(graph.outputs()[k]);
  std::vector<Value> arguments(graph.inputs().size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ValueId id = graph.inputs()[i];
    if (inputs[i]) arguments[i] = builder.input(graph.input_key(i), graph.type(id), graph.label(id));
  }
  return builder.build(outputs_given(builder, graph, arguments, roots));
}

std::vector<Value> outputs_given(Emitter& emitter, const Graph& graph, std::span<const Value> inputs,
                                 std::span<const ValueId> wanted) {
  std::vector<Value> given(inputs.begin(), inputs.end());
  const std::vector<bool> needed = reachable(graph, wanted);
  bool lacks = false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    lacks = lacks || (inputs[i].emitter() == nullptr && needed[graph.inputs()[i]]);
  const auto written = [&](const Graph& from, std::span<const ValueId> ids, const std::vector<bool>& live) {
    const std::vector<Value> values = inline_graph(emitter, from, given, {}, &live);
    std::vector<Value> results;
    for (const ValueId id : ids) results.push_back(values[id]);
    return results;
  };
  if (!lacks) return written(graph, wanted, needed);
  // An operation that holds graphs computes more than the wanted outputs.
  GraphBuilder::Options options;
  options.deduplicate = false;
  const Graph cut =
      eliminate_dead_code(GraphBuilder::extending(graph, options)->build_ids({wanted.begin(), wanted.end()}));
  // Equal operations in inner graphs are reduced alike, and one of them may read a value that only another
  // needs: no wanted output depends on it.
  const std::vector<bool> live = reachable(cut, cut.outputs());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const ValueId id = cut.inputs()[i];
    if (given[i].emitter() == nullptr && live[id]) given[i] = zeros(emitter, cut.type(id));
  }
  return written(cut, cut.outputs(), live);
}

Graph separated(const Graph& graph, const std::vector<bool>& inputs) {
  const std::vector<bool> depends = depending_on(graph, inputs);
  const auto is_mixed = [&](const Operation& operation) {
    if (!operation.primitive().has_trait(Trait::holds_graph) || operation.is_impure()) return false;
    bool any = false, all = true;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      any = any || depends[operation.output(slot)];
      all = all && depends[operation.output(slot)];
    }
    return any && !all;
  };
  bool mixed = false;
  for (std::size_t i = 0; i < graph.num_operations(); ++i) mixed = mixed || is_mixed(graph.operation(i));
  if (!mixed) return graph;
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> values(graph.num_values());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    values[id] = builder.input(graph.input_key(i), graph.type(id), graph.label(id));
  }
  detail::OperationCopier copier(builder, graph, values);
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    copier.copy(i);
    if (!is_mixed(operation)) continue;
    GraphBuilder standalone(graph.name(), graph.primitives());
    std::vector<Value> formal, actual, wanted;
    for (const ValueId id : operation.inputs()) {
      formal.push_back(standalone.input(detail::str('x', formal.size()), graph.type(id)));
      actual.push_back(depends[id] ? Value() : values[id]);
    }
    const Values results = standalone.emit(operation.op(), formal);
    std::vector<ValueId> slots;
    for (std::size_t slot = 0; slot < results.size(); ++slot) {
      if (depends[operation.output(slot)]) continue;
      slots.push_back(operation.output(slot));
      wanted.push_back(results[slot]);
    }
    const Graph one = standalone.build(wanted);
    const std::vector<Value> made = outputs_given(builder, one, actual, one.outputs());
    for (std::size_t k = 0; k < slots.size(); ++k) values[slots[k]] = made[k];
  }
  std::vector<Value> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(values[id]);
  return builder.build(outputs);
}

Graph with_more_outputs(const Graph& graph, std::span<const ValueId> values) {
  GraphBuilder::Options options;
  options.deduplicate = false;
  std::vector<ValueId> outputs(graph.outputs().begin(), graph.outputs().end());
  outputs.insert(outputs.end(), values.begin(), values.end());
  return GraphBuilder::extending(graph, options)->build_ids(std::move(outputs));
}

void visit_operations(const Graph& graph, const std::function<void(const Operation&, const Graph&)>& visit) {
  std::vector<Graph> graphs{graph};
  std::unordered_set<const GraphData*> seen;
  while (!graphs.empty()) {
    const Graph at = std::move(graphs.back());
    graphs.pop_back();
    for (std::size_t i = 0; i < at.num_operations(); ++i) {
      const Operation operation = at.operation(i);
      visit(operation, at);
      if (!operation.primitive().has_trait(Trait::holds_graph)) continue;
      for (const auto& [name, value] : operation.record().op->attributes) {
        for (const auto& inner : value.graphs()) {
          if (seen.insert(inner.get()).second) graphs.emplace_back(inner);
        }
      }
    }
  }
}

const std::shared_ptr<const GraphData>* called_graph(const Operation& operation) {
  if (!operation.primitive().has_trait(Trait::holds_graph)) return nullptr;
  for (const auto& [name, attribute] : operation.record().op->attributes) {
    if (name == operation.primitive().called) return attribute.get_if<std::shared_ptr<const GraphData>>();
  }
  return nullptr;
}

namespace {

std::size_t num_graphs(const Primitive& primitive) {
  return static_cast<std::size_t>(
      std::count_if(primitive.attributes.begin(), primitive.attributes.end(), [](const AttributeSpec& spec) {
        return spec.kind == AttributeKind::graph || spec.kind == AttributeKind::rule;
      }));
}

// The graph with the chosen operations that hold a graph inlined. Recursion is bounded: graphs nest at most
// max_graph_depth deep.
template <class Chosen>
std::vector<Value> written_out(Emitter& emitter, const Graph& graph, std::span<const Value> inputs,
                               const Chosen& chosen) {
  return walk<Value>(graph, inputs, [&](const Operation& operation, const std::vector<Value>& operands) {
    const auto* inner = called_graph(operation);
    if (inner != nullptr && chosen(operation)) return written_out(emitter, Graph(*inner), operands, chosen);
    const Values results = emitter.emit(operation.op(), operands);
    return std::vector<Value>(results.begin(), results.end());
  });
}

}  // namespace

std::vector<Value> write_out(Emitter& emitter, const Graph& graph, std::span<const Value> inputs) {
  return written_out(emitter, graph, inputs, [](const Operation&) { return true; });
}

Graph with_effects_inlined(const Graph& graph) {
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    inputs.push_back(builder.input(graph.input_key(i), graph.type(id), graph.label(id)));
  }
  const auto has_effects = [](const Operation& operation) {
    return operation.is_impure() && num_graphs(operation.primitive()) == 1;
  };
  return builder.build(written_out(builder, graph, inputs, has_effects));
}

Graph batched_and_summed(RuleServices& host, const Graph& graph, const std::vector<bool>& batched,
                         const std::vector<bool>& summed, std::int64_t size) {
  Graph mapped = host.batch(graph, batched, size);
  if (std::find(summed.begin(), summed.end(), true) == summed.end()) return mapped;
  const auto builder = GraphBuilder::extending(mapped);
  std::vector<Value> outputs;
  for (std::size_t k = 0; k < summed.size(); ++k) {
    const Value value = builder->value(mapped.outputs()[k]);
    outputs.push_back(summed[k] ? ops::reduce_sum(value, {0}) : value);
  }
  return builder->build(outputs);
}

}  // namespace tidu::prim
