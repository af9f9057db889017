"""Elementwise primitives, conversions between dtypes, and operations that give their operands as they are."""

import jax
import numpy as np

from .bits import BIAS, MANTISSA, divide_u64, flip_sign, less_u64, shift_right, with_precision
from .dtypes import COMPLEX, EMULATED, INEXACT, NUMPY, REAL, Unsupported, dtype_of, is_key, is_u64, shape_of
from .translator import aval, out_aval, result, rule

NATIVE = (
    "abs sign floor ceil exp exp2 expm1 log log1p sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh logistic erf erfc erf_inv lgamma digamma is_finite"
).split()


@rule(*NATIVE)
def elementwise(t, e, xs):
    if is_u64(aval(e)) and e.primitive.name == "sign":
        return t.g.convert(t.g.compare("ne", xs[0], t.g.like(0, xs[0])), "i64")
    if np.dtype(aval(e).dtype).kind == "u" and e.primitive.name == "abs":
        return xs[0]
    y = t.wrap(t.g.unary(e.primitive.name, xs[0], result(e)[0]), out_aval(e).dtype)
    is_direction = e.primitive.name == "sign" and y.dtype in COMPLEX  # of which JAX says that it is constant
    return t.g.unary("stop_gradient", y) if is_direction else y


@rule("real", "imag")
def part(t, e, xs):
    (x,) = xs
    if x.dtype in COMPLEX:
        return t.g.unary(e.primitive.name, x, result(e)[0])
    return x if e.primitive.name == "real" else t.g.full(0, x.dtype, x.shape)


@rule("neg", "square")
def wrapping_unary(t, e, xs):
    return t.wrap(t.g.unary(e.primitive.name, xs[0]), aval(e).dtype)


@rule("not")
def not_(t, e, xs):
    return t.wrap(t.g.unary("not", xs[0]), aval(e).dtype)


@rule("conj")
def conj(t, e, xs):
    x = t.g.convert(xs[0], result(e)[0])
    return t.g.unary("conj", x) if xs[0].dtype in COMPLEX else x


@rule("complex")
def complex_(t, e, xs):
    return t.g.one("complex", t.g.fitted(xs), *result(e))


@rule("add", "sub", "mul", "add_any")
def arithmetic(t, e, xs):
    name = e.primitive.name
    return t.wrap(t.g.binary("add" if name == "add_any" else name, *xs), aval(e).dtype)


@rule("max", "min", "atan2", "nextafter", "and", "or", "xor")
def binary(t, e, xs):
    name = e.primitive.name
    if is_u64(e.invars[0].aval) and name in ("max", "min"):
        x, y = t.g.fitted(xs)
        less = less_u64(t.g, x, y)
        return t.g.select(less, y, x) if name == "min" else t.g.select(less, x, y)
    if xs[0].dtype in COMPLEX and name in ("max", "min"):
        return complex_extremum(t.g, name, *t.g.fitted(xs))
    zero = 0.0 if name == "max" else -0.0  # what JAX gives of 0 and -0; tidu gives the second of equal operands
    if name in ("max", "min") and (is_zero(xs[0], zero) or is_zero(xs[1], -zero)):
        xs = xs[::-1]
    return t.g.binary(name, *xs)


def is_zero(x, zero):
    known = x.known if x.dtype in REAL else None
    return known is not None and np.all((known == 0) & (np.signbit(known) == np.signbit(zero)))


def complex_extremum(g, name, x, y):
    """The greater or lesser by real part, then by imaginary part."""
    part = "f32" if x.dtype == "c64" else "f64"
    (a, b), (c, d) = ((g.unary(p, v, part) for p in ("real", "imag")) for v in (x, y))
    op = "gt" if name == "max" else "lt"
    first = g.select(g.compare("eq", a, c), g.compare(op, a, c), g.compare(op, b, d))
    return g.select(first, y, x)


@rule("div", "rem")
def division(t, e, xs):
    if not is_u64(aval(e)):
        return t.wrap(t.g.binary(e.primitive.name, *xs), aval(e).dtype)
    quotient, remainder = divide_u64(t.g, *xs)
    return quotient if e.primitive.name == "div" else remainder


@rule("mulhi")
def mulhi(t, e, xs):
    bits = np.dtype(aval(e).dtype).itemsize * 8
    if bits != 32:
        raise Unsupported("mulhi", f"of {np.dtype(aval(e).dtype).name}")
    x, y = (t.g.convert(x, "i64") for x in xs)
    high = shift_right(t.g, t.g.mul(x, y), t.g.full(32, "i64"), 64)
    return t.g.convert(high, result(e)[0])


@rule("pow")
def power(t, e, xs):
    x, y = xs
    if x.dtype in INEXACT:
        return t.g.binary("pow", x, t.g.convert(y, x.dtype))
    return t.wrap(integer_power(t.g, *t.g.fitted(xs)), aval(e).dtype)


