// values.cpp - analyses of values: made at compile time, in shared memory, or a repetition of one element.
#include "tidu/optimizer/passes.hpp"

namespace tidu::passes {
namespace {

bool carries_tensor(const OpRecord& op) {
  for (const AttributeSpec& spec : op.primitive->attributes) {
    if (spec.kind == AttributeKind::literal) return true;
  }
  return false;
}

}  // namespace

std::vector<bool> find_constants(const Graph& graph, std::size_t constant_bytes) {
  std::vector<bool> is_constant(graph.num_values(), false);
  for (const OperationRecord& record : graph.data().operations) {
    const Primitive& primitive = *record.op->primitive;
    if (record.num_inputs != 0 || !primitive.has_trait(Trait::constant) || primitive.has_trait(Trait::impure))
      continue;
    if (record.num_outputs != 1) continue;
    const Type type = graph.type(record.first_output);
    is_constant[record.first_output] = type.bytes() <= constant_bytes || carries_tensor(*record.op);
  }
  return is_constant;
}

std::vector<ValueId> alias_roots(const Graph& graph) {
  std::vector<ValueId> roots(graph.num_values());
  for (ValueId id = 0; id < roots.size(); ++id) roots[id] = id;
  const GraphData& g = graph.data();
  for (const OperationRecord& record : g.operations) {
    if (!record.op->primitive->has_trait(Trait::view)) continue;
    for (std::uint32_t i = 0; i < record.num_outputs && i < record.num_inputs; ++i) {
      roots[record.first_output + i] = roots[g.operands[record.first_input + i]];
    }
  }
  return roots;
}

std::vector<ValueId> find_splats(const Graph& graph) {
  std::vector<ValueId> splats(graph.num_values(), no_index);
  for (ValueId id = 0; id < splats.size(); ++id) {
    if (graph.type(id).size() == 1) splats[id] = id;
  }
  const GraphData& g = graph.data();
  for (const OperationRecord& record : g.operations) {
    const Primitive& primitive = *record.op->primitive;
    if (!primitive.has_trait(Trait::view) && !primitive.has_trait(Trait::repeats)) continue;
    for (std::uint32_t i = 0; i < record.num_outputs; ++i) {
      const ValueId result = record.first_output + i;
      if (splats[result] != no_index) continue;
      if (record.num_inputs == 0) splats[result] = result;
      if (i < record.num_inputs) splats[result] = splats[g.operands[record.first_input + i]];
    }
  }
  return splats;
}

}  // namespace tidu::passes
