"""One step of a random program for every family of primitives: operands are drawn, attributes are random, results are kept."""
import numpy as np

import dumps

STEPS = {}


def step(*primitives, weight=1.0):
    """Registers a function (draw, name of the primitive) under each of the primitives that it can emit."""
    def register(f):
        for name in primitives:
            STEPS[name] = (f, weight)
        return f
    return register


SMOOTH = {"any": "neg sin cos tanh atan asinh square logistic sinh cosh exp expm1 exp2 erf erfc cbrt sign abs",
          "positive": "log sqrt rsqrt reciprocal lgamma digamma log1p", "unit": "asin acos atanh erf_inv tan"}
DOMAIN = {name: domain for domain, names in SMOOTH.items() for name in names.split()}
REAL_ONLY = "cbrt erf erfc erf_inv lgamma digamma floor ceil is_finite".split()


@step(*DOMAIN, "acosh", "floor", "ceil", "is_finite")
def unary(d, name):
    dtype = d.floating() if name in REAL_ONLY or d.chance(0.6) else d.numeric()
    if name in ("neg", "abs", "sign", "square") and d.chance(0.1):
        return d.keep(d.b(name, d.operand(d.pick("i32", "i64"), d.shape())))
    special = not d.chain and dtype == "f64" and d.chance(0.15)
    x = d.operand(dtype, d.shape(), "special" if special else "positive" if name == "acosh" else DOMAIN.get(name, "wide"))
    if name == "acosh" and dtype not in dumps.COMPLEX:
        x = d.b("add", x, d.b.full(dtype, d.b.shape(x), 1.0))
    if name in ("sinh", "cosh", "exp", "expm1", "exp2") and d.chain:
        x = d.b("sin", x)
    d.keep(d.b(name, x))


@step("round")
def round_(d, name):
    ways = d.pick({}, {"rounding_method": "away_from_zero"})
    x = d.operand(d.floating(), d.shape(), "ties")
    d.keep(d.b("round", x, **ways))


@step("integer_pow", "polygamma")
def with_a_number(d, name):
    if name == "polygamma":
        return d.keep(d.b(name, d.operand(d.floating(), d.shape(), "positive"), m=d.integer(1, 3)))
    dtype, y = d.numeric(), d.integer(-3, 6)
    y = abs(y) if dtype in dumps.INTEGERS else y
    if d.chance(0.1):
        return d.keep(d.b(name, d.operand(d.pick("i32", "i64"), d.shape()), y=abs(y)))
    d.keep(d.b(name, d.operand(dtype, d.shape(), "positive" if y < 0 else "any"), y=y))


@step("real", "imag", "conj", "complex")
def complex_parts(d, name):
    dtype, shape = d.pick("c64", "c128") if "f32" in d.dtypes else "c128", d.shape()
    if name == "complex":
        return d.keep(d.b(name, *(d.operand(dumps.PART[dtype], shape) for _ in range(2))))
    d.keep(d.b(name, d.operand(dtype, shape)))


@step("add", "sub", "mul", "div", "pow", "max", "min", "atan2", "rem", "nextafter", weight=2.0)
def binary(d, name):
    shape = d.shape()
    if name not in ("pow", "atan2", "nextafter") and d.chance(0.1):
        integers = d.pick("i32", "i64")
        return d.keep(d.b(name, *[d.operand(integers, shape) for _ in range(2)]))
    dtype = d.numeric() if name in ("add", "sub", "mul", "div", "pow") else d.floating()
    special = not d.chain and dtype == "f64" and d.chance(0.15)
    first, second = {"div": ("any", "positive"), "pow": ("positive", "any"), "max": ("ties", "ties"), "min": ("ties", "ties"),
                     "atan2": ("any", "positive"), "rem": ("wide", "positive")}.get(name, ("any", "any"))
    x, y = (d.operand(dtype, shape, "special" if special else domain) for domain in (first, second))
    d.keep(d.b(name, x, y))