def integer_power(g, x, y):
    """x^y of integers by repeated squaring; 1 where y is negative."""
    one = g.like(1, x)
    total = g.fit(one, x.shape)
    for k in range(63 if y.dtype == "i64" else 31):
        bit = g.binary("and", y, g.like(1 << k, y))
        total = g.select(g.compare("ne", bit, g.like(0, bit)), total, g.mul(total, x))
        x = g.mul(x, x)
    return total


@rule("integer_pow")
def integer_pow(t, e, xs):
    return t.wrap(t.g.unary("integer_pow", xs[0], y=int(e.params["y"])), aval(e).dtype)


@rule("eq", "ne", "lt", "le", "gt", "ge")
def comparison(t, e, xs):
    return compared(t, e, e.primitive.name, xs)


@rule("eq_to", "lt_to", "le_to")
def total_comparison(t, e, xs):
    """In the order -inf, ..., -0, 0, ..., inf, NaN; the sign of a NaN does not count."""
    g, op = t.g, e.primitive.name.removesuffix("_to")
    if xs[0].dtype not in REAL:
        return compared(t, e, op, xs)
    if op == "le":
        return g.unary("not", less_in_total(g, *xs[::-1]))
    if op == "lt":
        return less_in_total(g, *xs)
    return g.unary("not", g.binary("or", less_in_total(g, *xs), less_in_total(g, *xs[::-1])))


def less_in_total(g, x, y):
    one = g.like(1, x)
    first_zero = g.compare("lt", g.div(one, x), g.div(one, y))  # -0 and 0 are equal, their reciprocals are not
    less = g.binary("or", g.compare("lt", x, y), g.binary("and", g.compare("eq", x, y), first_zero))
    return g.binary("or", less, g.binary("and", g.compare("eq", x, x), g.compare("ne", y, y)))


def compared(t, e, op, xs):
    if is_key(aval(e).dtype):
        shape = max((x.shape for x in xs), key=len)
        x, y = (v if v.shape == shape else t.g.broadcast(v, shape, [len(shape) - 1]) for v in xs)
        same = t.g.compare(op, x, y)
        return t.g.reduce("reduce_and" if op == "eq" else "reduce_or", same, [same.rank - 1])
    if xs[0].dtype == "bool" and op in ("lt", "le", "gt", "ge"):
        xs = [t.g.convert(x, "i32") for x in xs]
    if is_u64(aval(e)) and op not in ("eq", "ne"):
        xs = [flip_sign(t.g, x) for x in xs]
    return t.g.compare(op, *xs)


@rule("select_n")
def select_n(t, e, xs):
    which, cases, shape = xs[0], xs[1:], shape_of(out_aval(e))
    if len(cases) == 1:
        return cases[0]
    if which.rank:
        is_of_keys = is_key(out_aval(e).dtype)
        which = t.g.broadcast(which, shape, range(which.rank)) if is_of_keys else t.g.fit(which, shape)
    if which.dtype not in ("bool", "i32"):
        which = t.g.convert(which, "i32")
    return t.g.one("select_n", [which, *[t.g.fit(c, shape) for c in cases]], cases[0].dtype, shape)


@rule("clamp")
def clamp(t, e, xs):
    low, x, high = xs
    x = t.g.fit(x, shape_of(out_aval(e)))
    if is_u64(aval(e)):
        low, x, high = (flip_sign(t.g, v) for v in (low, x, high))
    if low.rank or high.rank:
        low, high = t.g.fit(low, x.shape), t.g.fit(high, x.shape)
    y = t.g.one("clamp", [low, x, high], x.dtype, x.shape)
    return flip_sign(t.g, y) if is_u64(aval(e)) else y


@rule("round")
def rounding(t, e, xs):
    to_even = int(e.params["rounding_method"]) == 1
    return t.g.unary("round", xs[0], **({} if to_even else {"rounding_method": "away_from_zero"}))


@rule("convert_element_type")
def convert_element_type(t, e, xs):
    if is_key(aval(e).dtype):
        return xs[0]
    g, (x,) = t.g, xs
    old, new = np.dtype(aval(e).dtype), np.dtype(e.params["new_dtype"])
    if old == np.uint64 and new.kind in "fc" or (old == np.uint64 and dtype_of(new) in INEXACT):
        return float_of_u64(g, x, dtype_of(new))
    if new == np.bool_:
        return x if x.dtype == "bool" else g.compare("ne", x, g.like(0, x))
    if new.name in EMULATED:
        return to_emulated(t, x, old, new)
    y = g.convert(x, dtype_of(new))
    if x.known is not None and y.dtype == "i32" and x.size and np.abs(x.known).max() < 2**31:
        y.known = x.known.astype(np.int32)
    if x.known is not None and not x.rank and y.dtype in REAL:
        y.known = x.known.astype(NUMPY[y.dtype])
    return y


