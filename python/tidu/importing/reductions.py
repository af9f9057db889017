"""Reductions, cumulative reductions, sorting and sliding windows, those with a function of the user's own too."""

import math

import jax
import numpy as np
from jax.extend import core as jcore

from .bits import flip_sign
from .dtypes import EMULATED, INEXACT, Unsupported, ints, is_u64, shape_of
from .translator import aval, closed_jaxpr, out_aval, result, rule


@rule("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or")
def reduction(t, e, xs):
    name, (x,), axes = e.primitive.name, xs, e.params["axes"]
    if name in ("reduce_and", "reduce_or") and x.dtype != "bool":
        return in_halves(t, [x], axes, lambda a, b: [t.g.binary(name.removeprefix("reduce_"), a[0], b[0])])[0]
    return reduced(t, name, x, axes, aval(e))


def reduced(t, name, x, axes, aval):
    if name not in ("reduce_max", "reduce_min"):
        return t.wrap(t.g.reduce(name, x, axes), aval.dtype)
    if is_u64(aval):
        return flip_sign(t.g, t.g.reduce(name, flip_sign(t.g, x), axes))
    return in_range(t.g, t.g.reduce(name, x, axes), aval.dtype)


def in_range(g, x, dtype):
    """A greatest or least integer, which is that of JAX's dtype where there are no elements."""
    if np.dtype(dtype).name not in EMULATED or np.dtype(dtype) == np.uint64:
        return x
    limits = np.iinfo(dtype)
    return g.one("clamp", [g.like(limits.min, x), x, g.like(limits.max, x)], x.dtype, x.shape)


COLLECTIVES = {"psum": "reduce_sum", "psum_invariant": "reduce_sum", "pmax": "reduce_max", "pmin": "reduce_min"}


@rule(*COLLECTIVES)
def collective(t, e, xs):
    """Over axes that vmap has made positions of an array; axes with names are of a shard_map, over one device."""
    name, axes = e.primitive.name, [k for k in e.params["axes"] if isinstance(k, int)]
    if axes and e.params.get("axis_index_groups") is not None:
        raise Unsupported(name, "over " + ", ".join(map(str, axes)))
    return [reduced(t, COLLECTIVES[name], x, axes, v.aval) for x, v in zip(xs, e.invars)]


@rule("reduce_xor")
def reduce_xor(t, e, xs):
    return in_halves(t, xs, e.params["axes"], lambda a, b: [t.g.binary("xor", a[0], b[0])])[0]


@rule("reduce")
def general_reduction(t, e, xs):
    n, axes = len(xs) // 2, ints(e.params["dimensions"])
    f = function_of(e.params.get("jaxpr") or e.params["computation"])
    combine = lambda a, b: elementwise(t, f, [*a, *b], e.invars)
    rest = [m for k, m in enumerate(xs[0].shape) if k not in axes]
    init = [t.g.fit(v, rest) for v in xs[n:]]
    if any(xs[0].shape[k] == 0 for k in axes):
        return init
    return combine(init, in_halves(t, xs[:n], axes, combine))


def in_halves(t, xs, axes, combine):
    """Reduces axes with an associative function of two lists of arrays: log2(n) steps, in each one half with the
    other."""
    g, axes = t.g, sorted(ints(axes))
    rest = [k for k in range(xs[0].rank) if k not in axes]
    shape = [xs[0].shape[k] for k in rest]
    n = math.prod(xs[0].shape[k] for k in axes)
    xs = [g.reshape(g.transpose(x, axes + rest), [n, *shape]) for x in xs]
    while n > 1:
        low, high = n // 2, n // 2 * 2
        halves = [[g.part(x, 0, a, b) for x in xs] for a, b in ((0, low), (low, high))]
        reduced = combine(*halves)
        if n % 2:
            reduced = [g.concatenate([r, g.part(x, 0, n - 1, n)], 0) for r, x in zip(reduced, xs)]
        xs, n = reduced, low + n % 2
    return [g.reshape(x, shape) for x in xs]


def function_of(jaxpr, consts=()):
    closed = closed_jaxpr(jaxpr)
    return jcore.jaxpr_as_fun(jcore.ClosedJaxpr(closed.jaxpr, consts) if consts else closed)


def elementwise(t, f, xs, like):
    """A function of scalars, applied to each element of arrays, which have the dtypes of JAX of these variables."""
    for _ in range(xs[0].rank):
        f = jax.vmap(f)
    return t.trace(f, xs, [jax.ShapeDtypeStruct(x.shape, v.aval.dtype) for x, v in zip(xs, like)])


