"""The meaning of a dump in JAX: every primitive written with jax.lax or jax.numpy, graphs as functions, and their derivatives in this
project's conventions (a cotangent of a complex value is the conjugate of JAX's)."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compiling costs far more than running the compared programs.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

import dumps

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "highest")

DTYPE = {**dumps.CARRIER, "bf16": jnp.bfloat16}


def array(dtype, carried):
    return jnp.asarray(np.asarray(carried, dumps.CARRIER[dtype])).astype(DTYPE[dtype])


def carried(x):
    """A result of JAX as numpy has it; None where it has no tangent."""
    if x is None or x.dtype == jax.dtypes.float0:
        return None
    return np.asarray(x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x)


def constant(a):
    return array(a["value"]["dtype"], dumps.from_json(a["value"]))


def full(a):
    value = dumps.number_from_json(a["value"])
    return jnp.full(a["shape"], value, DTYPE[a["dtype"]])


def inside(indices, n):
    return (indices >= 0) & (indices < n)


def take(a, x, indices):
    axis, n = a["axis"], x.shape[a["axis"]]
    result = jnp.take(x, jnp.clip(indices, 0, n - 1), axis=axis)
    if a.get("mode", "clip") == "clip":
        return result
    valid = inside(indices, n).reshape((1,) * axis + indices.shape + (1,) * (x.ndim - axis - 1))
    return jnp.where(valid, result, jnp.zeros((), x.dtype))


def targets(a, indices, n):
    return jnp.clip(indices, 0, n - 1) if a.get("mode", "clip") == "clip" else jnp.where(inside(indices, n), indices, n)


def scatter_add(a, x, indices, updates):
    axis, n = a["axis"], x.shape[a["axis"]]
    first = jnp.moveaxis(updates, range(axis, axis + indices.ndim), range(indices.ndim))
    return jnp.moveaxis(jnp.moveaxis(x, axis, 0).at[targets(a, indices, n)].add(first, mode="drop"), 0, axis)


def take_along_axis(a, x, indices):
    n = x.shape[a["axis"]]
    result = jnp.take_along_axis(x, jnp.clip(indices, 0, n - 1), axis=a["axis"])
    return result if a.get("mode", "clip") == "clip" else jnp.where(inside(indices, n), result, jnp.zeros((), x.dtype))


def scatter_add_along_axis(a, x, indices, updates):
    places = list(jnp.meshgrid(*[jnp.arange(n) for n in indices.shape], indexing="ij"))
    places[a["axis"]] = targets(a, indices, x.shape[a["axis"]])
    return x.at[tuple(places)].add(updates, mode="drop")


def rounded(a, x):
    ways = {"to_nearest_even": lax.RoundingMethod.TO_NEAREST_EVEN, "away_from_zero": lax.RoundingMethod.AWAY_FROM_ZERO}
    return lax.round(x, ways[a.get("rounding_method", "to_nearest_even")])


def convolution(a, x, w):
    spec = a["dimension_numbers"]
    numbers = lax.ConvDimensionNumbers(*(tuple(spec[k]) for k in ("lhs_spec", "rhs_spec", "out_spec")))
    return lax.conv_general_dilated(x, w, a["window_strides"], [tuple(p) for p in a["padding"]], a["lhs_dilation"],
                                    a["rhs_dilation"], numbers, feature_group_count=a["feature_group_count"])


def window_reduction(combine, unit):
    def reduce(a, x):
        padding = [tuple(p) for p in a["padding"]]
        return lax.reduce_window(x, unit(x), combine, a["window_dimensions"], a["window_strides"], padding)
    return reduce


def least(x):
    return np.asarray(-np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min, x.dtype)


def reduction(combine, least_value=None):
    def reduce(a, x):
        if least_value is not None and any(x.shape[i] == 0 for i in a["axes"]):
            return jnp.full(dumps.reduced(x.shape, a["axes"]), least_value(x), x.dtype)
        return combine(x, axis=tuple(a["axes"]))
    return reduce


def log_sum_exp(a, x):
    if any(x.shape[i] == 0 for i in a["axes"]):
        return jnp.full(dumps.reduced(x.shape, a["axes"]), -np.inf, x.dtype)
    return jax.scipy.special.logsumexp(x, axis=tuple(a["axes"]))


def random_bits(a, key):
    wide = jax.lax.bitcast_convert_type(key, jnp.uint32)
    bits = jax.random.bits(jax.random.wrap_key_data(wide, impl="threefry2x32"), tuple(a["shape"]),
                           jnp.uint32 if a["dtype"] == "i32" else jnp.uint64)
    return lax.bitcast_convert_type(bits, DTYPE[a["dtype"]])


def logistic(a, x):
    return lax.logistic(x) if not jnp.issubdtype(x.dtype, jnp.complexfloating) else 1 / (1 + jnp.exp(-x))


def custom_jvp(a, *xs):
    f = jax.custom_jvp(function(a["graph"]))
    rule, count = function(a["jvp"]), len(a["graph"]["outputs"])
    floats = [i for i, t in enumerate(types(a["graph"], "inputs")) if dumps.inexact(t[0])]
    results = [dumps.inexact(t[0]) for t in types(a["graph"], "outputs")]

    @f.defjvp
    def _(primals, tangents):
        given = [tangents[i] for i in floats]
        every = rule(*primals, *given)
        rest = iter(every[count:])
        outputs = tuple(every[:count])
        return outputs, tuple(next(rest) if live else np.zeros(y.shape, jax.dtypes.float0)
                              for y, live in zip(outputs, results))
    return f(*xs)


def custom_vjp(a, *xs):
    f, count = jax.custom_vjp(function(a["graph"])), len(a["graph"]["outputs"])
    forward, backward = function(a["forward"]), function(a["backward"])
    inputs = types(a["graph"], "inputs")
    results = [dumps.inexact(t[0]) for t in types(a["graph"], "outputs")]

    def run_forward(*xs):
        every = forward(*xs)
        return tuple(every[:count]), tuple(every[count:])

    def run_backward(residuals, cotangents):
        given = [c for c, live in zip(cotangents, results) if live]
        gradients = iter(backward(*residuals, *given))
        return tuple(next(gradients) if dumps.inexact(dtype) else np.zeros(shape, jax.dtypes.float0) for dtype, shape in inputs)

    f.defvjp(run_forward, run_backward)
    return f(*xs)


def conjugates(xs):
    return tuple(jnp.conj(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x for x in xs)


def linear_solve(a, *xs):
    """JAX transposes without conjugates: its transposed system is that of the conjugated one. Its symmetric is not Hermitian."""
    count = a["num_consts"]
    consts, b = xs[:count], tuple(xs[count:])
    matvec, solve = function(a["matvec"]), function(a["solve"])
    given = a.get("transpose_solve") or ([a["solve"]] if a.get("symmetric") else [])
    back = None
    if given:
        transposed = function(given[0])
        back = lambda _, ct: conjugates(transposed(*consts, *conjugates(ct)))
    return lax.custom_linear_solve(lambda x: matvec(*consts, *x), b, lambda _, b: solve(*consts, *b), back)


def root(a, *xs):
    """The linearized residual is solved by its dense matrix, whatever graph does so here."""
    count = a["num_consts"]
    consts, guess = xs[:count], tuple(xs[count:])
    residual, solve = function(a["residual"]), function(a["solve"])

    def tangent_solve(linear, rhs):
        flat, shaped = ravel_pytree(rhs)
        matrix = jax.vmap(lambda v: ravel_pytree(linear(shaped(v)))[0], out_axes=1)(jnp.eye(flat.size, dtype=flat.dtype))
        return shaped(jnp.linalg.solve(matrix, flat))

    return lax.custom_root(lambda x: residual(*consts, *x), guess, lambda _, x: solve(*consts, *x), tangent_solve)


def sign(a, x):
    """Of a complex number x/|x|, with that derivative: JAX gives it none."""
    if not jnp.issubdtype(x.dtype, jnp.complexfloating):
        return lax.sign(x)
    somewhere = jnp.where(x == 0, jnp.ones((), x.dtype), x)
    return jnp.where(x == 0, jnp.zeros((), x.dtype), somewhere / jnp.abs(somewhere))


def clamp(a, low, x, high):
    """With bounds of x's shape: JAX fails to differentiate scalar ones."""
    return lax.clamp(jnp.broadcast_to(low, x.shape), x, jnp.broadcast_to(high, x.shape))


