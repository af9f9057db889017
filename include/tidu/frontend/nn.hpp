// nn.hpp - activations, normalisation and losses of neural networks, with the names of jax.nn. (relu,
// softplus, sigmoid, softmax, log_softmax, logsumexp and one_hot are in functions.hpp and creation.hpp.) Each
// is one operation on the tape. Integers and bools become f64. All throw Error (type, invalid_argument) that
// names function, types and the user's source location. They take an ArrayLike, so that a user's function of
// the same name for Arrays is preferred.
#pragma once

#include <cstdint>

#include "tidu/frontend/array.hpp"

namespace tidu {

/// x sigmoid(x).
Array silu(const ArrayLike& x);
/// silu by its other name.
inline Array swish(const ArrayLike& x) { return silu(x); }
/// x times the probability that a normal number is less than x; `approximate`: by
/// (1 + tanh(sqrt(2/π) (x + 0.044715 x³))) / 2, else by erfc.
Array gelu(const ArrayLike& x, bool approximate = true);
/// x where it is 0 or more, else slope x.
Array leaky_relu(const ArrayLike& x, double negative_slope = 0.01);
/// x where it is above 0, else alpha (exp(x) - 1).
Array elu(const ArrayLike& x, double alpha = 1.0);
/// 1.0507… elu(x, 1.6732…), which keeps mean 0 and variance 1.
Array selu(const ArrayLike& x);
/// log(sigmoid(x)), without overflow.
Array log_sigmoid(const ArrayLike& x);
/// x between 0 and 6, with derivative 0 at both.
Array relu6(const ArrayLike& x);
/// (x - mean) / sqrt(variance + epsilon) over `axes`, the variance divided by the count.
Array standardize(const ArrayLike& x, const Axes& axes = -1, double epsilon = 1e-5);
/// -log_softmax(logits)[label] along the last axis, without overflow, of optax's name: logits [..., classes]
/// and integer labels [...] give [...]. A label out of range counts as the one that is nearest.
Array softmax_cross_entropy_with_integer_labels(const Array& logits, const Array& labels,
                                                Where where = Where::current());

}  // namespace tidu
