"""gather and scatter, of any dimension numbers and mode, as take, scatter_add, dynamic slices and masks."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from .bits import flip_sign, wrapped
from .dtypes import INEXACT, NUMPY, ints, is_key, is_u64
from .reductions import elementwise, function_of
from .translator import aval, closed_jaxpr, out_aval, result, rule


class Windows:
    """The windows that a gather reads or a scatter writes: one of extents `sizes` for each index vector.

    An index vector is along the last axis of `indices`; `batch` is the shape of the others. `in_bounds` is a mask over
    batch, None where every window lies inside or is moved there (`clip`).
    """

    def __init__(
        self, g, indices, shape, sizes, index_map, operand_batch, index_batch, collapsed, offset_in_out, out_rank, clip
    ):
        self.g, self.shape, self.sizes, self.index_map = g, shape, sizes, list(index_map)
        self.operand_batch, self.index_batch, self.collapsed = list(operand_batch), list(index_batch), list(collapsed)
        limits = np.array([shape[d] - sizes[d] for d in self.index_map], np.int64)
        self.batch = indices.shape[:-1]
        self.offset = [d for d in range(len(shape)) if d not in self.collapsed and d not in self.operand_batch]
        self.offset_in_out = list(offset_in_out)
        self.batch_in_out = [d for d in range(out_rank) if d not in self.offset_in_out]
        is_inside = indices.known is not None and np.all((indices.known >= 0) & (indices.known <= limits))
        self.in_bounds, self.indices = None, indices
        if self.index_map and not is_inside:
            self.in_bounds = None if clip else self._inside(limits)
            self.indices = self._clipped(limits)

    def _limits(self, limits):
        constant = self.g.constant(limits.astype(NUMPY[self.indices.dtype]))
        return self.g.broadcast(constant, self.indices.shape, [self.indices.rank - 1])

    def _inside(self, limits):
        g, i = self.g, self.indices
        inside = g.binary("and", g.compare("ge", i, g.like(0, i)), g.compare("le", i, self._limits(limits)))
        return g.reduce("reduce_and", inside, [i.rank - 1])

    def _clipped(self, limits):
        g, i = self.g, self.indices
        y = g.one("clamp", [g.full(0, i.dtype, i.shape), i, self._limits(limits)], i.dtype, i.shape)
        y.known = None if i.known is None else np.clip(i.known, 0, limits)
        return y

    def start(self, d):
        """Where windows start on axis d of the operand, over batch; None for 0."""
        if d in self.index_map:
            return self.g.at(self.indices, self.indices.rank - 1, self.index_map.index(d))
        if d in self.operand_batch:
            axis = self.index_batch[self.operand_batch.index(d)]
            return self.g.iota(self.indices.dtype, self.batch, axis)
        return None

    @property
    def lead(self):
        """Axes of the operand at one position of which a window lies, if they are whole rows."""
        return self.operand_batch + self.index_map

    def are_rows(self):
        """Whether windows are whole in each axis that they do not have one position of."""
        is_whole = all(self.sizes[d] == self.shape[d] for d in self.offset)
        return is_whole and all(d in self.collapsed for d in self.index_map)

    def row_index(self):
        """Row-major index of the row, over batch."""
        return self._row_major([(self.start(d), self.shape[d]) for d in self.lead])

    def element_index(self):
        """Row-major index of each element of each window in the operand, over batch and offset axes."""
        g, dtype, r = self.g, self.indices.dtype, len(self.batch)
        shape, terms = [*self.batch, *(self.sizes[d] for d in self.offset)], []
        for d in range(len(self.shape)):
            start = self.start(d)
            term = g.broadcast(start, shape, range(r)) if start is not None else g.full(0, dtype, shape)
            if d in self.offset:
                term = self._known("add", term, g.iota(dtype, shape, r + self.offset.index(d)))
            terms.append((term, self.shape[d]))
        return self._row_major(terms) if terms else g.full(0, dtype, shape)

    def _row_major(self, terms):
        total = None
        for term, extent in terms:
            if total is not None:
                total = self._known("mul", total, self.g.full(extent, total.dtype, total.shape))
            total = term if total is None else self._known("add", total, term)
        return total

    def _known(self, op, x, y):
        z = self.g.binary(op, x, y)
        if x.known is not None and y.known is not None:
            z.known = x.known + y.known if op == "add" else x.known * y.known
        return z

    def to_out(self):
        """The permutation that brings axes of batch and offset to those of the result of a gather."""
        permutation = [0] * (len(self.batch_in_out) + len(self.offset_in_out))
        for k, d in enumerate(self.batch_in_out + self.offset_in_out):
            permutation[d] = k
        return permutation

    def from_out(self):
        return self.batch_in_out + self.offset_in_out


def index_operand(g, indices):
    return indices if indices.dtype in ("i32", "i64") else g.convert(indices, "i64")


def mode_of(e):
    return str(e.params["mode"]).rsplit(".", 1)[-1]


@rule("gather")
def gather(t, e, xs):
    g, p, x, indices = t.g, e.params, xs[0], index_operand(t.g, xs[1])
    numbers, sizes = p["dimension_numbers"], ints(p["slice_sizes"])
    out_rank, offset = len(out_aval(e).shape), list(numbers.offset_dims)
    if is_key(aval(e).dtype):  # the axis of the words is one more offset axis
        sizes, out_rank, offset = sizes + [2], out_rank + 1, offset + [out_rank]
    dtype, shape = result(e)
    if math.prod(shape) == 0:
        return g.full(0, dtype, shape)
    w = Windows(
        g, indices, x.shape, sizes, numbers.start_index_map, numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
        numbers.collapsed_slice_dims, offset, out_rank, clip=mode_of(e) != "FILL_OR_DROP",
    )  # fmt: skip
    if x.size == 0:
        return g.full(fill_value(e, dtype), dtype, shape)
    y = read(g, x, w)
    if w.in_bounds is not None:
        mask = g.broadcast(w.in_bounds, y.shape, range(w.in_bounds.rank))
        y = g.select(mask, g.full(fill_value(e, dtype), dtype, y.shape), y)
    return g.transpose(y, w.to_out())


def fill_value(e, dtype):
    """What a read out of bounds gives: NaN, or the least or greatest integer, unless the program says."""
    value = e.params.get("fill_value")
    if value is None:
        if dtype in INEXACT or dtype == "bool":
            return math.nan if dtype != "bool" else True
        limits = np.iinfo(np.int32 if is_key(aval(e).dtype) else np.dtype(aval(e).dtype))
        value = limits.min if limits.min else limits.max
    if dtype in ("i32", "i64"):
        value = wrapped(int(value), 64) if is_u64(aval(e)) else int(value)
    return value


def read(g, x, w):
    """The windows, with axes of batch and offset."""
    r = len(w.batch)
    if not w.batch:
        return g.reshape(one_window(g, x, w), [w.sizes[d] for d in w.offset])
    if not w.are_rows():
        return g.take(g.reshape(x, [x.size]), w.element_index())
    if len(w.lead) == 1 and not w.operand_batch:
        (axis,) = w.lead
        y = g.take(x, w.start(axis), axis=axis)
        return g.transpose(y, [*range(axis, axis + r), *range(axis), *range(axis + r, y.rank)])
    n = len(w.index_batch)
    if not w.offset and len(w.index_map) == 1 and w.index_batch == list(range(n)) and r == n + 1:
        y, i = g.transpose(x, w.lead), w.start(w.index_map[0])
        return g.one("take_along_axis", [y, i], y.dtype, i.shape, axis=y.rank - 1, mode="clip")
    y = g.transpose(x, w.lead + w.offset)
    y = g.reshape(y, [math.prod(x.shape[d] for d in w.lead), *(x.shape[d] for d in w.offset)])
    return g.take(y, w.row_index() if w.lead else g.full(0, w.indices.dtype, w.batch))


def starts_of(g, x, w):
    zero = g.full(0, w.indices.dtype)
    return [w.start(d) or zero for d in range(x.rank)]


def one_window(g, x, w):
    if not x.rank:
        return x
    return g.one("dynamic_slice", [x, *starts_of(g, x, w)], x.dtype, w.sizes, slice_sizes=w.sizes)


KINDS = {"scatter": "set", "add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max"}


@rule(*["scatter"] + [f"scatter{dash}{kind}" for dash in "-_" for kind in KINDS if kind != "scatter"])
def scatter(t, e, xs):
    g, p, (x, indices, updates) = t.g, e.params, xs
    indices = index_operand(g, indices)
    name = e.primitive.name.replace("_", "-").rsplit("-", 1)[-1]
    kind, numbers = "own" if is_own(e) else KINDS[name], p["dimension_numbers"]
    if name == "sub":
        updates = g.unary("neg", updates)
    if x.size == 0 or updates.size == 0:
        return x
    words = is_key(aval(e).dtype)
    window = list(numbers.update_window_dims) + [updates.rank - 1] * words
    is_offset = lambda d: d not in numbers.inserted_window_dims and d not in numbers.operand_batching_dims
    sizes = [1] * x.rank
    for d, k in zip([d for d in range(x.rank) if is_offset(d)], window):
        sizes[d] = updates.shape[k]
    w = Windows(
        g, indices, x.shape, sizes, numbers.scatter_dims_to_operand_dims, numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims, numbers.inserted_window_dims, window, updates.rank, clip=mode_of(e) == "CLIP",
    )  # fmt: skip
    if mode_of(e) == "PROMISE_IN_BOUNDS":
        w.in_bounds = None
    combine = combiner(t, e, kind)
    if not w.batch:
        return t.wrap(write_one(g, x, updates, w, combine), aval(e).dtype)
    return t.wrap(write(t, x, updates, w, kind, combine, bool(p["unique_indices"])), aval(e).dtype)


def is_own(e):
    """Whether a scatter is with a function of the user's own."""
    jaxpr = e.params.get("update_jaxpr")
    return e.primitive.name == "scatter" and jaxpr is not None and bool(closed_jaxpr(jaxpr).jaxpr.eqns)


