"""Contractions, convolutions and discrete Fourier transforms."""

import math

import numpy as np
from jax._src.lax import lax as jax_lax

from .dtypes import COMPLEX, COMPLEX_OF, NUMPY, ints
from .translator import out_aval, result, rule


@rule("dot_general")
def dot_general(t, e, xs):
    (ca, cb), (ba, bb) = e.params["dimension_numbers"]
    dtype, shape = result(e)
    a, b = (t.g.convert(x, dtype) for x in xs)
    y = t.g.one("dot_general", [a, b], dtype, shape, dimension_numbers=ints([[ca, cb], [ba, bb]]))
    return t.wrap(y, out_aval(e).dtype)


@rule("ragged_dot_general")
def ragged_dot_general(t, e, xs):
    return t.trace(lambda *v: jax_lax._ragged_dot_general_impl(*v, **e.params), xs, [v.aval for v in e.invars])


@rule("conv_general_dilated")
def convolution(t, e, xs):
    g, p, (dtype, shape) = t.g, e.params, result(e)
    x, w = (g.convert(v, dtype) for v in xs)
    numbers, groups = p["dimension_numbers"], int(p["batch_group_count"])
    attributes = {
        "window_strides": ints(p["window_strides"]),
        "padding": ints(p["padding"]),
        "lhs_dilation": ints(p["lhs_dilation"]),
        "rhs_dilation": ints(p["rhs_dilation"]),
        "dimension_numbers": {k: ints(getattr(numbers, k)) for k in ("lhs_spec", "rhs_spec", "out_spec")},
        "feature_group_count": int(p["feature_group_count"]),
    }
    if groups == 1:
        return t.wrap(g.one("conv_general_dilated", [x, w], dtype, shape, **attributes), out_aval(e).dtype)
    batch, features, out = numbers.lhs_spec[0], numbers.rhs_spec[0], numbers.out_spec[1]
    parts, shape = [], list(shape)
    shape[out] //= groups
    n, m = x.shape[batch] // groups, w.shape[features] // groups
    for k in range(groups):  # a group of the batch gives a group of the features
        operands = [g.part(x, batch, k * n, (k + 1) * n), g.part(w, features, k * m, (k + 1) * m)]
        parts.append(g.one("conv_general_dilated", operands, dtype, shape, **attributes))
    return t.wrap(g.concatenate(parts, out), out_aval(e).dtype)


# Note [Discrete Fourier transforms]
# A transform of length n = a b is a transforms of length b and b transforms of length a with twiddle factors in between
# (Cooley and Tukey), down to lengths of at most MAX_DENSE, which are matmuls with the matrix of the transform. A longer
# prime length is a cyclic convolution of a power of two (Bluestein). All is linear, so derivatives follow.
MAX_DENSE = 64


def roots_of_unity(exponents, n, sign):
    return np.exp(sign * 2j * np.pi * (exponents % n) / n)


def factor_of(n):
    """The largest factor of n that is at most MAX_DENSE."""
    return max(k for k in range(1, min(n, MAX_DENSE) + 1) if n % k == 0)


def transform_last(g, x, sign):
    """The transform of the last axis of a complex array, without a factor 1/n; sign is that of the exponent."""
    n, lead = x.shape[-1], list(x.shape[:-1])
    numpy = NUMPY[x.dtype]
    constant = lambda a: g.constant(np.asarray(a, numpy))
    if n <= MAX_DENSE:
        k = np.arange(n)
        return g.matmul(x, constant(roots_of_unity(np.outer(k, k), n, sign)), x.rank - 1, 0)
    a = factor_of(n)
    if a == 1:
        return bluestein(g, x, sign)
    b, r = n // a, len(lead)
    x = g.reshape(x, [*lead, a, b])  # element a_index * b + b_index
    x = g.transpose(x, [*range(r), r + 1, r])
    x = transform_last(g, x, sign)  # axes b_index, a_frequency
    twiddle = roots_of_unity(np.outer(np.arange(b), np.arange(a)), n, sign)
    x = g.mul(x, g.broadcast(constant(twiddle), x.shape, [r, r + 1]))
    x = transform_last(g, g.transpose(x, [*range(r), r + 1, r]), sign)  # axes a_frequency, b_frequency
    return g.reshape(g.transpose(x, [*range(r), r + 1, r]), [*lead, n])


