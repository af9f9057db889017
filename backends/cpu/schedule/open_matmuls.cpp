// open_matmuls.cpp - see open_matmuls.hpp.
#include "cpu/schedule/open_matmuls.hpp"

#include <array>
#include <span>

#include "cpu/schedule/multiplications.hpp"

namespace tidu::passes {
namespace {

// Limits: multiplications of a matmul, axes of its operands, grouped matmuls that are open at once.
constexpr double min_multiplications = 1 << 13;
constexpr double max_multiplications = 1 << 18;
constexpr std::size_t max_axes = 32;
constexpr std::size_t max_open = 8;

}  // namespace

bool OpenMatmuls::takes(const Graph& graph, const OperationRecord& record) {
  const Primitive& primitive = *record.op->primitive;
  if (!primitive.has_trait(Trait::contraction) || primitive.factors == nullptr || record.num_inputs != 2 ||
      record.num_outputs != 1 || primitive.has_trait(Trait::impure) || primitive.has_trait(Trait::barrier))
    return false;
  const ValueId* operands = graph.data().operands.data() + record.first_input;
  const std::array types{graph.type(operands[0]), graph.type(operands[1])};
  if (std::max(types[0].rank(), types[1].rank()) > max_axes) return false;
  const double count = multiplications(Op::of(record.op), types, graph.type(record.first_output));
  return count >= min_multiplications && count < max_multiplications;
}

OpenMatmuls::Key OpenMatmuls::key_of(const OperationRecord& record) const {
  const ValueId* operands = graph_.data().operands.data() + record.first_input;
  return {record.op, graph_.type(operands[0]).identity(), graph_.type(operands[1]).identity()};
}

void OpenMatmuls::add(const OperationRecord& record, std::uint32_t node) {
  std::vector<Group>& groups = groups_[key_of(record)];
  if (groups.size() == max_open) groups.erase(groups.begin());
  groups.push_back({node, graph_.type(record.first_output).bytes()});
}

}  // namespace tidu::passes
