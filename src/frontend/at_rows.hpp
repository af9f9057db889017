// at_rows.hpp - rows of a Value that indices select: the gathers and updates of at() with indices, as
// operations of a graph.
#pragma once

#include <cstddef>
#include <span>

#include "tidu/primitives/elementwise.hpp"

namespace tidu::frontend_detail {

/// Throws Error if x's dtype does not hold v, or if v does not broadcast to shape `place`.
void require_fit(Value v, Value x, const Shape& place, const char* name);
/// v in the dtype of x, broadcast to shape `place`.
Value fitting(Value v, Value x, const Shape& place, const char* name);

/// Combines an element with the value for its position.
using OfTwo = Value (*)(Value there, Value v);
inline Value chosen(Value, Value v) { return v; }
inline Value greater_of(Value there, Value v) { return ops::max(there, v); }
inline Value less_of(Value there, Value v) { return ops::min(there, v); }

/// x with v in the selected rows. If a row is selected several times, the last value counts.
Value with_rows(Value x, Value indices, Value v, const char* name);
/// x with the minimum, or maximum, of the present elements and all values for their positions.
Value with_least(Value x, Value indices, Value v, const char* name);
Value with_greatest(Value x, Value indices, Value v, const char* name);
/// x with v added in the selected rows, once for each selection.
Value with_sums(Value x, Value indices, Value v, const char* name);

}  // namespace tidu::frontend_detail