def top_k(a, x):
    """With NaN of one sign: JAX orders those of the other as the least."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.where(jnp.isnan(x), jnp.asarray(np.nan, x.dtype), x)
    return lax.top_k(x, a["k"])


def running(best, better):
    """cummax and cummin by the place of the first of equal elements, which alone gets the cotangent (JAX shares it)."""
    def scan(a, x):
        if a["reverse"]:
            return jnp.flip(scan({**a, "reverse": False}, jnp.flip(x, a["axis"])), a["axis"])
        if 0 in x.shape:
            return x
        so_far = jnp.moveaxis(best(lax.stop_gradient(x), a["axis"]), a["axis"], 0)
        ahead = jnp.moveaxis(lax.stop_gradient(x), a["axis"], 0)
        new = better(ahead[1:], so_far[:-1]) | (jnp.isnan(ahead[1:]) & ~jnp.isnan(so_far[:-1]))
        position = jnp.arange(1, x.shape[a["axis"]]).reshape(-1, *[1] * (x.ndim - 1))
        first = jnp.concatenate([jnp.zeros_like(ahead[:1], dtype=jnp.int64), jnp.where(new, position, 0)])
        place = jnp.moveaxis(lax.cummax(first, 0), 0, a["axis"])
        return jnp.take_along_axis(x, place, axis=a["axis"])
    return scan


# Functions of attributes and operands; those of the same name and with operands alone are taken from jax.lax.
def scan(a, *xs):
    body, consts, carries = function(a["body"]), a["num_consts"], a["num_carry"]

    def step(carry, x):
        results = body(*xs[:consts], *carry, *x)
        return tuple(results[:carries]), tuple(results[carries:])
    last, ys = lax.scan(step, tuple(xs[consts:consts + carries]), tuple(xs[consts + carries:]), a["length"], a["reverse"])
    return (*last, *ys)


def cond(a, index, *xs):
    branches = [function(graph) for graph in a["branches"]]
    if index.dtype == bool:
        return lax.cond(index, branches[1], branches[0], *xs)
    return lax.switch(index, branches, *xs)


def while_loop(a, *xs):
    """With a bound: JAX's own has no reverse mode."""
    until, body, consts = function(a["cond"]), function(a["body"]), xs[:a["num_consts"]]

    def step(carry, _):
        return lax.cond(until(*consts, *carry)[0], lambda c: tuple(body(*consts, *c)), lambda c: c, carry), None
    return lax.scan(step, tuple(xs[len(consts):]), None, a["max_steps"])[0]


