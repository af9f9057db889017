// at_rows.hpp - rows of a value that indices name: what at() with indices reads and writes, on values of a
// graph.
#pragma once

#include <cstddef>
#include <span>

#include "tidu/primitives/elementwise.hpp"

namespace tidu::frontend_detail {

/// Refuses a v that x's dtype does not hold, or that does not broadcast to the place.
void require_fit(Value v, Value x, const Shape& place, const char* name);
/// v in the dtype of x, filling the place.
Value fitting(Value v, Value x, const Shape& place, const char* name);

/// What becomes of an element and of what is put in its place.
using OfTwo = Value (*)(Value there, Value v);
inline Value chosen(Value, Value v) { return v; }
inline Value greater_of(Value there, Value v) { return ops::max(there, v); }
inline Value less_of(Value there, Value v) { return ops::min(there, v); }

/// x with v in the rows that are named: the last of several that are put into one.
Value with_rows(Value x, Value indices, Value v, const char* name);
/// x with the least, or greatest, of what is there and of all that is put there.
Value with_least(Value x, Value indices, Value v, const char* name);
Value with_greatest(Value x, Value indices, Value v, const char* name);
/// x with v added in the rows that are named, as often as they are.
Value with_sums(Value x, Value indices, Value v, const char* name);

}  // namespace tidu::frontend_detail
