"""Bits of integers and floating numbers, by arithmetic: shifts, counts, u64, and floating numbers from and to their
bits."""

import numpy as np

from .dtypes import INEXACT, NUMPY, REAL, dtype_of, width
from .translator import aval, result, rule


def flip_sign(g, x):
    """Maps the order of u64 to that of i64."""
    return g.binary("xor", x, g.like(-(2**63), x))


def less_u64(g, x, y):
    return g.compare("lt", flip_sign(g, x), flip_sign(g, y))


def divide_u64(g, x, y):
    """Quotient and remainder of u64."""
    x, y = g.fitted([x, y])
    half = g.div(shift_right(g, x, g.like(1, x), 64), y)
    quotient = g.mul(half, g.like(2, x))
    rest = g.sub(x, g.mul(quotient, y))
    more = g.unary("not", less_u64(g, rest, y))
    quotient = g.add(quotient, g.convert(more, "i64"))
    rest = g.select(more, rest, g.sub(rest, y))
    if y.known is not None and np.all(y.known > 0):
        return quotient, rest
    large = g.compare("lt", y, g.like(0, y))  # a divisor of 2^63 or more goes into x once or not at all
    once = g.unary("not", less_u64(g, x, y))
    quotient = g.select(large, quotient, g.convert(once, "i64"))
    return quotient, g.select(large, rest, g.select(once, x, g.sub(x, y)))


def splat(value):
    """The one number that fills a known value, or None."""
    if value.known is None and value.producer and value.producer[0] == "broadcast_in_dim":
        value = value.producer[1][0]
    if value.known is None or not value.size or not np.all(value.known == value.known.reshape(-1)[0]):
        return None
    return int(value.known.reshape(-1)[0])


