"""Operations of StableHLO with regions: loops, branches, reductions, windows, sorting, scatter."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir.dialects import stablehlo as dialect

from .dtypes import Unsupported
from .stablehlo import attribute, enumerant, op
from .stablehlo_ops import index_vectors_last, pairs

MONOIDS = {
    "stablehlo.add": ("sum", lax.add, 0),
    "stablehlo.multiply": ("prod", lax.mul, 1),
    "stablehlo.maximum": ("max", lax.max, None),
    "stablehlo.minimum": ("min", lax.min, None),
    "stablehlo.and": ("and", lax.bitwise_and, None),
    "stablehlo.or": ("or", lax.bitwise_or, None),
    "stablehlo.xor": ("xor", lax.bitwise_xor, None),
}


def monoid(operation, k=0):
    """(name, function, neutral element) if a region applies one operation to its two arguments, else None."""
    block = operation.regions[k].blocks[0]
    operations = list(block.operations)
    if len(operations) != 2 or len(block.arguments) != 2:
        return None
    first = operations[0].operation
    if set(first.operands) != set(block.arguments) or first.name not in MONOIDS:
        return None
    of_booleans = {"stablehlo.add": "stablehlo.or", "stablehlo.multiply": "stablehlo.and"}
    is_boolean = str(first.results[0].type) == "tensor<i1>"
    return MONOIDS[of_booleans.get(first.name, first.name) if is_boolean else first.name]


def is_neutral(init, name):
    """Whether an initial value changes nothing."""
    if not isinstance(init, np.ndarray) or init.size != 1:
        return False
    value = init.reshape(-1)[0]
    is_float = not np.issubdtype(init.dtype, np.integer) and init.dtype != np.bool_
    extreme = lambda sign: value == sign * np.inf if is_float else False
    tests = {"sum": value == 0, "prod": value == 1, "max": extreme(-1), "min": extreme(1), "or": value == 0}
    if name == "and":
        return bool(value == (True if init.dtype == np.bool_ else -1))
    if name in ("max", "min") and np.issubdtype(init.dtype, np.integer):
        limits = np.iinfo(init.dtype)
        return bool(value == (limits.min if name == "max" else limits.max))
    return bool(tests.get(name, value == 0))


@op("stablehlo.reduce")
def reduce(m, o, xs):
    n, axes = len(xs) // 2, tuple(attribute(o, "dimensions"))
    kind = monoid(o)
    if kind and n == 1:
        name, f, _ = kind
        y = getattr(lax, "reduce_" + name)(xs[0], axes)
        return y if is_neutral(xs[1], name) else f(y, jnp.broadcast_to(xs[1], y.shape))
    body = m.region(o, 0, m.values)
    many = lambda a, b: tuple(body(*a, *b))
    one = lambda a, b: body(a, b)[0]
    operands, init = tuple(xs[:n]), tuple(map(jnp.asarray, xs[n:]))
    return lax.reduce(operands, init, many, axes) if n > 1 else lax.reduce(operands[0], init[0], one, axes)


@op("stablehlo.map")
def map_(m, o, xs):
    f = lambda *v: m.region(o, 0, m.values)(*v)[0]
    for _ in range(xs[0].ndim):
        f = jax.vmap(f)
    return f(*xs)


def window_of(o, rank, size=None):
    ones = [1] * rank
    padding = attribute(o, "padding")
    return {
        "window_dimensions": tuple(size or attribute(o, "window_dimensions")),
        "window_strides": tuple(attribute(o, "window_strides") or ones),
        "padding": tuple(pairs(padding, rank)),
    }


@op("stablehlo.reduce_window")
def reduce_window(m, o, xs):
    n, rank = len(xs) // 2, xs[0].ndim
    window = window_of(o, rank)
    base = tuple(attribute(o, "base_dilations") or [1] * rank)
    dilation = tuple(attribute(o, "window_dilations") or [1] * rank)
    kind = monoid(o)
    if kind and n == 1 and is_neutral(xs[1], kind[0]) and kind[0] in ("sum", "max", "min"):
        cumulative = as_cumulative(xs[0], kind[0], window, base, dilation)
        if cumulative is not None:
            return cumulative
        init = xs[1].reshape(())[()]
        return lax.reduce_window(xs[0], init, kind[1], **window, base_dilation=base, window_dilation=dilation)
    body = m.region(o, 0, m.values)
    many = lambda a, b: tuple(body(*a, *b))
    one = lambda a, b: body(a, b)[0]
    operands, init = tuple(xs[:n]), tuple(map(jnp.asarray, xs[n:]))
    if n == 1:
        operands, init, many = operands[0], init[0], one
    return lax.reduce_window(operands, init, many, **window, base_dilation=base, window_dilation=dilation)


def as_cumulative(x, kind, window, base, dilation):
    """A window that reaches back to the start of one axis is a cumulative reduction, as JAX and PyTorch export it."""
    size, padding = window["window_dimensions"], window["padding"]
    long = [k for k, w in enumerate(size) if w != 1]
    if len(long) != 1 or any(s != 1 for s in window["window_strides"]) or any(d != 1 for d in (*base, *dilation)):
        return None
    (axis,) = long
    n = x.shape[axis]
    others = all(p == (0, 0) for k, p in enumerate(padding) if k != axis)
    if size[axis] != n or not others or padding[axis] not in ((n - 1, 0), (0, n - 1)):
        return None
    f = {"sum": lax.cumsum, "max": lax.cummax, "min": lax.cummin}[kind]
    return f(x, axis=axis, reverse=padding[axis] == (0, n - 1))


@op("stablehlo.select_and_scatter")
def select_and_scatter(m, o, xs):
    x, source, init = xs
    block = o.regions[0].blocks[0]
    direction = enumerant(list(block.operations)[0].operation, "comparison_direction")
    kind, window = monoid(o, 1), window_of(o, x.ndim)
    if direction not in ("GE", "GT", "LE", "LT") or not kind or kind[0] not in SCATTERS:
        raise Unsupported(
            "stablehlo.select_and_scatter", "with functions that are not a comparison and a sum or the like"
        )
    if kind[0] == "sum" and is_neutral(init, "sum"):
        from jax._src.lax import windowed_reductions

        select = lax.ge_p if direction in ("GE", "GT") else lax.le_p
        return windowed_reductions._select_and_scatter_add(source, x, select, **window)
    places = selected(x, direction, window).reshape(-1)
    y = jnp.broadcast_to(init, (x.size,)).at[places]
    return getattr(y, SCATTERS[kind[0]])(source.reshape(-1), mode="drop").reshape(x.shape)


SCATTERS = {"sum": "add", "prod": "multiply", "max": "max", "min": "min"}


def selected(x, direction, window):
    """The place in x.reshape(-1) of the element that each window selects: of equal ones the first, or with GT and LT
    the last."""
    better = lax.gt if direction[0] == "G" else lax.lt
    earlier = lax.lt if direction[1] == "E" else lax.gt

    def choose(a, b):
        is_first = better(a[0], b[0]) | (lax.eq(a[0], b[0]) & earlier(a[1], b[1]))
        return tuple(lax.select(is_first, v, w) for v, w in zip(a, b))

    lowest, highest = (-np.inf, np.inf) if x.dtype.kind == "f" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    worst = np.asarray(lowest if direction[0] == "G" else highest, x.dtype)
    nowhere = np.asarray(x.size if direction[1] == "E" else -1, np.int64)
    places = lax.iota(np.int64, x.size).reshape(x.shape)
    operands = (lax.stop_gradient(x), places)
    found = lax.reduce_window(operands, (worst, nowhere), choose, **window)[1]
    return lax.select(found < 0, jnp.full_like(found, x.size), found)


@op("stablehlo.sort")
def sort(m, o, xs):
    axis = attribute(o, "dimension") % xs[0].ndim
    order = sort_keys(m, o, [x.dtype for x in xs])
    lax_sort = lambda v, n: lax.sort(v, dimension=axis, is_stable=True, num_keys=n)
    if order == [(k, False, False, False) for k in range(len(order))]:
        return lax_sort(tuple(xs), len(order))
    keys = [key for k, *how in order for key in keys_of(lax.stop_gradient(xs[k]), *how)]
    return lax_sort((*keys, *xs), len(keys))[len(keys) :]


def keys_of(x, down, nan_first, zeros_apart):
    """Keys of lax.sort, which has a NaN last, and -0 equal to 0."""
    key = x
    if down:
        key = lax.neg(x) if jnp.issubdtype(x.dtype, jnp.inexact) else lax.bitwise_not(x)
    return [lax.eq(x, x)] * nan_first + [key] + [1 / key] * zeros_apart


def sort_keys(m, o, dtypes):
    """[(operand, is descending, has a NaN first, tells -0 from 0)] in order of importance, found by asking the
    comparator about numbers."""
    body = m.region(o, 0, m.values)

    @jax.jit
    def less(*v):
        return body(*v)[0]

    def ask(*signs):  # of each operand: -1 lesser on the left, 1 greater, 0 equal
        operands = []
        for sign, dtype in zip(signs, dtypes):
            low, high = (False, True) if dtype == np.bool_ else (1, 2)
            pair = (low, high) if sign < 0 else (high, low) if sign > 0 else (low, low)
            operands += [jnp.asarray(v, dtype) for v in pair]
        return bool(less(*operands))

    def says(k, left, right):  # of operand k, where all others are equal
        if not jnp.issubdtype(dtypes[k], jnp.floating):
            return False
        pairs = [(left, right) if j == k else (1, 1) for j in range(len(dtypes))]
        return bool(less(*(jnp.asarray(v, dtype) for pair, dtype in zip(pairs, dtypes) for v in pair)))

    with jax.ensure_compile_time_eval():
        count, found = len(dtypes), []
        for k in range(count):
            up, down = ([s if j == k else 0 for j in range(count)] for s in (-1, 1))
            if ask(*up) != ask(*down):
                found.append((k, ask(*down)))

        def is_before(a, b):  # a decides where the two say different things
            wins = 1 if a[1] else -1
            loses = -1 if b[1] else 1
            return ask(*(wins if j == a[0] else loses if j == b[0] else 0 for j in range(count)))

        found.sort(key=lambda a: -sum(is_before(a, b) for b in found if b is not a))
        if not found:
            raise Unsupported("stablehlo.sort", "with a comparator that is no order of its operands")
        return [(k, down, says(k, np.nan, 1), says(k, *((0.0, -0.0) if down else (-0.0, 0.0)))) for k, down in found]


@op("stablehlo.scatter")
def scatter(m, o, xs):
    if len(xs) != 3:
        raise Unsupported("stablehlo.scatter", "of several operands")
    x, indices, updates = xs
    d = dialect.ScatterDimensionNumbers(o.attributes["scatter_dimension_numbers"])
    numbers = lax.ScatterDimensionNumbers(
        tuple(d.update_window_dims),
        tuple(d.inserted_window_dims),
        tuple(d.scattered_dims_to_operand_dims),
        tuple(d.input_batching_dims),
        tuple(d.scatter_indices_batching_dims),
    )
    indices = index_vectors_last(indices, d.index_vector_dim)
    options = {
        "unique_indices": bool(attribute(o, "unique_indices", False)),
        "mode": lax.GatherScatterMode.FILL_OR_DROP,
    }
    kind = monoid(o)
    named = {"sum": lax.scatter_add, "prod": lax.scatter_mul, "max": lax.scatter_max, "min": lax.scatter_min}
    if kind and kind[0] in named:
        return named[kind[0]](x, indices, updates, numbers, **options)
    block = o.regions[0].blocks[0]
    (final,) = block.operations
    if list(final.operation.operands) == [block.arguments[1]]:
        return lax.scatter(x, indices, updates, numbers, **options)
    raise Unsupported("stablehlo.scatter", "with a function of its own")


@op("stablehlo.if")
def if_(m, o, xs):
    values = m.values
    return lax.cond(xs[0].reshape(()), m.region(o, 0, values), m.region(o, 1, values))


@op("stablehlo.case")
def case(m, o, xs):
    count, index = len(o.regions), xs[0].reshape(())
    values = m.values
    index = jnp.where((index < 0) | (index >= count), count - 1, index)  # what is out of range takes the last branch
    return lax.switch(index, [m.region(o, k, values) for k in range(count)])


@op("stablehlo.while")
def while_(m, o, xs):
    values = m.values
    cond, body = m.region(o, 0, values), m.region(o, 1, values)
    steps = num_steps(m, o, xs, values)
    carry = tuple(jnp.asarray(x) for x in xs)
    if steps is None:
        return lax.while_loop(lambda c: cond(*c)[0].reshape(()), lambda c: tuple(body(*c)), carry)
    return lax.scan(lambda c, _: (tuple(body(*c)), None), carry, None, length=steps)[0]


def num_steps(m, o, xs, values):
    """How often a loop runs that counts from one constant to another, else None."""
    cond, body = (region.blocks[0] for region in o.regions)
    final = list(cond.operations)[-1].operation
    test = getattr(final.operands[0].owner, "operation", final.operands[0].owner)
    if getattr(test, "name", "") != "stablehlo.compare":
        return None
    next_values = list(list(body.operations)[-1].operation.operands)

    def known(v, block):
        """A constant: from around the loop, made inside, or a carry that never changes."""
        if v in values:
            return scalar(values[v])
        for k, argument in enumerate(block.arguments):
            if v == argument:
                return scalar(xs[k]) if next_values[k] == body.arguments[k] else None
        owner = getattr(v.owner, "operation", v.owner)
        if getattr(owner, "name", "") == "stablehlo.constant":
            return scalar(m.evaluate(owner, [], values)[0])
        return None

    directions = {"LT": "LT", "LE": "LE", "GT": "GT", "GE": "GE", "NE": "NE"}
    mirrored = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
    for counter, bound, names in ((0, 1, directions), (1, 0, mirrored)):
        places = [k for k, a in enumerate(cond.arguments) if a == test.operands[counter]]
        limit = known(test.operands[bound], cond)
        direction = names.get(enumerant(test, "comparison_direction"))
        if not places or limit is None or direction is None:
            continue
        start, step = scalar(xs[places[0]]), step_of(body.arguments[places[0]], next_values[places[0]], known, body)
        if start is None or not step:
            continue
        return count(start, limit, step, direction)
    return None


def scalar(x):
    is_known = isinstance(x, np.ndarray) and x.size == 1 and x.dtype.kind in "iu"
    return int(x.reshape(())[()]) if is_known else None


def step_of(argument, value, known, body):
    owner = getattr(value.owner, "operation", value.owner)
    sign = {"stablehlo.add": 1, "stablehlo.subtract": -1}.get(getattr(owner, "name", ""))
    if sign is None:
        return None
    left, right = owner.operands
    if right == argument and sign == 1:
        left, right = right, left
    step = known(right, body)
    return sign * step if left == argument and step is not None else None


def count(start, limit, step, direction):
    if direction in ("LE", "GE"):
        limit += 1 if direction == "LE" else -1
    if direction == "NE":
        return (limit - start) // step if (limit - start) % step == 0 and (limit - start) // step >= 0 else None
    if (direction in ("LT", "LE")) != (step > 0):
        return None
    return max(0, -(-(limit - start) // step))
