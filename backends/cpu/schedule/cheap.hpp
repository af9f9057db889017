// cheap.hpp - the operations that may be rematerialized: their results are cheaper to compute again than to
// keep in memory.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu::passes {

/// Is the operation element-wise and cheap? It is linear in each operand (sums, products, signs), or it has
/// one operand and no attributes and also accepts integers (squares).
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
