// random.hpp - random bits of the standard set: the record (tidu::prim) and the function that emits it
// (tidu::ops). There is no state: the same key gives the same bits, on every backend.
#pragma once

#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// Threefry-2x32.
extern const Primitive random_bits;

}  // namespace tidu::prim

namespace tidu::ops {

/// Bits of `shape` that follow from `key`, i32[2] (a key of shape [..., 2] is a key for each leading
/// position, whose axes the result has before `shape`). Element n of a shape, in row-major order, is
/// Threefry-2x32 of 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) on the
/// counter n, upper 32 bits first: as i32 the exclusive or of the two words, as i64 both, the first one
/// above. These are the bits of jax.random.bits in its partitionable form. `dtype` is i32 or i64. Throws
/// Error (type) otherwise.
Value random_bits(Value key, const Shape& shape, DType dtype = i32, Where where = Where::current());

}  // namespace tidu::ops
