// known_zeros.hpp - values of a graph that are zero for all inputs.
#pragma once

#include <cstdint>
#include <functional>

#include "tidu/graph/graph.hpp"
#include "tidu/graph/literal.hpp"
#include "tidu/graph/primitive.hpp"

namespace tidu::detail {

/// Are the results of an operation zero, because linear operations make them from zero constants? Decided by
/// the same property of its operands.
inline bool gives_zeros(const Operation& operation, const std::function<bool(std::size_t)>& operand_is_zero) {
  const Primitive& primitive = operation.primitive();
  if (primitive.has_trait(Trait::holds_graph) || primitive.has_trait(Trait::impure)) return false;
  if (operation.num_inputs() == 0) {
    for (const auto& [name, attribute] : operation.record().op->attributes) {
      const Literal* literal = attribute.get_if<Literal>();
      if (name != "value" || literal == nullptr || !primitive.has_trait(Trait::constant)) continue;
      for (std::int64_t i = 0; i < literal->type().size(); ++i) {
        if (literal->at(i) != 0.0) return false;
      }
      return true;
    }
    return false;
  }
  const Linearity& linearity = primitive.linearity;
  bool any = false, all = true;
  for (std::size_t i = 0; i < operation.num_inputs(); ++i) {
    if (!linearity.includes(i)) continue;
    const bool zero = operand_is_zero(i);
    any = any || zero;
    all = all && zero;
  }
  if (linearity.kind == Linearity::Kind::bilinear) return any;
  return linearity.kind == Linearity::Kind::joint && any && all;
}

}  // namespace tidu::detail