def float_of_u64(g, x, dtype):
    """The halves one after another, as the number may be 2^63 or more."""
    if dtype not in ("f32", "f64"):
        return g.convert(float_of_u64(g, x, "f32"), dtype)
    low = g.binary("and", x, g.like(2**32 - 1, x))
    high = shift_right(g, x, g.like(32, x), 64)
    return g.add(g.mul(g.convert(high, dtype), g.full(2.0**32, dtype)), g.convert(low, dtype))


def to_emulated(t, x, old, new):
    g, wide = t.g, EMULATED[new.name][0]
    if x.dtype in INEXACT:
        return float_to_emulated(g, g.convert(x, x.dtype), new)
    if x.dtype == "i64" and wide == "i32":
        x = g.convert(t.wrap(x, new), "i32")
    return t.wrap(g.convert(x, wide), new)


def float_to_emulated(g, x, new):
    """Moved into the range of the integers, as JAX does; u64 above 2^63 in two steps."""
    if x.dtype in COMPLEX:
        x = g.convert(x, "f32" if x.dtype == "c64" else "f64")
    if new == np.uint64:
        x = g.convert(x, "f32") if x.dtype == "f16" else x  # which 2^63 is out of the range of
        half = g.like(2.0**63, x)
        low = g.convert(g.binary("max", x, g.like(0, x)), "i64")
        high = flip_sign(g, g.convert(g.sub(x, half), "i64"))
        return g.select(g.compare("ge", x, half), low, high)
    limits, wide = np.iinfo(new), EMULATED[new.name][0]
    x = g.convert(x, "f64") if x.dtype != "f64" else x
    clamped = g.one("clamp", [g.full(limits.min, "f64"), x, g.full(limits.max, "f64")], "f64", x.shape)
    return g.convert(clamped, wide)


@rule("reduce_precision")
def reduce_precision(t, e, xs):
    """Rounds mantissas to even; what is less than the normal numbers of the format is 0. Tangents are not reduced, or
    by conversions of dtypes alone."""
    g, (x,) = t.g, xs
    own = exponent, mantissa = BIAS[x.dtype].bit_length() + 1, MANTISSA[x.dtype]
    bits = min(int(e.params["exponent_bits"]), exponent), min(int(e.params["mantissa_bits"]), mantissa)
    if bits == own:
        return x
    least = 2.0 ** (2 - 2 ** (bits[0] - 1))
    for dtype in MANTISSA:
        if (BIAS[dtype].bit_length() + 1, MANTISSA[dtype]) == bits:
            if bits[0] < exponent:
                small = g.compare("lt", g.unary("abs", x), g.like(least * (1 - 2.0 ** -(bits[1] + 2)), x))
                x = g.sub(x, g.unary("stop_gradient", g.select(small, g.like(0, x), x)))
            return g.convert(g.convert(x, dtype), x.dtype)
    magnitude = with_precision(g, g.unary("abs", x), *bits)
    y = g.select(g.compare("lt", x, g.like(0, x)), magnitude, g.unary("neg", magnitude))
    change = g.select(g.unary("is_finite", x, "bool"), g.like(0, x), g.sub(y, x))  # which is exact
    return g.add(x, g.unary("stop_gradient", change))


IDENTITIES = (
    "copy copy_p sharding_constraint layout_constraint reshard mesh_cast pvary name device_put reduced_vary_cast_p "
    "pbroadcast pcast random_clone"
)


@rule(*IDENTITIES.split())
def identity(t, e, xs):
    return xs


@rule("tie")
def tie(t, e, xs):
    return xs[-len(e.outvars) :]


@rule("stop_gradient")
def stop_gradient(t, e, xs):
    return t.g.unary("stop_gradient", xs[0]) if xs[0].dtype in INEXACT else xs[0]


@rule("optimization_barrier")
def optimization_barrier(t, e, xs):
    t.barriers += 1
    return t.g.emit("optimization_barrier", xs, [(x.dtype, x.shape) for x in xs], instance=t.barriers)


@rule("debug_callback", "debug_print", "shape_assertion", "check")
def nothing(t, e, xs):
    return []


@rule("pure_callback")
def pure_callback(t, e, xs):
    """Of equinox.error_if, which raises an error: results are NaN or the greatest integer, as with EQX_ON_ERROR=nan."""
    f = getattr(e.params["callback"], "callback_func", None)
    if getattr(f, "__module__", None) != "equinox._errors":
        raise Unsupported("pure_callback", f"of {getattr(f, '__qualname__', type(f).__qualname__)}")
    return [t.g.constant(np.full(v.aval.shape, greatest(v.aval.dtype), v.aval.dtype)) for v in e.outvars]


def greatest(dtype):
    if jax.dtypes.issubdtype(dtype, np.inexact):
        return np.nan
    return True if dtype == np.bool_ else np.iinfo(dtype).max


@rule("zeros_like", "empty", "empty2")
def zeros(t, e, xs):
    return t.g.full(0, *result(e))