@step("eq", "ne", "lt", "le", "gt", "ge")
def comparison(d, name):
    dtype = d.dtype("bool", "i32", "i64", "f64", "f32") if d.chance(0.8) else d.pick("bool", "i32", "i64", "f64")
    if name in ("eq", "ne") and d.chance(0.1):
        dtype = "c128"
    shape = d.shape()
    d.keep(d.b(name, *(d.operand(dtype, shape, "ties") for _ in range(2))))


@step("and", "or", "xor", "not")
def logic(d, name):
    dtype, shape = d.pick("bool", "i32", "i64"), d.shape()
    d.keep(d.b(name, *(d.operand(dtype, shape) for _ in range(1 if name == "not" else 2))))


@step("select_n", weight=2.0)
def select(d, name):
    shape, cases, dtype = d.shape(), d.pick(2, 2, 3), d.numeric()
    scalar = d.chance(0.25)
    if cases == 2 and d.chance(0.4) and not scalar:
        compared = d.floating()
        which = d.b(d.pick("gt", "le"), *[d.operand(compared, shape, "ties") for _ in range(2)])
    elif cases == 2:
        which = d.operand("bool", () if scalar else shape)
    else:
        which = d.operand("i32", () if scalar else shape, low=0, high=cases - 1)
    d.keep(d.b(name, which, *(d.operand(dtype, shape) for _ in range(cases))))


@step("clamp")
def clamp(d, name):
    dtype, shape = d.floating(), d.shape()
    bounds = [() if d.chance(0.5) else shape] * 2
    low, high = (d.operand(dtype, s, "positive") for s in bounds)
    d.keep(d.b(name, d.b("neg", d.b("abs", low)), d.operand(dtype, shape, "wide"), d.b("abs", high)))


def any_operand(d, shape, *domain):
    """Mostly of a floating or complex dtype."""
    dtype = d.pick("i32", "i64", "bool") if not d.chain and d.chance(0.15) else d.numeric()
    return d.operand(dtype, shape, *domain)


@step("reshape")
def reshape(d, name):
    shape = d.shape(0, 4)
    left, sizes = int(np.prod(shape)), []
    if left == 0:
        sizes = [0]
    while left > 1:
        sizes.append(d.pick(*[k for k in range(2, min(left, 400) + 1) if left % k == 0] or [left]))
        left //= sizes[-1]
    for _ in range(d.integer(0, 2)):
        sizes.insert(d.integer(0, len(sizes)), 1)
    d.keep(d.b(name, any_operand(d, shape), new_sizes=sizes))


@step("transpose", "rev", "squeeze", "expand_dims", "broadcast_in_dim")
def rearrange(d, name):
    shape = d.shape(0, 4)
    if name == "transpose":
        order = list(range(len(shape)))
        d.random.shuffle(order)
        return d.keep(d.b(name, any_operand(d, shape), permutation=order))
    if name == "rev":
        return d.keep(d.b(name, any_operand(d, shape), dimensions=d.axes(len(shape))))
    if name == "expand_dims":
        more = d.integer(0, 2)
        axes = sorted(d.random.sample(range(len(shape) + more), more))
        return d.keep(d.b(name, any_operand(d, shape), dimensions=axes))
    if name == "squeeze":
        shape = list(shape)
        for _ in range(d.integer(0, 2)):
            shape.insert(d.integer(0, len(shape)), 1)
        axes = [i for i, n in enumerate(shape) if n == 1 and d.chance(0.7)]
        return d.keep(d.b(name, any_operand(d, tuple(shape)), dimensions=axes))
    axes = d.axes(len(shape))
    mine = tuple(shape[i] if d.chance(0.75) else 1 for i in axes)
    d.keep(d.b(name, any_operand(d, mine), shape=list(shape), broadcast_dimensions=axes))


