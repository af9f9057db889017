"""Random numbers: keys and bits of Threefry-2x32. A key is an i32[..., 2], a u32 is kept in an i64."""

import math

import jax

from .bits import splat
from .dtypes import Unsupported, check_generator, ints, is_u64, shape_of
from .translator import aval, out_aval, result, rule

WORD = 2**32 - 1


def low_word(g, x):
    """The i32 with the low 32 bits of an i64."""
    x, sign = g.binary("and", x, g.like(WORD, x)), g.like(2**31, x)
    return g.convert(g.sub(g.binary("xor", x, sign), sign), "i32")


def words(g, x):
    """The i32s of the high and the low half of an i64."""
    low = g.binary("and", x, g.like(WORD, x))
    return [g.convert(g.div(g.sub(x, low), g.like(2**32, x)), "i32"), low_word(g, low)]


def unsigned_word(g, x):
    """The u32, in an i64, with the bits of an i32."""
    return g.binary("and", g.convert(x, "i64"), g.full(WORD, "i64"))


def key_of(g, high_and_low):
    return g.stack(high_and_low, high_and_low[0].rank)


@rule("random_wrap")
def random_wrap(t, e, xs):
    check_generator(out_aval(e).dtype, "random_wrap")
    return low_word(t.g, xs[0])


@rule("random_unwrap")
def random_unwrap(t, e, xs):
    check_generator(aval(e).dtype, "random_unwrap")
    return unsigned_word(t.g, xs[0])


def check_partitionable(primitive):
    if not jax.config.jax_threefry_partitionable:
        raise Unsupported(primitive, "with jax_threefry_partitionable off")


@rule("random_bits")
def random_bits(t, e, xs):
    check_partitionable("random_bits")
    g, bits, shape = t.g, int(e.params["bit_width"]), ints(e.params["shape"])
    dtype = "i64" if bits == 64 else "i32"
    y = g.one("random_bits", [xs[0]], dtype, xs[0].shape[:-1] + tuple(shape), shape=shape, dtype=dtype)
    if bits == 64:
        return y
    return unsigned_word(g, y) if bits == 32 else g.binary("and", y, g.like(2**bits - 1, y))


@rule("random_split")
def random_split(t, e, xs):
    check_partitionable("random_split")
    g, shape = t.g, ints(e.params["shape"])
    y = g.one("random_bits", [xs[0]], "i64", xs[0].shape[:-1] + tuple(shape), shape=shape, dtype="i64")
    return key_of(g, words(g, y))


@rule("random_seed")
def random_seed(t, e, xs):
    check_generator(out_aval(e).dtype, "random_seed")
    g, (x,) = t.g, xs
    if x.dtype == "i64" and is_u64(aval(e)) or str(aval(e).dtype) == "int64":
        return key_of(g, words(g, x))
    low = low_word(g, x) if x.dtype == "i64" else x
    return key_of(g, [g.full(0, "i32", x.shape), low])


@rule("random_fold_in")
def random_fold_in(t, e, xs):
    g, (key, data) = t.g, xs
    n, lead = splat(data), out_aval(e).shape
    if n is not None and not lead and 0 <= n < 64:
        y = g.one("random_bits", [key], "i64", [n + 1], shape=[n + 1], dtype="i64")
        return key_of(g, words(g, g.at(y, 0, n)))
    data = unsigned_word(g, data) if data.dtype != "i64" else g.binary("and", data, g.like(WORD, data))
    first, second = (g.fit(unsigned_word(g, g.at(key, key.rank - 1, k)), lead) for k in range(2))
    return key_of(g, [low_word(g, x) for x in threefry(g, first, second, g.full(0, "i64", lead), g.fit(data, lead))])


ROTATIONS = ([13, 15, 26, 6], [17, 29, 16, 24])


def threefry(g, k0, k1, x0, x1):
    """Threefry-2x32 of u32 in i64."""
    mask = g.full(WORD, "i64")
    add = lambda a, b: g.binary("and", g.add(a, b), mask)

    def rotate(x, r):
        left = g.binary("and", g.mul(x, g.full(1 << r, "i64")), mask)
        return g.binary("or", left, g.div(x, g.full(1 << (32 - r), "i64")))

    keys = [k0, k1, g.binary("xor", g.binary("xor", k0, k1), g.full(0x1BD11BDA, "i64"))]
    x0, x1 = add(x0, keys[0]), add(x1, keys[1])
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = add(x0, x1)
            x1 = g.binary("xor", x0, rotate(x1, r))
        x0, x1 = add(x0, keys[(i + 1) % 3]), add(add(x1, keys[(i + 2) % 3]), g.full(i + 1, "i64"))
    return [x0, x1]


@rule("threefry2x32")
def threefry2x32(t, e, xs):
    shape = shape_of(out_aval(e))
    return threefry(t.g, *(t.g.fit(x, shape) for x in xs))


@rule("iota_2x32_shape")
def iota_2x32_shape(t, e, xs):
    dtype, shape = result(e)
    return [t.g.full(0, dtype, shape), t.g.reshape(t.g.iota(dtype, [math.prod(shape)], 0), shape)]
