"""Random programs by their seeds, and the forms of them that a comparison runs: a scalar of all results, a batch of inputs."""
import numpy as np

import dumps
import draw
import steps

KINDS = ("single", "large", "chain", "rows", "odd", "whole")


class Case:
    """A graph with its inputs {name: (dtype, array)}."""

    def __init__(self, graph, inputs):
        names = set(dumps.input_names(graph))
        self.graph, self.inputs = graph, {name: x for name, x in inputs.items() if name in names}

    def finite(self):
        return all(np.all(np.isfinite(x)) for dtype, x in self.inputs.values() if dumps.inexact(dtype))

    def dtypes(self):
        return {v["dtype"] for g in (self.graph, *dumps.inner_graphs(self.graph)) for v in g["values"]}

    def output_types(self):
        return dumps.outputs_of(self.graph)


# Operations that hold a graph -----------------------------------------------------------------------------------------------------

def inner(d, types, count):
    """A draw for a graph inside of d's whose inputs have these types, after `count` steps."""
    part = draw.Draw(d.random.getrandbits(40), chain=0.9, dtypes=d.dtypes)
    part.pool = [part.b.input(*t) for t in types]
    part.depth = d.depth + 1
    for _ in range(count):
        random_step(part)
    return part


def hold(d, name):
    """call or checkpoint of a random graph."""
    types = [(d.floating(), d.shape(0, 2, 4, 0)) for _ in range(d.integer(1, 3))]
    part = inner(d, types, d.integer(1, 4))
    results = [v for v in part.pool[len(types):] if dumps.inexact(part.b.dtype(v))][-2:] or part.pool[:1]
    operands = [d.operand(*t) for t in types]
    attrs = {"graph": part.b.graph(results)}
    if name == "checkpoint":
        attrs["policy"] = d.pick("nothing", "everything")
    d.keep(*d.b.all(name, operands, **attrs))


def loop(d, name):
    """scan of a random graph, with halved carries."""
    draw_types = lambda most: [(d.floating(), d.shape(0, 2, 3, 0)) for _ in range(d.integer(0 if most == 2 else 1, most))]
    consts, carries, slices = draw_types(2), draw_types(3), draw_types(2)
    length = d.pick(0, 1, 2, 3, 5)
    part = inner(d, consts + carries + slices, d.integer(1, 4))
    new = [v for v in part.pool[len(consts + carries + slices):] if dumps.inexact(part.b.dtype(v))]
    half = lambda v: part.b("mul", v, part.b.full(part.b.dtype(v), part.b.shape(v), 0.5))
    outputs = [half(part.operand(*t)) for t in carries] + d.random.sample(new, min(len(new), 2))
    operands = [d.operand(*t) for t in consts + carries] + [d.operand(dtype, (length, *shape)) for dtype, shape in slices]
    d.keep(*d.b.all(name, operands, body=part.b.graph(outputs), length=length, reverse=d.pick(False, True), num_consts=len(consts),
                    num_carry=len(carries)))


def repeat(d, name):
    """while of a random graph, which a counter or the bound ends, with halved carries."""
    draw_types = lambda least, most: [(d.floating(), d.shape(0, 2, 3, 0)) for _ in range(d.integer(least, most))]
    consts, carries = draw_types(0, 2), draw_types(1, 3)
    part = inner(d, consts + carries, d.integer(1, 3))
    half = lambda v: part.b("mul", v, part.b.full(part.b.dtype(v), part.b.shape(v), 0.5))
    outputs = [half(part.operand(*t)) for t in carries]
    outputs.append(part.b("add", part.b.input("i32", ()), part.b.full("i32", (), 1)))
    until = dumps.Builder("until")
    inputs = [until.input(*t) for t in (*consts, *carries, ("i32", ()))]
    cond = until.graph([until("lt", inputs[-1], until.full("i32", (), d.integer(0, 4)))])
    operands = [d.operand(*t) for t in consts + carries] + [d.b.full("i32", (), 0)]
    d.keep(*d.b.all(name, operands, cond=cond, body=part.b.graph(outputs), max_steps=d.integer(0, 4), num_consts=len(consts)))


