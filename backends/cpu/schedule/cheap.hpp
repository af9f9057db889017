// cheap.hpp - which operations are computed again rather than kept.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu::passes {

/// Linear in each of its operands: sums, products, signs. Or a square, or the like: of one operand, which may
/// be an integer.
inline bool is_cheap(const OperationRecord& record) {
  const Primitive& primitive = *record.op->primitive;
  if (!primitive.has_trait(Trait::elementwise)) return false;
  if (record.num_inputs == 1 && primitive.attributes.empty() && !primitive.has_trait(Trait::inexact))
    return true;
  if (primitive.linearity.kind == Linearity::Kind::none) return false;
  for (std::size_t i = 0; i < record.num_inputs; ++i) {
    if (!primitive.linearity.includes(i)) return false;
  }
  return true;
}

}  // namespace tidu::passes
