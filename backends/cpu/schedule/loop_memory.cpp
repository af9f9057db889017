// loop_memory.cpp - the bytes that a block of a loop needs.
#include <array>
#include <span>

#include "cpu/schedule/loops.hpp"
#include "tidu/graph/factors.hpp"

namespace tidu::passes {
namespace {

// Does a matmul sum along the innermost axis of its second operand?
bool sums_along_rows(const OperationRecord& record, std::span<const Type> operands, Type result) {
  Factors factors;
  const Op op = Op::of(record.op);
  if (op.primitive().factors == nullptr || operands.size() != 2) return false;
  factors.begin(op, operands, result);
  op.primitive().factors(factors);
  int inner = static_cast<int>(operands[1].rank()) - 1;
  while (inner >= 0 && operands[1].dim(static_cast<std::size_t>(inner)) == 1) --inner;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (inner >= 0 && factors.result_axis(f) == Factors::none && factors.axis_of(f, 1) == inner) return true;
  }
  return false;
}

// Bytes of the operands that matmuls of the blocks read whole, which are packed.
std::size_t prepared_bytes(const BlockedLoop& loop) {
  const Graph& graph = loop.body->graph();
  const GraphData& g = graph.data();
  std::vector<bool> whole(graph.num_values(), false);  // inputs that are in every block, and not counted yet
  for (std::size_t i = 0; i < loop.operands.size(); ++i)
    whole[graph.inputs()[i]] = loop.operands[i].axis == BlockedLoop::none;
  std::size_t bytes = 0;
  for (const OperationRecord& record : g.operations) {
    if (!record.op->primitive->has_trait(Trait::contraction) || record.num_inputs != 2) continue;
    const ValueId* operands = g.operands.data() + record.first_input;
    const ValueId source = loop.body->roots()[operands[1]];
    if (!whole[source]) continue;
    const std::array types{graph.type(operands[0]), graph.type(operands[1])};
    if (!sums_along_rows(record, types, graph.type(record.first_output))) continue;
    whole[source] = false;
    bytes += graph.type(source).bytes();
  }
  return bytes;
}

// Do elements of a block lie side by side in the whole?
bool is_stretch(Type type, int axis) {
  for (int k = 0; k < axis; ++k) {
    if (type.dim(static_cast<std::size_t>(k)) != 1) return false;
  }
  return true;
}

}  // namespace

std::size_t block_bytes(const BlockedLoop& loop) {
  const Program& body = *loop.body;
  const Graph& graph = body.graph();
  std::size_t bytes = body.workspace_bytes() + body.plan().constant_bytes + prepared_bytes(loop);
  for (std::size_t i = 0; i < loop.operands.size(); ++i) {
    const Type type = graph.type(graph.inputs()[i]);
    if (loop.operands[i].axis != BlockedLoop::none && !is_stretch(type, loop.operands[i].axis))
      bytes += type.bytes();
  }
  for (std::size_t i = 0; i < loop.results.size(); ++i) {
    const Type type = graph.type(graph.outputs()[i]);
    if (loop.results[i].axis == BlockedLoop::none || !is_stretch(type, loop.results[i].axis))
      bytes += type.bytes();
  }
  return bytes;
}

}  // namespace tidu::passes