def combiner(t, e, kind):
    """(old, update) -> new, of arrays of one shape."""
    g, u64 = t.g, is_u64(aval(e))
    if kind == "own":
        f = function_of(e.params["update_jaxpr"], tuple(e.params.get("update_consts") or ()))
        return lambda old, new: elementwise(t, f, [old, new], [e.invars[0]] * 2)[0]
    if kind == "set":
        return lambda old, new: new
    if kind in ("min", "max") and u64:
        return lambda old, new: flip_sign(g, g.binary(kind, flip_sign(g, old), flip_sign(g, new)))
    return lambda old, new: g.binary(kind, old, new)


def write_one(g, x, updates, w, combine):
    u = g.reshape(g.transpose(updates, w.from_out()), w.sizes)
    old = one_window(g, x, w)
    new = combine(old, u)
    u = new if w.in_bounds is None else g.select(w.in_bounds, old, new)
    return g.one("dynamic_update_slice", [x, u, *starts_of(g, x, w)], x.dtype, x.shape) if x.rank else u


def write(t, x, updates, w, kind, combine, is_unique):
    """As a scatter of rows along the first axis; of single elements where windows are not whole rows."""
    g, count = t.g, math.prod(w.batch)
    flat = g.transpose(updates, w.from_out())
    if w.are_rows():
        order, rest = w.lead + w.offset, [x.shape[d] for d in w.offset]
        rows = g.reshape(g.transpose(x, order), [math.prod(x.shape[d] for d in w.lead), *rest])
        index = w.row_index() if w.lead else g.full(0, w.indices.dtype, w.batch)
        index, u, mask = g.reshape(index, [count]), g.reshape(flat, [count, *rest]), w.in_bounds
        back = lambda y: g.transpose(g.reshape(y, [x.shape[d] for d in order]), [order.index(d) for d in range(x.rank)])
    else:
        rows, index = g.reshape(x, [x.size]), w.element_index()
        mask = None if w.in_bounds is None else g.broadcast(w.in_bounds, index.shape, range(w.in_bounds.rank))
        index, u = g.reshape(index, [index.size]), g.reshape(flat, [updates.size])
        back = lambda y: g.reshape(y, x.shape)
    if mask is not None:
        index = g.select(g.reshape(mask, [index.size]), g.like(rows.shape[0], index), index)
    return back(write_rows(t, rows, index, u, kind, combine, is_unique))


