// dependence.cpp - depending_on: the values that depend on some inputs of a graph. For an operation that
// holds graphs and has region_bindings it is found result by result, through its graphs, at any depth.
#include <algorithm>
#include <map>

#include "primitives/inner_graphs.hpp"

namespace tidu::prim {
namespace {

// Recursion is bounded: graphs nest at most max_graph_depth deep. An inner graph is visited once for each set
// of its inputs.
class Dependence {
 public:
  std::vector<bool> values(const Graph& graph, const std::vector<bool>& inputs) {
    std::vector<bool> depends(graph.num_values(), false);
    for (std::size_t i = 0; i < inputs.size(); ++i) depends[graph.inputs()[i]] = inputs[i];
    std::vector<bool> operands;
    for (std::size_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      const auto ids = operation.inputs();
      if (std::none_of(ids.begin(), ids.end(), [&](ValueId id) { return depends[id]; })) continue;
      operands.clear();
      for (const ValueId id : ids) operands.push_back(depends[id]);
      const std::vector<bool> made = results(operation, operands);
      for (std::size_t slot = 0; slot < made.size(); ++slot) depends[operation.output(slot)] = made[slot];
    }
    return depends;
  }

  // The dependent results of an operation with a dependent operand.
  std::vector<bool> results(const Operation& operation, const std::vector<bool>& operands) {
    std::vector<bool> all(operation.num_outputs(), true);
    if (operation.primitive().has_trait(Trait::holds_graph)) spread(operation, operands, all);
    return all;
  }

 private:
  const std::vector<bool>& outputs(const Graph& graph, const std::vector<bool>& inputs) {
    auto key = std::pair(&graph.data(), inputs);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const std::vector<bool> depends = values(graph, inputs);
    std::vector<bool> result;
    for (const ValueId id : graph.outputs()) result.push_back(depends[id]);
    return known_.emplace(std::move(key), std::move(result)).first->second;
  }

  // `results`: all of them where nothing is known.
  void spread(const Operation& operation, const std::vector<bool>& operands, std::vector<bool>& results) {
    const Primitive& primitive = operation.primitive();
    if (primitive.region_bindings == nullptr) return;
    const Op op = operation.op();
    const std::vector<RegionBinding> region_bindings = primitive.region_bindings(op);
    if (region_bindings.empty()) return;
    std::vector<Graph> graphs;
    std::vector<std::vector<bool>> inputs, reached;
    for (const auto& [name, value] : op.attributes()) {
      for (const auto& inner : value.graphs()) {
        graphs.emplace_back(inner);
        inputs.emplace_back(graphs.back().inputs().size(), false);
      }
    }
    std::vector<bool> flagged(region_bindings.size());
    for (std::size_t s = 0; s < region_bindings.size(); ++s)
      flagged[s] = std::any_of(region_bindings[s].operands.begin(), region_bindings[s].operands.end(),
                               [&](std::size_t i) { return operands[i]; });
    for (bool grew = true; grew;) {
      for (std::size_t s = 0; s < region_bindings.size(); ++s) {
        if (!flagged[s]) continue;
        if (region_bindings[s].always) return;
        for (const RegionBinding::Port& port : region_bindings[s].inputs)
          inputs[port.graph][port.index] = true;
      }
      reached.clear();
      for (std::size_t g = 0; g < graphs.size(); ++g) reached.push_back(outputs(graphs[g], inputs[g]));
      grew = false;
      for (std::size_t s = 0; s < region_bindings.size(); ++s) {
        const auto& ports = region_bindings[s].outputs;
        if (flagged[s] || std::none_of(ports.begin(), ports.end(), [&](const RegionBinding::Port& port) {
              return reached[port.graph][port.index];
            }))
          continue;
        flagged[s] = grew = true;
      }
    }
    std::fill(results.begin(), results.end(), false);
    for (std::size_t s = 0; s < region_bindings.size(); ++s) {
      for (const std::size_t slot : region_bindings[s].results) results[slot] = flagged[s];
    }
  }

  std::map<std::pair<const GraphData*, std::vector<bool>>, std::vector<bool>> known_;
};

}  // namespace

std::vector<bool> depending_on(const Graph& graph, const std::vector<bool>& inputs) {
  return Dependence().values(graph, inputs);
}

std::vector<bool> depending_results(const Operation& operation, const std::vector<bool>& operands) {
  return Dependence().results(operation, operands);
}

}  // namespace tidu::prim