def bluestein(g, x, sign):
    n, r = x.shape[-1], x.rank - 1
    m = 1 << (2 * n - 2).bit_length()
    k = np.arange(n)
    chirp = np.exp(sign * 1j * np.pi * (k * k % (2 * n)) / n)
    kernel = np.zeros(m, complex)
    kernel[:n] = chirp.conj()
    kernel[m - n + 1 :] = chirp[1:][::-1].conj()
    numpy = NUMPY[x.dtype]
    over = lambda v, y: g.broadcast(g.constant(np.asarray(v, numpy)), y.shape, [r])
    y = g.mul(x, over(chirp, x))
    y = g.pad(y, g.full(0, x.dtype), [[0, 0, 0]] * r + [[0, m - n, 0]])
    y = transform_last(g, y, -1)
    y = transform_last(g, g.mul(y, over(np.fft.fft(kernel) / m, y)), 1)
    y = g.part(y, r, 0, n)
    return g.mul(y, over(chirp, y))


def transform_axis(g, x, axis, sign):
    order = [i for i in range(x.rank) if i != axis] + [axis]
    y = transform_last(g, g.transpose(x, order), sign)
    return g.transpose(y, [order.index(i) for i in range(x.rank)])


@rule("fft")
def fft(t, e, xs):
    g, (x,), lengths, kind = t.g, xs, ints(e.params["fft_lengths"]), int(e.params["fft_type"])
    first, last = x.rank - len(lengths), x.rank - 1
    axes = [first + k for k in range(len(lengths))]
    if kind == 3:  # IRFFT: the half of the spectrum that is given, and its conjugate mirrored
        n = lengths[-1]
        for axis in axes[:-1]:
            x = transform_axis(g, x, axis, 1)
        x = full_spectrum(g, x, n)
        y = transform_axis(g, x, last, 1)
        y = g.unary("real", y, result(e)[0])
        return g.mul(y, g.like(1 / math.prod(lengths), y))
    if kind == 2:  # RFFT
        x = transform_axis(g, g.convert(x, COMPLEX_OF.get(x.dtype, x.dtype)), last, -1)
        x = g.part(x, last, 0, lengths[-1] // 2 + 1)
        axes = axes[:-1]
    for axis in axes:
        x = transform_axis(g, x, axis, 1 if kind == 1 else -1)
    return g.mul(x, g.like(1 / math.prod(lengths), x)) if kind == 1 else x


def full_spectrum(g, x, n):
    """The spectrum of n real numbers from its first half; the imaginary parts that must be zero are dropped."""
    assert x.dtype in COMPLEX
    last, half = x.rank - 1, n // 2 + 1
    part = "f32" if x.dtype == "c64" else "f64"
    re, im = g.unary("real", x, part), g.unary("imag", x, part)
    is_real = [k == 0 or (n % 2 == 0 and k == n // 2) for k in range(half)]
    mask = g.broadcast(g.constant(np.asarray([not r for r in is_real])), im.shape, [last])
    im = g.select(mask, g.full(0, part, im.shape), im)
    mirrored = n - half
    if mirrored:
        tail = lambda v: g.one(
            "rev", [g.part(v, last, 1, 1 + mirrored)], part, v.shape[:-1] + (mirrored,), dimensions=[last]
        )
        re, im = g.concatenate([re, tail(re)], last), g.concatenate([im, g.unary("neg", tail(im))], last)
    return g.one("complex", [re, im], x.dtype, re.shape)