def write_rows(t, rows, index, u, kind, combine, is_unique):
    """rows[index] combined with u; an index out of range does nothing."""
    g = t.g
    if kind == "add" and rows.dtype != "bool":
        return g.scatter_add(rows, index, u)
    known = index.known
    is_unique = is_unique or index.size == 1 or (known is not None and len(set(known.tolist())) == index.size)
    if not is_unique and kind == "own":
        return write_in_rounds(t, rows, index, u, combine)
    if not is_unique:
        index, u = unique_rows(g, rows, index, u, combine)
    return write_unique(g, rows, index, u, combine)


def write_unique(g, rows, index, u, combine):
    is_bool = rows.dtype == "bool"
    old, new = (g.convert(v, "i32") if is_bool else v for v in (rows, u))
    counts = g.scatter_add(g.full(0, "i32", [rows.shape[0]]), index, g.full(1, "i32", index.shape))
    hit = g.broadcast(g.compare("gt", counts, g.like(0, counts)), rows.shape, [0])
    put = g.scatter_add(g.full(0, old.dtype, old.shape), index, new)
    if is_bool:
        put = g.compare("ne", put, g.like(0, put))
    return g.select(hit, rows, combine(rows, put))


def write_in_rounds(t, rows, index, u, combine):
    """Round k combines each row with its update number k."""
    g, n = t.g, index.size
    order = g.iota("i32", index.shape, 0)
    index, places = g.emit("sort", [index, order], [(index.dtype, [n]), ("i32", [n])], dimension=0, num_keys=1)
    continues = g.compare("eq", g.part(index, 0, 1, n), g.part(index, 0, 0, n - 1))
    continues = g.concatenate([g.full(False, "bool", [1]), continues], 0)
    start = g.unary("cummax", g.select(continues, order, g.like(0, order)), axis=0, reverse=False)
    number = g.select(g.compare("lt", index, g.like(rows.shape[0], index)), g.like(0, order), g.sub(order, start))
    consts = [index, number, g.take(u, places), g.reduce("reduce_max", number, [0])]

    def round_of(index, number, u, last, k, rows):
        now = t.g.select(t.g.compare("eq", number, k), t.g.like(rows.shape[0], index), index)
        return [t.g.add(k, t.g.like(1, k)), write_unique(t.g, rows, now, u, combine)]

    carry = [g.full(0, "i32"), rows]
    avals = [jax.ShapeDtypeStruct(x.shape, NUMPY[x.dtype]) for x in (*consts, *carry)]
    cond = t.graph("cond", avals, lambda *v: [t.g.compare("le", v[4], v[3])])
    body = t.graph("body", avals, round_of)
    types = [(x.dtype, x.shape) for x in carry]
    return g.emit("while", [*consts, *carry], types, cond=cond, body=body, max_steps=-1, num_consts=4)[1]


def unique_rows(g, rows, index, u, combine):
    """Updates of one row combined with one another: the last of each run of equal indices, in the order of the indices,
    has all of them, and the others are sent out of range. log2(n) steps, in each a run of twice as many updates is
    combined."""
    n = index.size
    order = g.iota("i32", index.shape, 0)
    index, order = g.emit("sort", [index, order], [(index.dtype, [n]), ("i32", [n])], dimension=0, num_keys=1)
    u = g.take(u, order)
    step = 1
    while step < n:
        same = g.compare("eq", g.part(index, 0, step, n), g.part(index, 0, 0, n - step))
        late = g.part(u, 0, step, n)
        both = combine(g.part(u, 0, 0, n - step), late)
        both = g.select(g.broadcast(same, late.shape, [0]), late, both)
        u = g.concatenate([g.part(u, 0, 0, step), both], 0)
        step *= 2
    changes = g.compare("ne", g.part(index, 0, 1, n), g.part(index, 0, 0, n - 1))
    last = g.concatenate([changes, g.full(True, "bool", [1])], 0)
    return g.select(last, g.like(rows.shape[0], index), index), u


@rule("clip_indices")
def clip_indices(t, e, xs):
    return t.trace(jnp.clip, xs, [v.aval for v in e.invars])
