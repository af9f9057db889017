// within.cpp - locates, in an invocation of a composite graph, the operation whose value first was not
// finite: the graph runs once more, with all its values as results; then the graphs that the operation holds,
// run by run. Called to complete a report, which it leaves unchanged if that fails.
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "eager/anomaly.hpp"
#include "eager/operand_buffer.hpp"
#include "eager/regions.hpp"
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

// The result: an operation, the contents of its results, and the location in the graphs that it holds.
struct Found {
  std::uint32_t operation = no_index;
  std::string statistics{};
  std::string inside{};
};

// Describes an operation of the derivative, or of the graph itself.
std::string subject(const Graph& graph, std::uint32_t index) {
  const std::uint32_t origin = origin_of(graph, index);
  return str("\n  within it first in ",
             origin == no_index ? named(graph, index) : "the derivative of " + named(graph, origin));
}

std::string result_of(const Graph& graph, std::uint32_t index) {
  if (origin_of(graph, index) == no_index) return ": its result ";
  return str(": the result of ", graph.operation(index).name(), ' ');
}

class Search {
 public:
  Search(const ErasedExecutor& host, Placement placement, const NodeView* node)
      : execution_{host, placement, node} {}

  // The first operation of the graph with a result that is not finite; none where one has an effect.
  Found run(const Graph& graph, std::span<const void* const> inputs, bool transposed) const {
    std::vector<ValueId> ids;
    for (std::uint32_t i = 0; i < graph.num_operations(); ++i) {
      const Operation operation = graph.operation(i);
      if (operation.is_impure()) return {};
      for (std::size_t slot = 0; slot < operation.num_outputs(); ++slot)
        if (is_inexact(graph.type(operation.output(slot)).dtype())) ids.push_back(operation.output(slot));
    }
    OperandBuffer results(execution_.host.table, ids.size());
    compute(graph, ids, inputs, transposed, results);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::optional<bool> finite = execution_.host.is_finite(results.at(i));
      if (!finite || *finite) continue;
      const std::uint32_t operation = *graph.producer(ids[i]);
      return {operation, execution_.host.statistics(results.at(i)),
              inside(graph, operation, inputs, transposed)};
    }
    return {};
  }

 private:
  void compute(const Graph& graph, const std::vector<ValueId>& ids, std::span<const void* const> inputs,
               bool transposed, OperandBuffer& results) const {
    const Graph all = GraphBuilder::extending(graph)->build_ids(ids);
    const ExecutorSlot slot;
    const GraphCall call{all, slot, execution_.placement, execution_.node};
    if (transposed) {
      execution_.host.run_transposed_linear(call, inputs, results.data());
    } else {
      execution_.host.execute_forward(call, inputs, results.data());
    }
    results.filled = true;
  }

  // The location in the runs of the graphs that an operation holds; empty if it holds none, or it cannot be
  // found.
  std::string inside(const Graph& graph, std::uint32_t index, std::span<const void* const> inputs,
                     bool transposed) const {
    const Operation operation = graph.operation(index);
    if (operation.primitive().region_bindings == nullptr) return {};
    try {
      const std::vector<ValueId> ids(operation.inputs().begin(), operation.inputs().end());
      OperandBuffer operands(execution_.host.table, ids.size());
      compute(graph, ids, inputs, transposed, operands);
      std::vector<const void*> given;
      for (std::size_t k = 0; k < ids.size(); ++k) given.push_back(operands.at(k));
      RegionRuns runs(execution_, graph, operation, std::move(given));
      while (runs.next()) {
        const Found found = run(runs.graph(), runs.inputs(), false);
        if (found.operation == no_index) continue;
        return str(runs.place(), subject(runs.graph(), found.operation),
                   found.inside.empty() ? str(result_of(runs.graph(), found.operation), found.statistics)
                                        : found.inside);
      }
    } catch (const std::exception&) {
    }
    return {};
  }

  RegionExecution execution_;
};

// For an operation of the derivative: `derived` names it, and operation `index` of the graph is the one that
// it derives from.
std::string sentence(const Graph& graph, std::uint32_t index, std::string_view derived, const Found& found) {
  return str("\n  within it first in the derivative of ", named(graph, index),
             found.inside.empty() ? str(": the result of ", derived, ' ', found.statistics) : found.inside);
}

// For an operation of the graph itself.
std::string sentence(const Graph& graph, std::uint32_t index, const Found& found) {
  return str(subject(graph, index),
             found.inside.empty() ? str(result_of(graph, index), found.statistics) : found.inside);
}

// Does the message describe the operation completely already?
bool is_one_operation(const Graph& graph) {
  return graph.num_operations() == 0 ||
         (graph.num_operations() == 1 && graph.operation(0).primitive().region_bindings == nullptr);
}

}  // namespace

std::string first_within(const ErasedExecutor& host, const RecorderCore::Request& request) {
  const Graph& graph = request.graph->graph;
  if (is_one_operation(graph)) return {};
  std::vector<const void*> inputs;
  for (const RecordInput& input : request.inputs) {
    if (input.data == nullptr) return {};
    inputs.push_back(input.data);
  }
  try {
    const Found found = Search(host, request.placement, nullptr).run(graph, inputs, false);
    const bool single = graph.num_operations() == 1 && found.inside.empty();
    return found.operation == no_index || single ? "" : sentence(graph, found.operation, found);
  } catch (const std::exception&) {
    return {};
  }
}

std::string first_within(const ErasedExecutor& host, Node& node, const BackwardProgram& program,
                         std::span<const void* const> inputs) {
  const Graph& graph = node.specialization->owner->graph;
  if (is_one_operation(graph)) return {};
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
      return sentence(augmented, program.forward_origins[found.operation], found);
    }
    const Found found = search.run(program.transposed, inputs, true);
    if (found.operation == no_index) return {};
    const std::uint32_t origin = program.transposed_origins[found.operation];
    return origin == no_index
               ? ""
               : sentence(graph, origin, program.transposed.operation(found.operation).name(), found);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace tidu::eager::detail
