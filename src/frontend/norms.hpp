// norms.hpp - lengths of vectors: norms of any order along axes of a Value, and of the distances from a mean.
// Values and derivatives of first and second order neither overflow nor underflow where the result does not;
// where a length is 0, its derivatives of every order are 0.
#pragma once

#include "tidu/graph/value.hpp"

namespace tidu::frontend_detail {

/// (Σ |x|^ord)^(1/ord) over the axes, of a floating or complex x: inf and -inf for the extremes of |x|, 0 for
/// the count of what is not 0.
Value norm_of(Value x, double ord, const Ints& axes);
/// The length of x - mean x over the axes.
Value deviation_of(Value x, const Ints& axes);

}  // namespace tidu::frontend_detail
