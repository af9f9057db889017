// inline.cpp - inlining: operations that hold a graph are replaced by the operations of the graph, with a
// stack of frames instead of recursion.
#include <memory>
#include <string_view>

#include "graph/in_all.hpp"
#include "tidu/graph/builder.hpp"
#include "tidu/graph/error.hpp"
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

// Does the operation stand for the graph that it holds there?
bool stands_for(const Operation& operation, std::string_view attribute, const GraphData& inner) {
  return attribute == operation.primitive().called && inner.inputs.size() == operation.num_inputs() &&
         inner.outputs.size() == operation.num_outputs() && inner.externals.empty();
}

// The graph that an operation stands for, or null.
const std::shared_ptr<const GraphData>* inner_graph(const Operation& operation) {
  const OpRecord& op = *operation.record().op;
  if (!op.primitive->has_trait(Trait::holds_graph)) return nullptr;
  for (const auto& [name, attribute] : op.attributes) {
    const auto* graph = attribute.get_if<std::shared_ptr<const GraphData>>();
    if (graph != nullptr && stands_for(operation, name, **graph)) return graph;
  }
  return nullptr;
}

struct Frame {
  Graph graph;
  std::vector<ValueId> values;     // by value of `graph`: its value in the builder
  std::uint32_t next = 0;          // operation
  std::uint32_t where = no_index;  // source location of the operation that calls this graph
  ValueId result = 0;              // first value, in the frame below, of that operation
};

void enter(std::vector<Frame>& frames, Graph graph, std::span<const ValueId> inputs, std::uint32_t where,
           ValueId result) {
  Frame frame{std::move(graph), {}, 0, where, result};
  frame.values.resize(frame.graph.num_values());
  for (std::size_t i = 0; i < inputs.size(); ++i) frame.values[frame.graph.inputs()[i]] = inputs[i];
  frames.push_back(std::move(frame));
}

void copy_operation(GraphBuilder& builder, Frame& frame, const Operation& operation,
                    std::vector<ValueId>& operands) {
  const GraphData& from = frame.graph.data();
  GraphBuilder::Extra extra;
  extra.where = operation.where().empty() ? frame.where : builder.intern_where(operation.where());
  const OperationRecord& record = operation.record();
  ValueId first = 0;
  if (builder.primitives().contains(record.op->primitive)) {
    first = builder.add_typed(record.op, operands, from.types.data() + record.first_output,
                              record.num_outputs, extra);
  } else {
    const Op resolved = builder.resolve(operation.op());
    first = builder.add(resolved.record(), operands, extra);
  }
  for (std::uint32_t slot = 0; slot < record.num_outputs; ++slot)
    frame.values[record.first_output + slot] = first + slot;
}

}  // namespace

Graph inline_graphs(const Graph& graph, std::size_t max_operations,
                    const std::function<bool(const Operation&)>& stays) {
  const auto graph_to_write = [&](const Operation& operation) {
    return stays && stays(operation) ? nullptr : inner_graph(operation);
  };
  bool any = false;
  for (std::size_t i = 0; i < graph.num_operations() && !any; ++i)
    any = graph_to_write(graph.operation(i)) != nullptr;
  if (!any) return graph;
  if (detail::operations_in_all(graph, stands_for) > max_operations) {
    throw Error(ErrorKind::invalid_argument,
                detail::str("Program::make: expected at most ", max_operations,
                            " operations once inner graphs are inlined, got more in ",
                            detail::in_quotes(graph.name())));
  }

  GraphBuilder builder(graph.name(), graph.primitives());
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i];
    operands.push_back(builder.input(graph.input_key(i), graph.type(id), graph.label(id)).id());
  }
  std::vector<Frame> frames;
  enter(frames, graph, operands, no_index, 0);
  while (true) {
    Frame& frame = frames.back();
    if (frame.next == frame.graph.num_operations()) {
      if (frames.size() == 1) break;
      const Frame done = std::move(frame);
      frames.pop_back();
      const auto outputs = done.graph.outputs();
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        frames.back().values[done.result + i] = done.values[outputs[i]];
      }
      continue;
    }
    const Operation operation = frame.graph.operation(frame.next++);
    operands.clear();
    for (const ValueId id : operation.inputs()) operands.push_back(frame.values[id]);
    if (const auto* inner = graph_to_write(operation)) {
      const std::uint32_t where =
          operation.where().empty() ? frame.where : builder.intern_where(operation.where());
      enter(frames, Graph(*inner), operands, where, operation.output());
    } else {
      copy_operation(builder, frame, operation, operands);
    }
  }
  std::vector<ValueId> outputs;
  for (const ValueId id : graph.outputs()) outputs.push_back(frames[0].values[id]);
  return builder.build_ids(std::move(outputs));
}

}  // namespace tidu::passes