def choice(d, name):
    """cond of two random graphs by a bool, or of up to three by a whole number that may be out of range."""
    draw_types = lambda: [(d.floating(), d.shape(0, 2, 3, 0)) for _ in range(d.integer(1, 3))]
    types, results = draw_types(), draw_types()
    index = d.pick("bool", "i32")
    branches = []
    for _ in range(2 if index == "bool" else d.integer(1, 3)):
        part = inner(d, types, d.integer(1, 3))
        branches.append(part.b.graph([part.operand(*t) for t in results]))
    d.keep(*d.b.all(name, [d.operand(index, ()), *(d.operand(*t) for t in types)], branches=branches))


def coefficient(b, x, y, kind):
    return {0: lambda: b("cos", x), 1: lambda: b("mul", x, b("sin", y)), 2: lambda: y, 3: lambda: b("logistic", b("add", x, y))}[kind]()


def custom(d, name):
    """x, y to sin(x) y and x + y, with derivatives that are not those, so that it shows which were used."""
    type_ = (d.floating(), d.shape(0, 2, 4))
    kinds = [d.integer(0, 3) for _ in range(4)]

    def start(label):
        b = dumps.Builder(label)
        return b, b.input(*type_), b.input(*type_)

    def results(b, x, y):
        return [b("mul", b("sin", x), y), b("add", x, y)]

    b, x, y = start("f")
    graph = b.graph(results(b, x, y))
    b, x, y = start("rule")
    own = results(b, x, y)
    if name == "custom_jvp_call":
        dx, dy = b.input(*type_), b.input(*type_)
        tangents = [b("add", b("mul", dx, coefficient(b, x, y, k)), b("mul", dy, coefficient(b, x, y, j)))
                    for k, j in (kinds[:2], kinds[2:])]
        attrs = {"graph": graph, "jvp": b.graph(own + tangents)}
    else:
        forward = b.graph([*own, x, y])
        b, x, y = start("backward")
        c, e = b.input(*type_), b.input(*type_)
        gradients = [b("add", b("mul", c, coefficient(b, x, y, k)), b("mul", e, coefficient(b, x, y, j)))
                     for k, j in (kinds[:2], kinds[2:])]
        attrs = {"graph": graph, "forward": forward, "backward": b.graph(gradients)}
    d.keep(*d.b.all(name, [d.operand(*type_), d.operand(*type_)], **attrs))


def solution(d, name):
    """The x with k x = c, or with (k x)^2 = c, for k and c that are far from zero."""
    linear = name == "custom_linear_solve"
    type_ = (d.floating() if linear else d.dtype("f32", "f64"), d.shape(0, 2, 4))

    def graph(label, f, count):
        b = dumps.Builder(label)
        return b.graph([f(b, *(b.input(*type_) for _ in range(count)))])

    def far():
        return d.b("add", d.b("tanh", d.operand(*type_)), d.b.full(*type_, 2.0))

    def residual(b, k, c, x):
        y = b("mul", k, x)
        return b("sub", b("mul", y, y), c)

    operands = [far(), far()]
    if linear:
        divide = graph("solve", lambda b, k, c: b("div", c, k), 2)
        d.keep(*d.b.all(name, operands, matvec=graph("matvec", lambda b, k, x: b("mul", k, x), 2), solve=divide,
                        transpose_solve=[divide], num_consts=1))
    else:
        d.keep(*d.b.all(name, [*operands, d.operand(*type_)], residual=graph("residual", residual, 3),
                        solve=graph("solve", lambda b, k, c, x: b("div", b("sqrt", c), k), 3), num_consts=2))


for held, emit in (("call", hold), ("checkpoint", hold), ("scan", loop), ("while", repeat), ("cond", choice), ("custom_jvp_call", custom),
                   ("custom_vjp_call", custom), ("custom_linear_solve", solution), ("custom_root", solution)):
    steps.STEPS[held] = (emit, 1.0)


# Programs -------------------------------------------------------------------------------------------------------------------------

ROWS = ("dot_general take scatter_add reduce_sum reduce_max logsumexp cumsum select_n add sub mul div max min sin tanh exp log sqrt rsqrt "
        "square logistic erf concatenate slice pad transpose broadcast_in_dim reshape argmax top_k sort rev call checkpoint scan "
        "while cond "
        "convert_element_type custom_jvp_call custom_vjp_call dynamic_slice dynamic_update_slice cumlogsumexp reduce_window_sum "
        "take_along_axis stop_gradient integer_pow pow clamp reduce_min reduce_prod").split()
