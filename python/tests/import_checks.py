"""Compares an imported program with JAX: values, jvp, vjp and Hessian-vector products, with random tangents and
cotangents."""

import os

# Compile times are most of what these tests take: XLA may leave its optimizations out.
FLAGS = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " " + FLAGS

import jax
import jax.numpy as jnp
import numpy as np
import tidu as td


def is_inexact(x):
    dtype = np.dtype(x.dtype) if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else np.dtype(bool)
    return jnp.issubdtype(dtype, jnp.inexact)


def plain(x):
    """An array as tidu has it, to compare with: keys are their words, u64 its bits."""
    from tidu.importing.dtypes import to_numpy

    x = to_numpy(x)
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


class Case:
    """f as a function of its leaves, imported, with random directions."""

    def __init__(self, f, args, seed=0):
        leaves, tree = jax.tree_util.tree_flatten(args)
        is_array = [hasattr(x, "dtype") or isinstance(x, (bool, int, float, complex)) for x in leaves]
        self.leaves = [x if hasattr(x, "dtype") else np.asarray(x) for x, a in zip(leaves, is_array) if a]

        def flat(*v):
            given = iter(v)
            full = [next(given) if a else x for x, a in zip(leaves, is_array)]
            outputs = jax.tree_util.tree_leaves(f(*jax.tree_util.tree_unflatten(tree, full)))
            return [jnp.asarray(y) for y in outputs]

        self.flat, self.done = flat, {}
        self.program = td.from_jax(f, *args)
        self.graph = self.program.graph
        self.active = [k for k, x in enumerate(self.leaves) if is_inexact(x)]
        self.outputs = jax.eval_shape(flat, *self.leaves)
        self.active_outputs = [k for k, y in enumerate(self.outputs) if is_inexact(y)]
        rng = np.random.default_rng(seed)
        self.tangents = [draw(rng, self.leaves[k]) for k in self.active]
        self.cotangents = [draw(rng, self.outputs[k]) for k in self.active_outputs]

    def of_active(self, *v):
        full = list(self.leaves)
        for k, x in zip(self.active, v):
            full[k] = x
        return full

    @property
    def primals(self):
        return [jnp.asarray(self.leaves[k]) for k in self.active]

    def inexact_outputs(self, *v):
        ys = self.flat(*self.of_active(*v))
        return [ys[k] for k in self.active_outputs]

    def vjp(self, *v):
        cotangents = [jnp.asarray(c) for c in self.cotangents]
        pulled = jax.vjp(self.inexact_outputs, *v)[1]([jnp.conj(c) for c in cotangents])
        return [jnp.conj(c) for c in pulled]

    # expected, of JAX; two compilations give all four

    def compiled(self, f):
        if f.__name__ not in self.done:
            self.done[f.__name__] = jax.jit(f)(self.primals)
        return self.done[f.__name__]

    def forward(self, v):
        return jax.jvp(lambda w: self.inexact_outputs(*w), (v,), ([jnp.asarray(t) for t in self.tangents],))

    def reverse(self, v):
        return jax.jvp(lambda w: self.vjp(*w), (v,), ([jnp.asarray(t) for t in self.tangents],))

    def value_and_vjp(self, v):
        ys, pull = jax.vjp(self.inexact_outputs, *v)
        pulled = pull([jnp.conj(jnp.asarray(c)) for c in self.cotangents])
        return ys, [jnp.conj(c) for c in pulled]

    def jax_eval(self):
        if len(self.active_outputs) == len(self.outputs) and self.active:
            try:
                return self.compiled(self.forward)[0]
            except TypeError:  # no forward mode
                pass
        return jax.jit(lambda *v: self.flat(*self.of_active(*v)))(*self.primals)

    def jax_jvp(self):
        return self.compiled(self.forward)[1]

    def jax_vjp(self, second=True):
        return self.compiled(self.reverse)[0] if second else jax.jit(self.vjp)(*self.primals)

    def jax_hvp(self):
        return self.compiled(self.reverse)[1]

    # of tidu

    def arrays(self, xs):
        from tidu.importing.program import to_array

        return [to_array(x, None if isinstance(x, td.Array) else self.dtype_of(x)) for x in xs]

    def dtype_of(self, x):
        from tidu.importing.dtypes import dtype_of

        names = {
            "i32": "int32",
            "i64": "int64",
            "f16": "float16",
            "bf16": "bfloat16",
            "f32": "float32",
            "f64": "float64",
        }
        name = dtype_of(np.asarray(x).dtype if not hasattr(x, "dtype") else x.dtype)
        return td.dtype({**names, "c64": "complex64", "c128": "complex128"}.get(name, name))

    def run(self, graph, extra=()):
        return [
            np.asarray(y.astype(td.float32) if y.dtype == td.bfloat16 else y)
            for y in graph(*self.arrays([*self.leaves, *extra]))
        ]

    def tidu_eval(self):
        return self.run(self.graph)

    def tidu_jvp(self):
        return self.run(self.graph.jvp(), self.tangents)[len(self.outputs) :]

    def tidu_vjp(self):
        return self.run(self.graph.vjp(), self.cotangents)[len(self.outputs) :]

    def tidu_hvp(self):
        pulled = self.graph.vjp()
        n = len(self.leaves)
        wrt = [pulled.input_names[k] for k in range(n) if k in self.active]
        pushed = pulled.jvp(wrt)
        return self.run(pushed, [*self.cotangents, *self.tangents])[-len(self.active) :]


def draw(rng, x):
    dtype = np.dtype(x.dtype)
    y = rng.uniform(-1, 1, x.shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        y = y + 1j * rng.uniform(-1, 1, x.shape)
    return np.asarray(y).astype(dtype)


EPSILON = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}


def difference(got, expected):
    """The greatest difference as a multiple of epsilon times the size of what is expected; None where both are
    alike."""
    worst = 0.0
    for y, z in zip(got, expected):
        if np.asarray(z).dtype == jax.dtypes.float0:
            continue
        name = (
            np.dtype(z.dtype).name
            if hasattr(z, "dtype") and not jax.dtypes.issubdtype(z.dtype, jax.dtypes.prng_key)
            else "int"
        )
        z = plain(z)
        if y.shape != z.shape:
            return np.inf
        if name not in EPSILON:
            if not np.array_equal(y, z):
                return np.inf
            continue
        same = (y == z) | (np.isnan(y) & np.isnan(z))
        if same.all():
            continue
        with np.errstate(all="ignore"):
            gap = np.where(same, 0, np.abs(y - z))
            scale = max(np.max(np.abs(z[np.isfinite(z)]), initial=0.0), 1e-3)
            ratio = np.max(gap) / scale / EPSILON[name]
        worst = max(worst, ratio if np.isfinite(ratio) else np.inf)
    return worst
