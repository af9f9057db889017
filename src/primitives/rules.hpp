// rules.hpp - type rules that several families of records share. Batch rules are in
// tidu/primitives/batching.hpp.
#pragma once

#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"
#include "tidu/primitives/batching.hpp"

namespace tidu::prim {

// --- type rules
/// All operands of one type, which is the result's.
void infer_same_type(InferContext& c);
/// All operands of one type; the result is bool of that shape.
void infer_comparison(InferContext& c);
/// Type(dtype, shape), for a shape that an attribute gives; throws for one that is no shape, in the op's
/// name.
Type make_type(const InferContext& c, DType dtype, const Shape& shape);

}  // namespace tidu::prim