ODD = ("neg abs sign square sqrt rsqrt log log1p exp expm1 exp2 tanh logistic sin cos erf floor ceil round is_finite reciprocal "
       "integer_pow add sub mul div max min pow rem atan2 eq ne lt le gt ge and or not select_n clamp convert_element_type "
       "reduce_max reduce_min reduce_sum logsumexp argmax cummax cummin cumlogsumexp sort top_k broadcast_in_dim").split()
WHOLE = ("neg abs sign square integer_pow add sub mul div max min rem eq ne lt le gt ge and or xor not select_n clamp reshape transpose rev "
         "broadcast_in_dim slice pad concatenate convert_element_type dynamic_slice dynamic_update_slice take scatter_add "
         "take_along_axis scatter_add_along_axis reduce_sum reduce_prod reduce_max reduce_min argmax argmin cumsum cumprod cummax cummin "
         "sort top_k dot_general reduce_window_sum reduce_window_max iota squeeze expand_dims").split()
TWO_DEEP = ("call", "checkpoint", "scan", "while", "cond")


def random_step(d):
    """One more step of a chain; steps that do not fit the existing values are left out."""
    names = ODD if d.odd else WHOLE if d.whole else ROWS if d.rows else list(steps.STEPS)
    if d.depth >= 2:
        names = [n for n in names if n not in TWO_DEEP]
    weights = [steps.STEPS[n][1] for n in names]
    name = d.random.choices(names, weights)[0]
    steps.STEPS[name][0](d, name)


def finished(d, results):
    return Case(d.b.graph(results), d.data)


def single(seed, name=None, large=False):
    d = draw.Draw(seed, dtypes=(("f64",), ("f64", "f32"), ("f64", "c128"))[seed % 3] if large else draw_dtypes(seed))
    d.empty, d.large = 0.3 if seed % 5 == 0 and not large else 0.05, large
    name = name or d.random.choice(list(steps.STEPS))
    steps.STEPS[name][0](d, name)
    return finished(d, d.pool)


def draw_dtypes(seed):
    return (("f64",), ("f64", "f32"), ("f32",), ("f64", "c128"), ("f64", "c128", "f32", "c64"), ("f16", "f32"), ("bf16", "f32"),
            ("f64",))[seed % 8]


def chain(seed):
    d = draw.Draw(seed, chain=0.85, dtypes=(("f64",), ("f64",), ("f64", "f32"), ("f64", "c128"))[seed % 4])
    d.empty = 0.25 if seed % 7 == 0 else 0.05
    d.pool = [d.input(d.floating(), d.shape(0, 3)) for _ in range(2)]
    for _ in range(d.integer(2, 10)):
        random_step(d)
    return finished(d, results_of(d))


def results_of(d):
    new = d.pool[2:]
    chosen = {new[-1], *d.random.sample(new, min(len(new), d.integer(1, 3)))}
    return sorted(chosen)


def rows(seed):
    """Many rows, or long ones: loops over blocks, row fusions, threads."""
    d = draw.Draw(seed, chain=0.9, dtypes=(("f64",), ("f32",), ("f64",))[seed % 3])
    n = d.pick(d.integer(500, 1200), d.integer(1200, 5000), d.integer(200, 500), 1024, 2048, 4096, 1023, 4097)
    columns = d.pick(1, 2, 3, 4, 7, 8, 16, 17, 25, 32, 33, 64)
    if seed % 4 == 0:
        n, columns = d.integer(2, 60), d.pick(48, 130, 257)
    d.rows = (n, columns)
    d.pool = [d.input(d.floating(), d.rows), d.input(d.floating(), d.rows)]
    for _ in range(d.integer(3, 14) if seed % 2 else d.integer(10, 24)):
        random_step(d)
    return finished(d, results_of(d))