@step("slice", "pad")
def cut(d, name):
    shape = d.shape(0, 3, 7)
    if name == "slice":
        start = [d.integer(0, min(n, 4)) for n in shape]
        limit = [d.pick(n, d.integer(a, n)) for a, n in zip(start, shape)]
        strides = [d.pick(1, 1, 2, 3) for _ in shape]
        return d.keep(d.b(name, any_operand(d, shape), start_indices=start, limit_indices=limit, strides=strides))
    config = []
    for n in shape:
        interior = d.pick(0, 0, 0, 1, 2)
        low, high = d.integer(-2, 3), d.integer(-2, 3)
        config.append([low, high, interior] if n + max(n - 1, 0) * interior + low + high >= 0 else [0, 0, 0])
    x = any_operand(d, shape)
    d.keep(d.b(name, x, d.operand(d.b.dtype(x), ()), padding_config=config))


@step("concatenate")
def concatenate(d, name):
    shape = d.shape(1, 3)
    axis, dtype = d.integer(0, len(shape) - 1), d.numeric()
    parts = []
    for i in range(d.integer(1, 4)):
        n = shape[axis] if i == 0 or d.chance(0.4) else d.integer(0, 4)
        parts.append(d.operand(dtype, (*shape[:axis], n, *shape[axis + 1:])))
    d.random.shuffle(parts)
    d.keep(d.b(name, *parts, dimension=axis))


@step("convert_element_type")
def convert(d, name):
    every = ["bool", "i32", "i64", *{"f32", "f64", *d.dtypes}, "c128"]
    source = d.random.choice(every)
    target = d.random.choice([t for t in every if source not in dumps.COMPLEX or t in dumps.COMPLEX])
    special = not d.chain and source == "f64" and target not in dumps.COMPLEX and d.chance(0.3)
    d.keep(d.b(name, d.operand(source, d.shape(), "special" if special else "wide"), new_dtype=target))


@step("stop_gradient", "optimization_barrier")
def pass_through(d, name):
    if name == "stop_gradient":
        return d.keep(d.b(name, d.operand(d.numeric(), d.shape())))
    xs = [any_operand(d, d.shape()) for _ in range(d.integer(1, 3))]
    d.keep(*d.b.all(name, xs, instance=d.integer(1, 3)))


@step("dynamic_slice", "dynamic_update_slice")
def dynamic(d, name):
    shape, dtype = d.shape(1, 3, 5, 0), d.pick("i32", "i64")
    sizes = [d.pick(n, d.integer(0, n)) for n in shape]
    x = any_operand(d, shape)
    update = [d.operand(d.b.dtype(x), tuple(sizes))] if name == "dynamic_update_slice" else []
    starts = [d.operand(dtype, (), low=-1, high=6) for _ in shape]
    attrs = {} if update else {"slice_sizes": sizes}
    d.keep(d.b(name, x, *update, *starts, **attrs))


def indices(d, shape, n):
    wild = d.chance(0.3)
    return d.operand(d.pick("i32", "i64"), shape, low=-2 if wild else 0, high=n + 2 if wild else n - 1)


@step("take", "scatter_add", weight=2.0)
def pick_rows(d, name):
    shape = d.shape(1, 3, 5, 0)
    axis = d.integer(0, len(shape) - 1) if d.chance(0.5) else 0
    where = (d.pick(shape[axis], d.integer(1, 2 * shape[axis])),) if d.rows else d.pick((), (4,), (3,), (2, 3), (0,), (shape[axis],))
    attrs = {"axis": axis, **d.pick({}, {"mode": "drop"})}
    x, i = any_operand(d, shape), None
    if d.b.dtype(x) == "bool" and name == "scatter_add":
        x = d.b("convert_element_type", x, new_dtype="i32")
    i = indices(d, where, shape[axis])
    if name == "take":
        return d.keep(d.b(name, x, i, **attrs))
    updates = d.operand(d.b.dtype(x), (*shape[:axis], *where, *shape[axis + 1:]))
    d.keep(d.b(name, x, i, updates, **attrs))


