// softmax.hpp - softmax, log_softmax, logsumexp and cross entropy, composed of primitives, with derivatives
// that do not cancel where one element exceeds all others: see Note [Saturated softmax] in softmax.cpp.
#pragma once

#include "tidu/graph/value.hpp"

namespace tidu::prim {

/// e^x / Σ e^x over the axes, of f32 or f64, in x's shape. A row whose greatest element is infinite is NaN.
Value softmax_of(Value x, const Ints& axes);
/// The derivative of logsumexp: softmax, except that elements that equal an infinite greatest one have equal
/// shares.
Value shares_of(Value x, const Ints& axes);
/// x - log Σ e^x over the axes, of f32 or f64, in x's shape. A row whose greatest element is infinite is NaN.
Value log_softmax_of(Value x, const Ints& axes);
/// log Σ e^x over the axes, of f32 or f64, without these axes. Elements that equal an infinite greatest one
/// share the derivative evenly. Over no elements it is -inf.
Value logsumexp_of(Value x, const Ints& axes);
/// logsumexp(x) - x[label] along the last axis, for x [..., classes] of f32 or f64 and integer labels [...].
/// Labels out of range are moved to the nearest class.
Value cross_entropy_of(Value x, Value labels);

}  // namespace tidu::prim
