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
/// Type(dtype, shape), for a shape that an attribute gives; one that is no shape is refused in the name of
/// the op.
Type make_type(const InferContext& c, DType dtype, const Shape& shape);

}  // namespace tidu::prim