PRIMITIVES = {
    "constant": constant,
    "full": full,
    "iota": lambda a: lax.broadcasted_iota(DTYPE[a["dtype"]], a["shape"], a["dimension"]),
    "round": rounded, "sign": sign,
    "logistic": logistic,
    "not": lambda a, x: lax.bitwise_not(x),
    "and": lambda a, x, y: lax.bitwise_and(x, y),
    "or": lambda a, x, y: lax.bitwise_or(x, y),
    "xor": lambda a, x, y: lax.bitwise_xor(x, y),
    "multiply_no_nan": lambda a, x, y: jnp.where(x == 0, 0, x * y),
    "divide_no_nan": lambda a, x, y: jnp.where(x == 0, 0, x / y),
    "nextafter": lambda a, x, y: lax.nextafter(lax.stop_gradient(x), lax.stop_gradient(y)),
    "clamp": clamp,
    "integer_pow": lambda a, x: lax.integer_pow(x, a["y"]),
    "reciprocal": lambda a, x: lax.integer_pow(x, -1),
    "polygamma": lambda a, x: jax.scipy.special.polygamma(a["m"], x) if a["m"] else lax.digamma(x),
    "real": lambda a, x: lax.real(x), "imag": lambda a, x: lax.imag(x),
    "reshape": lambda a, x: lax.reshape(x, a["new_sizes"]),
    "transpose": lambda a, x: lax.transpose(x, a["permutation"]),
    "broadcast_in_dim": lambda a, x: lax.broadcast_in_dim(x, a["shape"], a["broadcast_dimensions"]),
    "squeeze": lambda a, x: lax.squeeze(x, a["dimensions"]),
    "expand_dims": lambda a, x: lax.expand_dims(x, a["dimensions"]),
    "rev": lambda a, x: lax.rev(x, a["dimensions"]),
    "slice": lambda a, x: lax.slice(x, a["start_indices"], a["limit_indices"], a["strides"]),
    "pad": lambda a, x, value: lax.pad(x, value, [tuple(c) for c in a["padding_config"]]),
    "concatenate": lambda a, *xs: lax.concatenate(xs, a["dimension"]),
    "convert_element_type": lambda a, x: lax.convert_element_type(x, DTYPE[a["new_dtype"]]),
    "optimization_barrier": lambda a, *xs: lax.optimization_barrier(xs),
    "device_put": lambda a, x: x,
    "dynamic_slice": lambda a, x, *starts: lax.dynamic_slice(x, starts, a["slice_sizes"], allow_negative_indices=False),
    "dynamic_update_slice": lambda a, x, update, *starts: lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False),
    "take": take, "scatter_add": scatter_add,
    "take_along_axis": take_along_axis, "scatter_add_along_axis": scatter_add_along_axis,
    "reduce_sum": reduction(lambda x, axis: jnp.sum(x, axis=axis, dtype=x.dtype)),
    "reduce_prod": reduction(lambda x, axis: jnp.prod(x, axis=axis, dtype=x.dtype)),
    "reduce_max": reduction(jnp.max, least),
    "reduce_min": reduction(jnp.min, lambda x: -least(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).max),
    "reduce_and": reduction(jnp.all), "reduce_or": reduction(jnp.any),
    "argmax": lambda a, x: lax.argmax(x, a["axis"], DTYPE[a["index_dtype"]]),
    "argmin": lambda a, x: lax.argmin(x, a["axis"], DTYPE[a["index_dtype"]]),
    **{name: (lambda f: lambda a, x: f(x, a["axis"], a["reverse"]))(getattr(lax, name))
       for name in ("cumsum", "cumprod", "cumlogsumexp")},
    "cummax": running(lax.cummax, lax.gt), "cummin": running(lax.cummin, lax.lt),
    "logsumexp": log_sum_exp,
    "sort": lambda a, *xs: lax.sort(xs, dimension=a["dimension"], num_keys=a["num_keys"]),
    "top_k": top_k,
    "dot_general": lambda a, x, y: lax.dot_general(x, y, a["dimension_numbers"]),
    "conv_general_dilated": convolution,
    "reduce_window_sum": window_reduction(lax.add, lambda x: np.asarray(0, x.dtype)),
    "reduce_window_max": window_reduction(lax.max, least),
    "cholesky": lambda a, x: lax.linalg.cholesky(x, symmetrize_input=True),
    "triangular_solve": lambda a, m, x: lax.linalg.triangular_solve(m, x, **a),
    "lu": lambda a, x: lax.linalg.lu(x),
    "qr": lambda a, x: lax.linalg.qr(x, full_matrices=False),
    "eigh": lambda a, x: lax.linalg.eigh(x, symmetrize_input=True),
    "svd": lambda a, x: lax.linalg.svd(x, full_matrices=False),
    "random_bits": random_bits,
    "call": lambda a, *xs: function(a["graph"])(*xs),
    "checkpoint": lambda a, *xs: jax.checkpoint(function(a["graph"]))(*xs),
    "custom_jvp_call": custom_jvp,
    "custom_jvp_transpose": lambda a, *xs: function(a["graph"])(*xs),
    "custom_vjp_call": custom_vjp,
    "linear_call": lambda a, *xs: function(a["graph"])(*xs),
    "custom_linear_solve": linear_solve,
    "custom_root": root,
    "scan": scan,
    "cond": cond,
    "while": while_loop,
}


