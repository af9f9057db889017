// strong_zeros.hpp - strong_zeros: a linear graph of the standard set in which a zero tangent or cotangent
// stays zero whatever it is multiplied by. Opt-in: without it products keep IEEE arithmetic.
#pragma once

#include "tidu/graph/graph.hpp"

namespace tidu {

/// The linear (or transposed) graph with products that annihilate exact zeros: where one factor of mul or
/// dot_general is exactly zero and the other is infinite or NaN the product counts as zero, and so does zero
/// divided by zero. Everything else is as it was, to the last bit; graphs inside operations are treated
/// alike. Derivatives of singular functions need no such transform (multiply_no_nan); it is for products
/// whose factors are infinite: select_n(mask, 0, x log(x)) at x = 0 has the gradient 0 where it is masked.
///
/// Made for DerivativeOptions::linear_transform, with which jvp, vjp, grad, hvp and the others apply it to
/// the linear graph of every order that they derive: vjp(f, {}, {.linear_transform = strong_zeros}).
/// Derivatives of what it builds are derivatives of the product, so give it again for each further order.
/// What it builds is piecewise linear and cannot be transposed. Costs two comparisons per product, and four
/// products in the place of one dot_general. Convolutions and triangular_solve are left as they are.
Graph strong_zeros(const Graph& linear);

}  // namespace tidu