@step("take_along_axis", "scatter_add_along_axis")
def along(d, name):
    shape = d.shape(1, 3, 5, 0)
    axis = d.integer(0, len(shape) - 1)
    where = (*shape[:axis], d.integer(0, 5), *shape[axis + 1:])
    attrs = {"axis": axis, **d.pick({}, {"mode": "drop"})}
    x, i = d.operand(d.numeric(), shape), indices(d, where, shape[axis])
    if name == "take_along_axis":
        return d.keep(d.b(name, x, i, **attrs))
    d.keep(d.b(name, x, i, d.operand(d.b.dtype(x), where), **attrs))


@step("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "logsumexp", weight=2.0)
def reduce(d, name):
    shape = d.shape(0, 4)
    axes = d.axes(len(shape)) if d.chance(0.5) else d.axes(len(shape), 1)[:1]
    if name != "logsumexp" and d.chance(0.1):
        return d.keep(d.b(name, d.operand(d.pick("i32", "i64"), shape), axes=axes))
    dtype = d.numeric() if name in ("reduce_sum", "reduce_prod") else d.floating()
    special = not d.chain and dtype == "f64" and d.chance(0.15)
    x = d.operand(dtype, shape, "special" if special else "unit" if name == "reduce_prod" else "ties")
    d.keep(d.b(name, x, axes=axes))


@step("reduce_and", "reduce_or")
def reduce_logic(d, name):
    shape = d.shape(0, 4)
    d.keep(d.b(name, d.operand("bool", shape), axes=d.axes(len(shape))))


@step("argmax", "argmin")
def arg(d, name):
    shape = d.shape(1, 3, 5, 0)
    dtype = d.floating() if d.chance(0.8) else d.pick("i32", "i64")
    special = not d.chain and dtype == "f64" and d.chance(0.2)
    x = d.operand(dtype, shape, "special" if special else "ties")
    axis = d.integer(0, len(shape) - 1)
    index = d.b(name, x, axis=axis, index_dtype=d.pick("i32", "i64"))
    if d.chance(0.5):  # the values at the indices
        wide = d.b("expand_dims", index, dimensions=[axis])
        d.keep(d.b("take_along_axis", x, wide, axis=axis))
    d.keep(index)


@step("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def cumulative(d, name):
    shape = d.shape(1, 3, 6)
    dtype = d.numeric() if name in ("cumsum", "cumprod") else d.floating()
    special = not d.chain and dtype == "f64" and name in ("cummax", "cummin") and d.chance(0.2)
    x = d.operand(dtype, shape, "special" if special else "unit" if name == "cumprod" else "ties" if d.chance(0.5) else "any")
    d.keep(d.b(name, x, axis=d.integer(0, len(shape) - 1), reverse=d.chance(0.5)))


@step("sort", "top_k")
def order(d, name):
    shape = d.shape(1, 3, 6)
    special = not d.chain and d.chance(0.2)
    domain = "special" if special else "ties" if d.chance(0.4) else "any"
    if name == "top_k":
        return d.keep(*d.b.all(name, [d.operand(d.floating(), shape, domain)], k=d.integer(0, min(shape[-1], 8))))
    count = d.integer(1, 3)
    keys = d.integer(1, count)
    xs = [d.operand(d.floating() if d.chance(0.7) else d.pick("i32", "bool"), shape, domain) for _ in range(keys)]
    xs += [d.operand(d.numeric(), shape) for _ in range(count - keys)]
    d.keep(*d.b.all(name, xs, dimension=d.integer(0, len(shape) - 1), num_keys=keys))


@step("dot_general", weight=4.0)
def product(d, name):
    dtype = d.numeric()
    if d.rows and not d.whole:
        return row_product(d, d.floating())
    left = d.shape(1, 4, 5, 0.02)
    axes = list(range(len(left)))
    d.random.shuffle(axes)
    contracted = d.integer(0, min(2, len(axes)))
    batch = d.integer(0, min(2, len(axes) - contracted))
    lc, lb = axes[:contracted], axes[contracted:contracted + batch]
    own = [("c", i) for i in range(contracted)] + [("b", i) for i in range(batch)] + [("f", i) for i in range(d.integer(0, 2))]
    d.random.shuffle(own)
    right = tuple(left[lc[i]] if k == "c" else left[lb[i]] if k == "b" else d.extent(4) for k, i in own)
    find = lambda kind, n: [own.index((kind, i)) for i in range(n)]
    numbers = [[lc, find("c", contracted)], [lb, find("b", batch)]]
    d.keep(d.b(name, d.operand(dtype, left), d.operand(dtype, right), dimension_numbers=numbers))


def row_product(d, dtype):
    """Of [n, d] by [d, k] either way, of two [n, d] over the rows, or of heads."""
    n, k = d.rows
    scaled = lambda x, by: d.b("mul", x, d.b.full(dtype, d.b.shape(x), by))
    x, kind = d.operand(dtype, (n, k)), d.pick("weights", "weights", "transposed", "gram", "heads")
    if kind in ("weights", "transposed"):
        axis = 0 if kind == "weights" else 1
        out = d.pick(k, k, d.integer(1, 2 * k))
        w = d.operand(dtype, (k, out) if axis == 0 else (out, k))
        return d.keep(scaled(d.b("dot_general", x, w, dimension_numbers=[[[1], [axis]], [[], []]]), k**-0.5))
    y = d.operand(dtype, (n, k))
    if kind == "gram":
        return d.keep(scaled(d.b("dot_general", x, y, dimension_numbers=[[[0], [0]], [[], []]]), n**-0.5))
    heads = d.pick(*[h for h in (1, 2, 3, 4) if k % h == 0])
    split = [d.b("reshape", v, new_sizes=[n, heads, k // heads]) for v in (x, y)]
    numbers = d.pick([[[2], [2]], [[0], [0]]], [[[0], [0]], [[1], [1]]], [[[1], [1]], [[0], [0]]])
    d.keep(scaled(d.b("dot_general", *split, dimension_numbers=numbers), k**-0.5))


@step("conv_general_dilated")
def convolution(d, name):
    rank, groups, dtype = d.pick(1, 1, 2, 2, 3), d.pick(1, 1, 2, 3), d.floating()
    many = 20 if d.large else 2
    each, out, batch = d.integer(1, many), groups * d.integer(1, many), d.integer(1, 2)
    space, kernel = [d.integer(1, 40 // rank if d.large else 7) for _ in range(rank)], [d.integer(1, 3) for _ in range(rank)]
    attrs = {"window_strides": [d.integer(1, 3) for _ in range(rank)], "padding": [],
             "lhs_dilation": [d.pick(1, 1, 2) for _ in range(rank)], "rhs_dilation": [d.pick(1, 1, 2) for _ in range(rank)]}
    for i in range(rank):
        wide = (space[i] - 1) * attrs["lhs_dilation"][i] + 1
        reach = (kernel[i] - 1) * attrs["rhs_dilation"][i] + 1
        low, high = d.integer(-1, 3), d.integer(-1, 3)
        fits = wide + low + high >= reach and wide + min(low, 0) + min(high, 0) > 0
        attrs["padding"].append([low, high] if fits else [reach, reach])
    orders = [list(range(rank + 2)) for _ in range(3)]
    for o in orders:
        if d.chance(0.6):
            d.random.shuffle(o)
    lhs, rhs = [0] * (rank + 2), [0] * (rank + 2)
    for shape, sizes, o in ((lhs, [batch, each * groups, *space], orders[0]), (rhs, [out, each, *kernel], orders[1])):
        for n, axis in zip(sizes, o):
            shape[axis] = n
    attrs["dimension_numbers"] = dict(zip(("lhs_spec", "rhs_spec", "out_spec"), orders))
    attrs["feature_group_count"] = groups
    d.keep(d.b(name, d.operand(dtype, tuple(lhs)), d.operand(dtype, tuple(rhs)), **attrs))


@step("reduce_window_sum", "reduce_window_max")
def windows(d, name):
    shape = d.shape(1, 3, 6, 0)
    sizes = [d.integer(1, min(3, n)) for n in shape]
    x = d.operand(d.floating(), shape, "ties" if d.chance(0.3) else "any")
    d.keep(d.b(name, x, window_dimensions=sizes, window_strides=[d.integer(1, 3) for _ in shape],
               padding=[[d.integer(0, w - 1), d.integer(0, w - 1)] for w in sizes]))


def matrices(d, dtype, shape):
    """Those of a chain may be singular: some random ones are added."""
    x = d.operand(dtype, shape)
    return d.b("add", x, d.b.constant(dtype, 2 * d.array(dtype, shape))) if d.chain else x


def square_matrices(d, dtype, batch, n):
    """Hermitian, positive definite and well conditioned: a aᴴ + n I."""
    a = matrices(d, dtype, (*batch, n, n))
    axes = list(range(len(batch)))
    numbers = [[[len(batch) + 1], [len(batch) + 1]], [axes, axes]]
    other = d.b("conj", a) if dtype in dumps.COMPLEX else a
    return d.b("add", d.b("dot_general", a, other, dimension_numbers=numbers),
               d.b.constant(dtype, np.broadcast_to(n * np.diag(1 + np.arange(n) / 2), (*batch, n, n))))


def squared(d, x):
    """|x|², which does not depend on signs and phases."""
    return d.b("real", d.b("mul", x, d.b("conj", x))) if d.b.dtype(x) in dumps.COMPLEX else d.b("square", x)


@step("cholesky", "triangular_solve", "lu", "qr", "eigh", "svd")
def factor(d, name):
    wide = [t for t in d.dtypes if t not in ("f16", "bf16")] or ["f64"]
    dtype, batch, n = d.random.choice(wide), () if d.large else d.shape(0, 1, 2, 0), d.extent(4)
    if name == "triangular_solve":
        attrs = {key: d.chance(0.5) for key in ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")}
        a, k = square_matrices(d, dtype, batch, n), d.extent(3)
        return d.keep(d.b(name, a, d.operand(dtype, (*batch, n, k) if attrs["left_side"] else (*batch, k, n)), **attrs))
    if name in ("cholesky", "eigh"):
        results = d.b.all(name, [square_matrices(d, dtype, batch, n)])
        return d.keep(*(results if name == "cholesky" else [squared(d, results[0]), results[1]]))
    m = n + (d.integer(0, 2) if name in ("qr", "svd") else d.integer(-n + 1, max(2, n // 3)))
    x = matrices(d, dtype, (*batch, m, n))
    if name == "lu":
        return d.keep(*d.b.all(name, [x]))
    results = d.b.all(name, [x], full_matrices=False)
    d.keep(*(squared(d, r) if d.b.dtype(r) == dtype and (name != "svd" or r != results[1]) else r for r in results))


@step("random_bits", "iota", "full")
def sources(d, name):
    if name == "random_bits":
        key = d.operand("i32", (2,), low=-2**31, high=2**31 - 1)
        return d.keep(d.b(name, key, shape=list(d.shape()), dtype=d.pick("i32", "i64")))
    shape = d.shape(1, 3)
    if name == "full":
        return d.keep(d.b.full(d.floating(), shape, d.pick(0.0, 1.0, -1.0, 0.5, 2.0)))
    d.keep(d.b(name, dtype=d.pick("i32", "i64", "f64"), shape=list(shape), dimension=d.integer(0, len(shape) - 1)))
