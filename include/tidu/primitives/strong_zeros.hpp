// strong_zeros.hpp - strong_zeros: transforms a linear graph of the standard set so that a zero tangent or
// cotangent stays zero in products with infinity and NaN. Opt-in: without it multiplications keep IEEE
// arithmetic.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu {

/// The linear (or transposed) graph with multiplications that annihilate exact zeros. If one factor of mul or
/// dot_general is exactly zero and the other is infinite or NaN, the product is zero; so is zero divided by
/// zero. All other results are unchanged, to the last bit. The graphs of operations are transformed alike.
/// Derivatives of singular functions need no such transform (multiply_no_nan). It is for products whose
/// factors are infinite: select_n(mask, 0, x log(x)) at x = 0 has the gradient 0 where it is masked.
///
/// Made for DerivativeOptions::linear_transform, with which jvp, vjp, grad, hvp and the others apply it to
/// the linear graph of every order that they derive: vjp(f, {}, {.linear_transform = strong_zeros}).
/// Derivatives of its result are derivatives of the ordinary product, so pass it again for each further
/// order. Its result is piecewise linear and cannot be transposed. It costs two comparisons per
/// multiplication, and replaces one dot_general by four. Convolutions and triangular_solve are unchanged.
Graph strong_zeros(const Graph& linear);

}  // namespace tidu
