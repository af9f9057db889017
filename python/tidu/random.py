"""Random Arrays that follow from a key, as in jax.random: the same key gives the same numbers, always."""

from ._core.random import (
    bernoulli,
    bits,
    categorical,
    exponential,
    gumbel,
    key,
    normal,
    permutation,
    randint,
    split,
    truncated_normal,
    uniform,
)

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "exponential",
    "gumbel",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]