def wrapped(n, bits):
    """n as a signed integer of so many bits."""
    return (n + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def power_of_two(g, n, like):
    """2^n in like's dtype, wrapping; n is at least 0 and below its width."""
    bits, k = 64 if like.dtype == "i64" else 32, splat(n)
    if k is not None:
        return g.full(wrapped(2**k, bits), like.dtype)
    table = np.array([wrapped(2**k, bits) for k in range(bits)], NUMPY[like.dtype])
    return g.take(g.constant(table), g.convert(n, like.dtype))


def shift_right(g, x, n, bits):
    """Logical shift of integers with so many bits, 0 <= n < bits."""
    own = 64 if x.dtype == "i64" else 32
    if bits < own:  # never negative
        return g.div(x, power_of_two(g, n, x))
    k = splat(n)
    if k == 0:
        return x
    # All but the sign bit as a quotient; the sign bit is set at its new position.
    rest = g.div(g.binary("and", x, g.like(2 ** (own - 1) - 1, x)), power_of_two(g, n, x))
    if k is not None:
        top = g.like(2 ** (own - 1 - k), x)
    else:
        top = power_of_two(g, g.sub(g.like(own - 1, n), n), x)
    x, rest, top = g.fitted([x, rest, top])
    y = g.select(g.compare("lt", x, g.like(0, x)), rest, g.binary("or", rest, top))
    return y if k is not None else g.select(g.compare("eq", n, g.like(0, n)), y, x)


@rule("shift_left", "shift_right_logical", "shift_right_arithmetic")
def shift(t, e, xs):
    g, (x, n), name = t.g, xs, e.primitive.name
    bits, signed = width(aval(e).dtype)
    x, n = g.fitted(xs)
    if splat(xs[1]) is not None:
        n = xs[1]
        is_large = not 0 <= splat(n) < bits
        bounded = g.full(min(max(splat(n) if splat(n) >= 0 else bits, 0), bits - 1), n.dtype)
        large = None
    else:
        is_large = False
        large = g.binary("or", g.compare("lt", n, g.like(0, n)), g.compare("ge", n, g.like(bits, n)))
        bounded = g.select(large, n, g.like(bits - 1, n))
    if name == "shift_right_arithmetic":  # a shift by too many bits leaves the sign
        own = 64 if x.dtype == "i64" else 32
        if not signed and bits < 64:  # the highest bit counts as the sign of unsigned integers too
            half = g.like(2 ** (bits - 1), x)
            x = g.sub(g.binary("xor", x, half), half)
        positive = shift_right(g, x, bounded, own)
        negative = g.unary("not", shift_right(g, g.unary("not", x), bounded, own))
        return t.wrap(g.select(g.compare("lt", x, g.like(0, x)), positive, negative), aval(e).dtype)
    if is_large:
        return g.full(0, *result(e))
    if name == "shift_left":
        y = t.wrap(g.mul(x, power_of_two(g, bounded, x)), aval(e).dtype)
    else:
        if signed and bits < 32:
            x = g.binary("and", x, g.like((1 << bits) - 1, x))
        y = t.wrap(shift_right(g, x, bounded, bits), aval(e).dtype)
    return y if large is None else g.select(large, y, g.full(0, y.dtype, y.shape))


def unsigned(g, x, bits):
    """The low bits of x, never negative if they are fewer than x has."""
    return x if bits == (64 if x.dtype == "i64" else 32) else g.binary("and", x, g.like((1 << bits) - 1, x))


@rule("population_count")
def population_count(t, e, xs):
    g, (bits, _) = t.g, width(aval(e).dtype)
    x = unsigned(g, xs[0], bits)
    total = g.full(0, x.dtype, x.shape)
    for k in range(bits):
        bit = shift_right(g, x, g.full(k, x.dtype), bits)
        total = g.add(total, g.binary("and", bit, g.like(1, x)))
    return total


@rule("clz")
def count_leading_zeros(t, e, xs):
    g, (bits, _) = t.g, width(aval(e).dtype)
    x = unsigned(g, xs[0], bits)
    total = g.full(bits, x.dtype, x.shape)
    for k in range(bits):  # one less for each position at or above which a bit is set
        above = shift_right(g, x, g.full(k, x.dtype), bits)
        total = g.sub(total, g.convert(g.compare("ne", above, g.like(0, x)), x.dtype))
    return total


# Note [Bits of floating numbers]
# A floating number is sign, exponent and mantissa. To bits: the exponent is found by comparing with powers of two and
# scaling, which is exact, in a binary search; then the mantissa is an integer. From bits: the mantissa times a power of
# two out of a table. f16 and bf16 go through f32, whose values contain theirs. A NaN is the positive quiet NaN without
# payload.
BIAS = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}
MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
TOTAL = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def bits_of_float(g, x):
    """The bits of floating numbers as an i64, not sign-extended but for f64."""
    form, total = x.dtype, TOTAL[x.dtype]
    bias, m = BIAS[form], MANTISSA[form]
    wide = "f64"
    v = g.convert(x, wide)
    zero, one = g.full(0.0, wide), g.full(1.0, wide)
    is_negative = g.compare("lt", v, zero)
    is_minus_zero = g.binary("and", g.compare("eq", v, zero), g.compare("lt", g.div(one, v), zero))
    negative = g.binary("or", is_negative, is_minus_zero)
    a = g.unary("abs", v)
    finite = g.unary("is_finite", a, "bool")
    a = g.select(finite, one, a)
    exponent = g.full(0, "i64", x.shape)
    for k in reversed(range(10)):  # a >= 2 is scaled down to [1, 2)
        scale = g.compare("ge", a, g.full(2.0 ** (2**k), wide))
        a = g.select(scale, a, g.mul(a, g.full(2.0 ** -(2**k), wide)))
        exponent = g.add(
            exponent, g.convert(scale, "i64") if k == 0 else g.mul(g.convert(scale, "i64"), g.full(2**k, "i64"))
        )
    # a < 1 is scaled up by at most bias - 1, the exponent of the least normal number
    left = g.full(bias - 1, "i64")
    down = g.full(0, "i64", x.shape)
    for k in reversed(range(10)):
        fits = g.compare("le", g.add(down, g.full(2**k, "i64")), left)
        scale = g.binary("and", g.compare("lt", a, g.full(2.0 ** (1 - 2**k), wide)), fits)
        a = g.select(scale, a, g.mul(a, g.full(2.0 ** (2**k), wide)))
        down = g.add(down, g.mul(g.convert(scale, "i64"), g.full(2**k, "i64")))
    exponent = g.sub(exponent, down)
    is_normal = g.compare("ge", a, one)
    fraction = g.mul(g.select(is_normal, a, g.sub(a, one)), g.full(2.0**m, wide))
    mantissa = g.convert(fraction, "i64")
    biased = g.select(is_normal, g.full(0, "i64"), g.add(exponent, g.full(bias, "i64")))
    bits = g.add(g.mul(biased, g.full(2**m, "i64")), mantissa)
    infinity = (2 * bias + 1) * 2**m
    is_nan = g.compare("ne", v, v)
    special = g.select(is_nan, g.full(infinity, "i64"), g.full(infinity + 2 ** (m - 1), "i64"))
    bits = g.select(finite, special, bits)
    sign = g.select(negative, g.full(0, "i64"), g.full(wrapped(2 ** (total - 1), 64), "i64"))
    return g.binary("or", bits, sign)


