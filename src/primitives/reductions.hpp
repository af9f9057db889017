// reductions.hpp - functions that the records with an attribute `axes` share: its schema, type rule and batch
// rule.
#pragma once

#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::prim {

inline constexpr AttributeSpec reduction_axes[] = {{"axes", AttributeKind::ints}};

/// The operand's type without the axes of attribute `axes`.
void infer_reduction(InferContext& c);
/// The same op with its axes shifted by a leading one.
Values batch_reduction(BatchContext& c);

}  // namespace tidu::prim
