// freeze.cpp - see freeze.hpp.
#include "check/freeze.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "check/derived.hpp"
#include "primitives/inner_graphs.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/primitives/control_flow.hpp"
#include "tidu/primitives/structural.hpp"
#include "tidu/program/passes.hpp"

namespace tidu::check {
namespace {

constexpr std::size_t most_operations = std::size_t{1} << 24;
// Of steps and branches, each of which costs every run of a difference.
constexpr std::size_t most_of_control_flow = std::size_t{1} << 14;

bool is_frozen(const Graph& graph, const Operation& operation) {
  if (operation.num_inputs() == 0) return false;
  if (operation.primitive().has_trait(Trait::no_tangent)) return true;
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
    if (is_inexact(graph.type(operation.output(slot)).dtype())) return false;
  }
  return true;
}

// Does it give inexact results of inexact operands that differences would see and tangents do not?
bool hides_differences(const Graph& graph, const Operation& operation) {
  const auto inexact = [&](ValueId id) { return is_inexact(graph.type(id).dtype()); };
  if (!operation.primitive().has_trait(Trait::no_tangent) ||
      std::ranges::none_of(operation.inputs(), inexact))
    return false;
  for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
    if (inexact(operation.output(slot))) return true;
  }
  return false;
}

// Of a graph with its inner graphs written out: a primitive that hides differences in steps or branches.
std::string hidden_inside(const Graph& graph) {
  std::string name;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    if (!graph.operation(i).primitive().has_trait(Trait::holds_graph)) continue;
    prim::visit_operations(single_operation(graph, i), [&](const Operation& operation, const Graph& at) {
      if (name.empty() && hides_differences(at, operation)) name = operation.name();
    });
  }
  return name;
}

// What is computed anew behind a barrier has the keys of what it was before.
Graph without_barriers(const Graph& graph) {
  const auto is_barrier = [](const Operation& operation) {
    return &operation.primitive() == &prim::optimization_barrier;
  };
  bool any = false;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) any = any || is_barrier(graph.operation(i));
  if (!any) return graph;
  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    inputs.push_back(builder.input(graph.input_key(i), graph.type(id), graph.label(id)));
  }
  const auto apply = [&](const Operation& operation, const std::vector<Value>& operands) {
    if (is_barrier(operation)) return operands;
    const Values results = builder.emit(operation.op(), operands);
    return std::vector<Value>(results.begin(), results.end());
  };
  return builder.build(prim::walk<Value>(graph, inputs, apply));
}

Graph written_out(const Graph& graph) {
  return without_barriers(passes::write_out_graphs(graph, most_operations));
}

// Nothing where that takes too many operations.
std::optional<Graph> steps_written_out(const Graph& graph) {
  try {
    return written_out(with_control_flow_written_out(graph, most_of_control_flow));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

FrozenValues frozen_values(const Graph& graph) {
  FrozenValues frozen;
  Graph written = written_out(graph);
  frozen.inside = hidden_inside(written);
  if (!frozen.inside.empty()) {
    std::optional<Graph> steps = steps_written_out(graph);
    frozen.all = steps && hidden_inside(*steps).empty();
    if (frozen.all) written = *std::move(steps);
  }
  for (std::uint32_t i = 0; i < written.num_operations(); ++i) {
    const Operation operation = written.operation(i);
    if (!is_frozen(written, operation)) continue;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      frozen.keys.insert(written.key(operation.output(slot)));
  }
  return frozen;
}

Frozen freeze(const Graph& given, const Tensors& inputs, const FrozenValues& frozen,
              const Executor& executor) {
  if (frozen.keys.empty() || !frozen.all) return {given, {}, frozen.all};
  std::optional<Graph> written = frozen.inside.empty() ? written_out(given) : steps_written_out(given);
  if (!written) return {given, {}, false};
  const Graph& graph = *written;
  GraphBuilder builder(graph.name(), graph.primitives());
  const Key128 source = tidu::detail::random_key();
  std::vector<ValueId> ids(graph.num_values(), no_index), frozen_ids, operands, outputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    ids[graph.inputs()[i]] = builder.input(graph.input_key(i), graph.type(graph.inputs()[i])).id();
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (!graph.producer(id) || !frozen.keys.contains(graph.key(id))) continue;
    ids[id] = builder.input(InputKey::fresh(source, frozen_ids.size()), graph.type(id)).id();
    frozen_ids.push_back(id);
  }
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    bool wanted = false;
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      wanted = wanted || ids[operation.output(slot)] == no_index;
    if (!wanted) continue;
    operands.clear();
    for (const ValueId id : operation.inputs()) operands.push_back(ids[id]);
    const ValueId first = builder.add(operation.record().op, operands);
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      ValueId& id = ids[operation.output(slot)];
      if (id == no_index) id = first + static_cast<ValueId>(slot);
    }
  }
  for (const ValueId id : graph.outputs()) outputs.push_back(ids[id]);
  Frozen result{builder.build_ids(std::move(outputs)), {}, true};
  const Tensors values = all_values(graph, inputs, executor);
  for (const ValueId id : frozen_ids) result.extra.push_back(values[id]);
  return result;
}

}  // namespace tidu::check
