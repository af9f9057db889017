// within.cpp - where in an invocation of a whole graph a value first was not finite: the graph runs once
// more, with all that it computes as results. Called when there is something to report, and silent where that
// fails.
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "eager/anomaly.hpp"
#include "eager/operand_buffer.hpp"
#include "tidu/graph/builder.hpp"

namespace tidu::eager::detail {
namespace {

using tidu::detail::printable;
using tidu::detail::str;

// `operation 3, log (model.cpp:12)`
std::string named(const Graph& graph, std::uint32_t index) {
  const Operation operation = graph.operation(index);
  const std::string_view where = operation.where();
  return str("operation ", index, ", ", operation.name(),
             where.empty() ? "" : str(" (", printable(where), ')'));
}

// The operation of the same graph that this one is in the derivative of, or no_index. A linear graph by
// itself counts the operations of another one.
std::uint32_t origin_of(const Graph& graph, std::uint32_t index) {
  const std::uint32_t origin = graph.operation(index).origin();
  return origin < index && !graph.operation(origin).is_linear() ? origin : no_index;
}

// What was found.
struct Found {
  std::uint32_t operation = no_index;
  std::string statistics{};
};

class Search {
 public:
  Search(const Host& host, Placement placement, const NodeView* node)
      : host_(host), placement_(placement), node_(node) {}

  // The first operation of the graph with a result that is not finite; none where one has an effect.
  Found run(const Graph& graph, std::span<const void* const> inputs, bool transposed) const {
    std::vector<ValueId> ids;
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      if (operation.is_impure()) return {};
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        if (is_inexact(graph.type(operation.output(slot)).dtype())) ids.push_back(operation.output(slot));
    }
    const Graph all = GraphBuilder::extending(graph)->build_ids(ids);
    const ExecutorSlot slot;
    const GraphCall call{all, slot, placement_, node_};
    OperandBuffer results(host_.table, ids.size());
    if (transposed) {
      host_.run_transposed_linear(call, inputs, results.data());
    } else {
      host_.execute_forward(call, inputs, results.data());
    }
    results.filled = true;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::optional<bool> finite = host_.is_finite(results.at(i));
      if (finite && !*finite) return {*graph.producer(ids[i]), host_.statistics(results.at(i))};
    }
    return {};
  }

 private:
  const Host& host_;
  Placement placement_;
  const NodeView* node_;
};

// Of what a derivative of that operation consists of.
std::string sentence(const Graph& graph, std::uint32_t index, std::string_view derived,
                     const std::string& statistics) {
  return str("\n  within it first in the derivative of ", named(graph, index), ": the result of ", derived,
             ' ', statistics);
}

// Of an operation of the graph itself.
std::string sentence(const Graph& graph, std::uint32_t index, const std::string& statistics) {
  const std::uint32_t origin = origin_of(graph, index);
  if (origin != no_index) return sentence(graph, origin, graph.operation(index).name(), statistics);
  return str("\n  within it first in ", named(graph, index), ": its result ", statistics);
}

}  // namespace

std::string first_within(const Host& host, const RecorderCore::Request& request) {
  const Graph& graph = request.graph->graph;
  if (graph.num_operations() < 2) return {};
  std::vector<const void*> inputs;
  for (const RecordInput& input : request.inputs) {
    if (input.data == nullptr) return {};
    inputs.push_back(input.data);
  }
  try {
    const Found found = Search(host, request.placement, nullptr).run(graph, inputs, false);
    return found.operation == no_index ? "" : sentence(graph, found.operation, found.statistics);
  } catch (const std::exception&) {
    return {};
  }
}

std::string first_within(const Host& host, Node& node, const BackwardProgram& program,
                         std::span<const void* const> inputs) {
  const Graph& graph = node.variant->owner->graph;
  if (graph.num_operations() < 2) return {};
  const NodeView view(ref(&node));
  const Search search(host, node.placement(), &view);
  try {
    bool residual = false;  // is it one that was computed anew?
    for (std::size_t i = 0; i < program.residuals.size() && !residual; ++i) {
      const std::optional<bool> finite = host.is_finite(inputs[i]);
      residual = (program.residuals[i] & BackwardProgram::computed_bit) != 0 && finite && !*finite;
    }
    if (residual) {
      std::vector<const void*> saved;
      for (const std::uint32_t k : program.forward_inputs) saved.push_back(node.saved(k));
      const Found found = search.run(program.forward, saved, false);
      if (found.operation == no_index) return {};
      const Graph& augmented = program.linearization->augmented;
      return sentence(augmented, program.forward_origins[found.operation], found.statistics);
    }
    const Found found = search.run(program.transposed, inputs, true);
    if (found.operation == no_index) return {};
    const std::uint32_t origin = program.transposed_origins[found.operation];
    return origin == no_index ? ""
                              : sentence(graph, origin, program.transposed.operation(found.operation).name(),
                                         found.statistics);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace tidu::eager::detail
