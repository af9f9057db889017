"""Primitives that only move elements. An array of keys has one axis more than JAX says: that of the two words."""

from .dtypes import ints, is_key, shape_of
from .translator import aval, out_aval, result, rule


@rule("reshape")
def reshape(t, e, xs):
    order = e.params.get("dimensions")  # of the axes, before they are reshaped
    x = xs[0] if order is None else t.g.transpose(xs[0], order)
    return t.g.reshape(x, shape_of(out_aval(e)))


@rule("squeeze", "expand_dims")
def squeeze(t, e, xs):
    return t.g.reshape(xs[0], shape_of(out_aval(e)))


@rule("broadcast_in_dim")
def broadcast_in_dim(t, e, xs):
    dimensions = list(e.params["broadcast_dimensions"])
    if is_key(aval(e).dtype):
        dimensions.append(len(out_aval(e).shape))
    return t.g.broadcast(xs[0], shape_of(out_aval(e)), dimensions)


@rule("transpose")
def transpose(t, e, xs):
    permutation = list(e.params["permutation"])
    return t.g.transpose(xs[0], permutation + [len(permutation)] * is_key(aval(e).dtype))


@rule("rev")
def rev(t, e, xs):
    dimensions = ints(e.params["dimensions"])
    return t.g.one("rev", xs, *result(e), dimensions=dimensions) if dimensions else xs[0]


@rule("slice")
def slice_(t, e, xs):
    p, words = e.params, is_key(aval(e).dtype)
    strides = list(p["strides"] or [1] * len(p["start_indices"]))
    start, limit = list(p["start_indices"]) + [0] * words, list(p["limit_indices"]) + [2] * words
    return t.g.slice(xs[0], start, limit, strides + [1] * words)


@rule("pad")
def pad(t, e, xs):
    return t.g.pad(xs[0], xs[1], [list(c) for c in e.params["padding_config"]])


@rule("concatenate")
def concatenate(t, e, xs):
    return t.g.concatenate(xs, int(e.params["dimension"]))


@rule("stack")
def stack(t, e, xs):
    return t.g.stack(xs, int(e.params["axis"]))


@rule("unstack")
def unstack(t, e, xs):
    axis = int(e.params["axis"])
    return [t.g.at(xs[0], axis, k) for k in range(xs[0].shape[axis])]


@rule("tile")
def tile(t, e, xs):
    (y,) = xs
    for axis, n in enumerate(ints(e.params["reps"])):
        if n != 1:
            y = t.g.concatenate([y] * n, axis) if n else t.g.part(y, axis, 0, 0)
    return y


@rule("split")
def split(t, e, xs):
    parts, start, axis = [], 0, int(e.params["axis"])
    for n in ints(e.params["sizes"]):
        parts.append(t.g.part(xs[0], axis, start, start + n))
        start += n
    return parts


@rule("iota")
def iota(t, e, xs):
    return t.g.iota(*result(e), e.params["dimension"])


@rule("dynamic_slice")
def dynamic_slice(t, e, xs):
    x, sizes, starts = xs[0], ints(e.params["slice_sizes"]), same_integers(t.g, xs[1:])
    if is_key(aval(e).dtype):
        starts, sizes = [*starts, zero_like(t.g, starts)], sizes + [2]
    return t.g.one("dynamic_slice", [x, *starts], *result(e), slice_sizes=sizes) if x.rank else x


@rule("dynamic_update_slice")
def dynamic_update_slice(t, e, xs):
    starts = same_integers(t.g, xs[2:])
    if is_key(aval(e).dtype):
        starts = [*starts, zero_like(t.g, starts)]
    return t.g.one("dynamic_update_slice", [xs[0], xs[1], *starts], *result(e)) if xs[0].rank else xs[1]


def same_integers(g, xs):
    dtypes = {x.dtype for x in xs}
    return list(xs) if len(dtypes) <= 1 and dtypes <= {"i32", "i64"} else [g.convert(x, "i64") for x in xs]


def zero_like(g, starts):
    return g.full(0, starts[0].dtype if starts else "i32")
