// batching.hpp - batch rules that primitives of any author may share. A batch rule adds a leading axis.
#pragma once

#include <cstddef>

#include "tidu/graph/rules.hpp"

namespace tidu::prim {

/// Operand `operand` with the leading axis, of shape [c.size(), ...]: itself if it is batched, otherwise
/// broadcast by broadcast_in_dim, which the primitive set must have.
Value with_batch_axis(BatchContext& c, std::size_t operand);

/// The batch rule of an element-wise primitive: every array gets the axis, and the op stays. A scalar beside
/// arrays, such as a bound of clamp, stays a scalar if it is not batched; otherwise it is broadcast to the
/// shape of the arrays.
Values batch_elementwise(BatchContext& c);

}  // namespace tidu::prim