def float_of_bits(g, bits, form):
    """The floating numbers with these bits, in the low part of an i64."""
    bias, m, total = BIAS[form], MANTISSA[form], TOTAL[form]
    sign = shift_right(g, bits, g.full(total - 1, "i64"), 64)
    sign = g.compare("ne", g.binary("and", sign, g.full(1, "i64")), g.full(0, "i64"))
    biased = shift_right(g, bits, g.full(m, "i64"), 64)
    biased = g.binary("and", biased, g.full(2 * bias + 1, "i64"))
    mantissa = g.binary("and", bits, g.full(2**m - 1, "i64"))
    is_normal = g.compare("ne", biased, g.full(0, "i64"))
    whole = g.select(is_normal, mantissa, g.add(mantissa, g.full(2**m, "i64")))
    # 2^(biased - bias - m) in two factors, as one alone may not be a number
    exponents = np.maximum(np.arange(2 * bias + 2), 1) - bias - m
    first, second = np.exp2(exponents // 2), np.exp2(exponents - exponents // 2)
    value = g.mul(g.convert(whole, "f64"), g.take(g.constant(first), biased))
    value = g.mul(value, g.take(g.constant(second), biased))
    is_special = g.compare("eq", biased, g.full(2 * bias + 1, "i64"))
    is_infinite = g.compare("eq", mantissa, g.full(0, "i64"))
    special = g.select(is_infinite, g.full(np.nan, "f64"), g.full(np.inf, "f64"))
    value = g.select(is_special, value, special)
    value = g.select(sign, value, g.unary("neg", value))
    return g.convert(value, form)


def with_precision(g, x, exponent_bits, mantissa_bits):
    """Positive numbers rounded to a format of less precision, to 0 or infinity if they are out of its range."""
    bias, m, form = BIAS[x.dtype], MANTISSA[x.dtype], x.dtype
    full = lambda n: g.full(n, "i64")
    bits = bits_of_float(g, x)
    if mantissa_bits < m:
        unit = 2 ** (m - mantissa_bits)
        is_odd = g.binary("and", shift_right(g, bits, full(m - mantissa_bits), 64), full(1))
        bits = g.binary("and", g.add(bits, g.add(is_odd, full(unit // 2 - 1))), full(-unit))
    if 2 ** (exponent_bits - 1) - 1 < bias:
        limit = 2 ** (exponent_bits - 1) - 1
        low, high = (bias - limit + 1) * 2**m, (bias + limit + 1) * 2**m
        bits = g.select(g.compare("lt", bits, full(low)), bits, full(0))
        bits = g.select(g.compare("ge", bits, full(high)), bits, full((2 * bias + 1) * 2**m))
    return float_of_bits(g, bits, form)


def uniform_mantissa(g, x, form):
    """x as a number in [1, 2) if it is mantissa bits or-ed with the bits of 1, as random numbers are made, or None."""
    if not x.producer or x.producer[0] != "or":
        return None
    m = MANTISSA[form]
    for a, b in (x.producer[1], x.producer[1][::-1]):
        if splat(b) == BIAS[form] * 2**m:
            return g.add(g.mul(g.convert(a, form), g.full(2.0**-m, form)), g.full(1.0, form))
    return None


@rule("bitcast_convert_type")
def bitcast(t, e, xs):
    g, (x,) = t.g, xs
    old, new = np.dtype(aval(e).dtype), np.dtype(e.params["new_dtype"])
    if old.itemsize > new.itemsize:
        return parts_of_bits(t, bits_of(g, x), old.itemsize // new.itemsize, new)
    if old.itemsize < new.itemsize:
        return number_of_bits(t, joined(g, bits_of(g, x), old.itemsize * 8), new)
    old_form, new_form = dtype_of(old), dtype_of(new)
    if old == new:
        return g.unary("stop_gradient", x) if x.dtype in INEXACT else x
    if new_form in REAL and old_form not in REAL:
        y = uniform_mantissa(g, x, new_form) if old.kind == "u" else None
        return y if y is not None else float_of_bits(g, g.convert(x, "i64"), new_form)
    return number_of_bits(t, bits_of(g, x), new)


def bits_of(g, x):
    return bits_of_float(g, x) if x.dtype in REAL else g.convert(x, "i64")


def number_of_bits(t, bits, dtype):
    form = dtype_of(dtype)
    return float_of_bits(t.g, bits, form) if form in REAL else integer_of_bits(t, bits, dtype)


def parts_of_bits(t, bits, count, dtype):
    """Numbers along a new last axis, that of the low bits first."""
    g, size = t.g, width(dtype)[0]
    parts = [shift_right(g, bits, g.full(k * size, "i64"), 64) for k in range(count)]
    return number_of_bits(t, g.stack(parts, bits.rank), dtype)


def joined(g, bits, size):
    """The bits of numbers along the last axis one after another, those of the first the lowest."""
    axis, total = bits.rank - 1, None
    for k in range(bits.shape[axis]):
        part = unsigned(g, g.at(bits, axis, k), size)
        part = g.mul(part, power_of_two(g, g.full(k * size, "i64"), part))
        total = part if total is None else g.binary("or", total, part)
    return total


def integer_of_bits(t, bits, dtype):
    """The low bits of an i64 as an integer of a JAX dtype, in tidu's dtype for it."""
    g, (count, signed) = t.g, width(dtype)
    if count < 64:
        bits = g.binary("and", bits, g.full(2**count - 1, "i64"))
        if signed:
            half = g.full(2 ** (count - 1), "i64")
            bits = g.sub(g.binary("xor", bits, half), half)
    return g.convert(bits, dtype_of(dtype))