def types(graph, which):
    return [(graph["values"][i]["dtype"], tuple(graph["values"][i]["shape"])) for i in graph[which]]


def function(graph):
    """The graph as a function of its inputs, to a tuple."""
    def f(*xs):
        values = dict(zip(graph["inputs"], xs))
        for operation in graph["operations"]:
            operands = [values[i] for i in operation["inputs"]]
            name = operation["op"]
            if name in PRIMITIVES:
                results = PRIMITIVES[name](operation.get("attrs", {}), *operands)
            else:
                results = getattr(lax, name)(*operands)
            results = results if isinstance(results, (tuple, list)) else (results,)
            values.update(zip(operation["outputs"], results, strict=True))
        return tuple(values[i] for i in graph["outputs"])
    return f


class Function:
    """A graph with inputs {name: (dtype, numpy array)}; each method returns the output of the command of its name, as numpy arrays in
    the same positions, None for a value without tangent."""

    def __init__(self, graph, inputs, batched=()):
        self.names = dumps.input_names(graph)
        self.types = [inputs[name][0] for name in self.names]
        self.xs = tuple(array(*inputs[name]) for name in self.names)
        self.outputs = types(graph, "outputs")
        self.active = [i for i, dtype in enumerate(self.types) if dumps.inexact(dtype)]
        self.axes = [0 if name in batched else None for name in self.names]
        self.sizes = {inputs[name][1].shape[0] for name in batched}
        self.f = function(graph)
        self.batched = bool(batched)

    def _over(self, f):
        """f of the active inputs alone, beside the others."""
        def g(*active):
            xs = list(self.xs)
            for i, x in zip(self.active, active):
                xs[i] = x
            return f(*xs)
        return g, tuple(self.xs[i] for i in self.active)

    def _mapped(self, f, arguments, axes):
        if self.batched:
            f = jax.vmap(f, in_axes=tuple(axes))
        return jax.jit(f)(*arguments)

    def eval(self):
        return {"outputs": [carried(y) for y in self._mapped(self.f, self.xs, self.axes)]}

    def _tangents(self, tangents):
        return tuple(array(*tangents[self.names[i]]) for i in self.active)

    def jvp(self, tangents):
        ts = self._tangents(tangents)

        def f(xs, ts):
            full = [jnp.zeros(x.shape, x.dtype) if dumps.inexact(t) else np.zeros(x.shape, jax.dtypes.float0)
                    for x, t in zip(xs, self.types)]
            for i, t in zip(self.active, ts):
                full[i] = t
            ys, dys = jax.jvp(self.f, xs, tuple(full))
            return ys, tuple(dy for dy, (dtype, _) in zip(dys, self.outputs) if dumps.inexact(dtype))

        axes = (tuple(self.axes), tuple(self.axes[i] for i in self.active))
        ys, dys = self._mapped(f, (self.xs, ts), axes)
        dys = iter(dys)
        return {"outputs": [carried(y) for y in ys],
                "tangents": [carried(next(dys)) if dumps.inexact(dtype) else None for dtype, _ in self.outputs]}

    def vjp(self, cotangents):
        cts = tuple(array(*c) for c in cotangents if c is not None)

        def f(xs, cts):
            ys, back = jax.vjp(self.f, *xs)
            given = iter(cts)
            every = tuple(jnp.conj(next(given)) if dumps.inexact(dtype) else np.zeros(y.shape, jax.dtypes.float0)
                          for y, (dtype, _) in zip(ys, self.outputs))
            gradients = back(every)
            return ys, tuple(jnp.conj(gradients[i]) for i in self.active)

        ys, gradients = self._mapped(f, (self.xs, cts), (tuple(self.axes), (0,) * len(cts)))
        return {"outputs": [carried(y) for y in ys],
                "gradients": {self.names[i]: carried(g) for i, g in zip(self.active, gradients)}}

    def grad(self):
        ys, gradients = self._mapped(self._value_and_grad, (self.xs,), (tuple(self.axes),))
        return {"outputs": [carried(ys)], "gradients": {self.names[i]: carried(g) for i, g in zip(self.active, gradients)}}

    def _value_and_grad(self, xs):
        value, gradients = jax.value_and_grad(lambda *xs: self.f(*xs)[0], argnums=tuple(self.active))(*xs)
        return value, tuple(jnp.conj(g) for g in gradients)

    def hvp(self, tangents):
        def f(active, ts):
            def gradient(*active):
                xs = list(self.xs)
                for i, x in zip(self.active, active):
                    xs[i] = x
                return self._value_and_grad(tuple(xs))
            (value, gradients), (_, products) = jax.jvp(gradient, active, ts)
            return value, gradients, products

        value, gradients, products = jax.jit(f)(tuple(self.xs[i] for i in self.active), self._tangents(tangents))
        of = lambda arrays: {self.names[i]: carried(g) for i, g in zip(self.active, arrays)}
        return {"outputs": [carried(value)], "gradients": of(gradients), "hvp": of(products)}

    def jac(self, mode):
        derivative = jax.jacfwd if mode == "forward" else jax.jacrev
        over, active = self._over(self.f)
        floats = [k for k, (dtype, _) in enumerate(self.outputs) if dumps.inexact(dtype)]
        rows = jax.jit(derivative(lambda *a: tuple(over(*a)[k] for k in floats), argnums=tuple(range(len(active)))))(*active)
        rows = iter(rows)
        jacobians = [{self.names[i]: carried(b) for i, b in zip(self.active, next(rows))} if k in floats else None
                     for k in range(len(self.outputs))]
        return {"outputs": [carried(y) for y in jax.jit(self.f)(*self.xs)], "jacobians": jacobians}