@rule("argmax", "argmin")
def argmax(t, e, xs):
    x = flip_sign(t.g, xs[0]) if is_u64(aval(e)) else xs[0]
    dtype, shape = result(e)
    index_dtype = dtype if dtype in ("i32", "i64") else "i32"
    return t.g.one(e.primitive.name, [x], dtype, shape, axis=int(e.params["axes"][0]), index_dtype=index_dtype)


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def cumulative(t, e, xs):
    axis, reverse = int(e.params["axis"]), bool(e.params["reverse"])
    if is_u64(aval(e)) and e.primitive.name in ("cummax", "cummin"):
        return flip_sign(t.g, t.g.unary(e.primitive.name, flip_sign(t.g, xs[0]), axis=axis, reverse=reverse))
    return t.wrap(t.g.unary(e.primitive.name, xs[0], axis=axis, reverse=reverse), aval(e).dtype)


@rule("sort")
def sort(t, e, xs):
    n = int(e.params["num_keys"])
    flips = [k < n and is_u64(aval(e, k)) for k in range(len(xs))]
    keys = [flip_sign(t.g, x) if f else x for x, f in zip(xs, flips)]
    types = [(k.dtype, k.shape) for k in keys]
    ys = t.g.emit("sort", keys, types, dimension=int(e.params["dimension"]), num_keys=n)
    return [flip_sign(t.g, y) if f else y for y, f in zip(ys, flips)]


