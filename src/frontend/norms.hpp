// norms.hpp - norms of any order along axes of a Value, and norms of the deviations from a mean. Values and
// derivatives of first and second order neither overflow nor underflow unless the result does. If a norm is
// 0, its derivatives of every order are 0.
#pragma once

#include "tidu/graph/value.hpp"

namespace tidu::frontend_detail {

/// (Σ |x|^ord)^(1/ord) over the axes, for a floating or complex x. inf and -inf give the maximum and minimum
/// of |x|, and 0 gives the number of nonzero elements.
Value norm_of(Value x, double ord, const Ints& axes);
/// The 2-norm of x - mean x over the axes, divided by this number.
Value deviation_of(Value x, const Ints& axes, double divisor);

}  // namespace tidu::frontend_detail
