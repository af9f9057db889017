"""Activations, normalisation, losses, convolutions and pools of neural networks."""

from ._core import log_softmax, logsumexp, one_hot, softmax
from ._core.linalg import avg_pool, conv2d, max_pool
from ._core.nn import (
    elu,
    gelu,
    leaky_relu,
    log_sigmoid,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax_cross_entropy_with_integer_labels,
    softplus,
    standardize,
    swish,
)

__all__ = [
    "avg_pool",
    "conv2d",
    "elu",
    "gelu",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmax_cross_entropy_with_integer_labels",
    "softplus",
    "standardize",
    "swish",
]