@rule("top_k", "approx_top_k")
def top_k(t, e, xs):
    p, (x,) = e.params, xs
    axis = int(p.get("axis", p.get("operand_dim", p.get("reduction_dimension", x.rank - 1)))) % x.rank
    least = e.primitive.name == "approx_top_k" and not p["is_max_k"]
    order = [i for i in range(x.rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(x.rank)]
    y = t.g.transpose(x, order)
    y = t.g.unary("neg", y) if least else flip_sign(t.g, y) if is_u64(aval(e)) else y
    shape = y.shape[:-1] + (int(p["k"]),)
    values, indices = t.g.emit("top_k", [y], [(y.dtype, shape), ("i32", shape)], k=int(p["k"]))
    values = t.g.unary("neg", values) if least else flip_sign(t.g, values) if is_u64(aval(e)) else values
    return [t.g.transpose(values, back), t.g.transpose(indices, back)]


# Sliding windows


def least(dtype):
    """What any number is at least."""
    if dtype in INEXACT:
        return -math.inf
    return False if dtype == "bool" else -(2**31) if dtype == "i32" else -(2**63)


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def reduce_window(t, e, xs):
    g, p, (x,) = t.g, e.params, xs
    op = "reduce_window_sum" if e.primitive.name == "reduce_window_sum" else "reduce_window_max"
    is_min = e.primitive.name == "reduce_window_min"
    if is_u64(aval(e)) and op == "reduce_window_max":
        x = flip_sign(g, x)
    if is_min:  # of integers -1 - x, which never overflows
        x = g.unary("neg" if x.dtype in INEXACT else "not", x)
    neutral = g.full(0 if op == "reduce_window_sum" else least(x.dtype), x.dtype)
    base = ints(p["base_dilation"])
    if any(n != 1 for n in base):
        x = g.pad(x, neutral, [[0, 0, n - 1] for n in base])
    if any(n != 1 for n in p["window_dilation"]):
        y = window_by_offsets(
            t, [x], [neutral], p, lambda a, b: [g.binary("add" if op.endswith("sum") else "max", *a, *b)]
        )[0]
    else:
        size, strides = ints(p["window_dimensions"]), ints(p["window_strides"])
        y = g.one(op, [x], *result(e), window_dimensions=size, window_strides=strides, padding=ints(p["padding"]))
    if is_min:
        y = g.unary("neg" if x.dtype in INEXACT else "not", y)
    if op == "reduce_window_sum":
        return t.wrap(y, aval(e).dtype)
    return flip_sign(g, y) if is_u64(aval(e)) else in_range(g, y, aval(e).dtype)


@rule("reduce_window")
def general_window(t, e, xs):
    g, p, n = t.g, e.params, len(xs) // 2
    f = function_of(p["jaxpr"], tuple(p.get("consts", ())))
    combine = lambda a, b: elementwise(t, f, [*a, *b], e.invars)
    base = ints(p["base_dilation"])
    pad = lambda x, v: g.pad(x, v, [[0, 0, k - 1] for k in base])
    operands = [pad(x, v) for x, v in zip(xs[:n], xs[n:])]
    inside = pad(g.full(True, "bool", xs[0].shape), g.full(False, "bool"))
    parts = window_slices(g, [inside, *operands], [g.full(False, "bool"), *xs[n:]], p)
    padded = any(k != 1 for k in base) or any(map(any, p["padding"]))
    total = [g.fit(v, shape_of(out_aval(e))) for v in xs[n:]]
    for is_inside, *part in parts:  # as XLA does on the CPU, the function does not see the padding
        new = combine(total, part)
        total = [g.select(is_inside, old, y) for old, y in zip(total, new)] if padded else new
    return total


def window_offsets(p):
    size = ints(p["window_dimensions"])
    if math.prod(size) > 1024:
        raise Unsupported("reduce_window", "written out, with more than 1024 elements in a window")
    return list(np.ndindex(*size))


def window_by_offsets(t, xs, init, p, combine):
    """Reduces windows with combine: one strided slice of the padded operands for each offset in a window."""
    parts = window_slices(t.g, xs, init, p)
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


def window_slices(g, xs, init, p):
    size, strides = ints(p["window_dimensions"]), ints(p["window_strides"])
    dilation = ints(p.get("window_dilation") or [1] * len(size))
    xs = [g.pad(x, v, [[low, high, 0] for low, high in p["padding"]]) for x, v in zip(xs, init)]
    counts = [(n - (w - 1) * d - 1) // s + 1 for n, w, d, s in zip(xs[0].shape, size, dilation, strides)]
    parts = []
    for offset in window_offsets(p):
        low = [i * d for i, d in zip(offset, dilation)]
        high = [a + (c - 1) * s + 1 for a, c, s in zip(low, counts, strides)]
        parts.append([g.slice(x, low, high, strides) for x in xs])
    return parts


def winners(t, e, x):
    """For each offset in a window the windows whose selected element lies there: the first of the greatest (or
    least)."""
    g, p = t.g, e.params
    name = str(getattr(p["select_prim"], "name", p["select_prim"]))
    is_max = name in ("ge", "gt", "ge_p")
    if not is_max:
        x = g.unary("neg", x)
    parts = [part for (part,) in window_slices(g, [x], [g.full(least(x.dtype), x.dtype)], p)]
    best = parts[0]
    for part in parts[1:]:
        best = g.binary("max", best, part)
    found, chosen = g.full(False, "bool", best.shape), []
    for part in parts:
        is_best = g.binary("and", g.compare("eq", part, best), g.unary("not", found))
        chosen.append(is_best)
        found = g.binary("or", found, is_best)
    return chosen


@rule("select_and_gather_add")
def select_and_gather_add(t, e, xs):
    """The elements of the first operand at the positions that windows of the second select."""
    g, (tangents, x) = t.g, xs
    x = g.unary("stop_gradient", x)
    parts = window_slices(g, [tangents], [g.full(0, tangents.dtype)], e.params)
    zero = g.full(0, tangents.dtype, parts[0][0].shape)
    total = None
    for (part,), chosen in zip(parts, winners(t, e, x)):
        term = g.select(chosen, zero, part)
        total = term if total is None else g.add(total, term)
    return total


@rule("select_and_scatter_add")
def select_and_scatter_add(t, e, xs):
    """The source, one number for each window, added at the positions that windows of the operand select."""
    g, p, (source, x) = t.g, e.params, xs
    x = g.unary("stop_gradient", x)
    zero, strides = g.full(0, source.dtype), ints(p["window_strides"])
    padding = ints(p["padding"])
    padded = [n + low + high for n, (low, high) in zip(x.shape, padding)]
    total = g.full(0, source.dtype, padded)
    for offset, chosen in zip(window_offsets(p), winners(t, e, x)):
        term = g.select(chosen, g.full(0, source.dtype, source.shape), source)
        spread = [(n - 1) * s + 1 for n, s in zip(source.shape, strides)]
        config = [[o, m - o - n, s - 1] for o, m, n, s in zip(offset, padded, spread, strides)]
        total = g.add(total, g.pad(term, zero, config))
    return g.slice(total, [low for low, _ in padding], [low + n for (low, _), n in zip(padding, x.shape)])