def odd(seed):
    """Element-wise chains and reductions over arrays that are long enough for vector code, of numbers that are not finite, huge,
    tiny or signed zeros."""
    d = draw.Draw(seed, chain=0.6, dtypes=(("f64",), ("f32",), ("f64", "f32"))[seed % 3])
    d.odd = 0.25
    d.rows = (d.integer(20, 90), d.pick(1, 5, 16, 33))
    d.pool = [d.input(d.floating(), d.rows), d.input(d.floating(), d.rows)]
    for _ in range(d.integer(1, 5)):
        random_step(d)
    return finished(d, d.pool[2:])


def whole(seed):
    """Integers and bools, with conversions from and to floating numbers."""
    d = draw.Draw(seed, chain=0.85, dtypes=(("f64",), ("f32", "f64"))[seed % 2])
    d.whole = 0.6
    if seed % 3:
        d.rows = (d.pick(d.integer(3, 90), d.integer(200, 3000)), d.pick(1, 4, 5, 16, 33))
    d.pool = [d.input(d.floating(), d.shape(1, 3)) for _ in range(3)]
    for _ in range(d.integer(2, 9)):
        random_step(d)
    new = d.pool[3:]
    return finished(d, sorted({new[-1], *d.random.sample(new, min(3, len(new)))}))


def program(kind, seed, only=None):
    made = {"chain": chain, "rows": rows, "odd": odd, "whole": whole}
    return single(seed, only, kind == "large") if kind in ("single", "large") else made[kind](seed)


# Forms ----------------------------------------------------------------------------------------------------------------------------

def scalar(case, seed):
    """Its floating and complex results, weighted and added up; None where there are none."""
    graph, random = case.graph, np.random.default_rng(seed)
    real = [dumps.PART.get(t, t) for t, _ in case.output_types() if dumps.inexact(t)]
    if not real:
        return None
    dtype = max(real, key=dumps.FLOATS.index)
    b = dumps.Builder(graph["name"])
    b.values, b.inputs, b.operations = [dict(v) for v in graph["values"]], list(graph["inputs"]), list(graph["operations"])
    terms = []
    for value in graph["outputs"]:
        if not dumps.inexact(b.dtype(value)):
            continue
        parts = [b("real", value), b("imag", value)] if b.dtype(value) in dumps.COMPLEX else [value]
        for part in parts:
            part = part if b.dtype(part) == dtype else b("convert_element_type", part, new_dtype=dtype)
            shape = b.shape(part)
            size = int(np.prod(shape))
            weights = random.standard_normal(shape) / max(1.0, size**0.5)
            if size > 2000:
                weight = b.full(dtype, shape, float(size**-0.5))
            else:
                weight = b.constant(dtype, dumps.as_carried(weights, dtype))
            terms.append(b("reduce_sum", b("mul", b("tanh", part), weight), axes=list(range(len(shape)))))
    total = terms[0]
    for term in terms[1:]:
        total = b("add", total, term)
    return Case(b.graph([total]), case.inputs)


def batch(case, seed):
    """Some inputs stacked, each time in another order of their elements, and their names."""
    random = np.random.default_rng(seed)
    names = [name for name in case.inputs if random.random() < 0.6] or list(case.inputs)[:1]
    count, inputs = int(random.integers(1, 4)), {}
    for name, (dtype, x) in case.inputs.items():
        if name in names:
            x = np.stack([random.permutation(x.ravel()).reshape(x.shape) for _ in range(count)])
        inputs[name] = (dtype, x)
    return inputs, names, count


def directions(types, seed, count=None):
    """Random tangents or cotangents, with a leading axis of `count` if that is given; None for a value without tangent."""
    random = np.random.default_rng(seed)
    found = []
    for dtype, shape in types:
        shape = shape if count is None else (count, *shape)
        x = random.standard_normal(shape)
        if dtype in dumps.COMPLEX:
            x = x + 1j * random.standard_normal(shape)
        found.append((dtype, dumps.as_carried(x, dtype)) if dumps.inexact(dtype) else None)
    return found


def moved(case, by, seed):
    """The case with every floating number moved a little."""
    random = np.random.default_rng(seed)
    inputs = {name: (dtype, dumps.as_carried(x * (1 + by * random.standard_normal(x.shape)) + by * random.standard_normal(x.shape),
                                             dtype) if dumps.inexact(dtype) else x)
              for name, (dtype, x) in case.inputs.items()}
    return Case(case.graph, inputs)
