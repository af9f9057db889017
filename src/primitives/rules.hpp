// rules.hpp - what several families of records share: type rules, batch rules and small conveniences for JVP
// rules. Everything here is stated once; a record names what applies to it.
#pragma once

#include "tidu/graph/infer.hpp"
#include "tidu/graph/rules.hpp"

namespace tidu::prim {

// --- type rules
/// All operands of one type, which is the result's.
void infer_same_type(InferContext& c);
/// All operands of one type; the result is bool of that shape.
void infer_comparison(InferContext& c);
/// Type(dtype, shape), for a shape that an attribute gives; one that is no shape is refused in the name of
/// the op.
Type make_type(const InferContext& c, DType dtype, const Shape& shape);

// --- batch rules (leading axis)
/// The operand with the leading axis: itself when batched, else broadcast to it.
Value with_batch_axis(BatchContext& c, std::size_t operand);
/// Element-wise operations: every array gets the axis, the op stays. A scalar beside arrays, such as a bound
/// of clamp, stays a scalar when it is not batched, and is broadcast to the full shape when it is.
Values batch_elementwise(BatchContext& c);

}  // namespace tidu::prim
