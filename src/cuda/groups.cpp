// groups.cpp - operations gathered in nodes.
#include "cuda/groups.hpp"

#include <algorithm>

#include "cuda/rules.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/program/passes.hpp"

namespace tidu::cuda_detail {
namespace {

// By operation: does an output depend on it, or is it impure?
std::vector<bool> needed_operations(const Graph& graph) {
  const std::vector<bool> values = reachable(graph, graph.outputs());
  std::vector<bool> needed(graph.num_operations());
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    needed[i] = operation.primitive().has_trait(Trait::impure);
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
      needed[i] = needed[i] || values[operation.output(slot)];
  }
  return needed;
}

}  // namespace

std::vector<Node> plan_nodes(const Graph& graph, const NodeOptions& options) {
  const std::vector<ValueId> roots = passes::storage_roots(graph);
  const std::vector<bool> needed = needed_operations(graph);
  std::vector<Node> nodes;
  std::vector<Type> in, out;
  for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
    const Operation operation = graph.operation(i);
    if (!needed[i] || operation.primitive().has_trait(Trait::view)) continue;
    Node node;
    node.operations.push_back(i);
    in.clear();
    out.clear();
    for (const ValueId id : operation.inputs()) {
      node.operands.push_back(roots[id]);
      in.push_back(graph.type(id));
    }
    for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot) {
      node.results.push_back(operation.output(slot));
      out.push_back(graph.type(operation.output(slot)));
    }
    const Op op = operation.op();
    node.plan = plan_operation({op, in, out, options.multiprocessors, options.tf32});
    if (!node.plan.supported) {
      throw Error(ErrorKind::execution,
                  detail::str("[", op.name(), "] expected a kernel for the device, got none for ",
                              detail::list(in), "\n  ", describe_operation(graph, i)));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace tidu::cuda_detail
