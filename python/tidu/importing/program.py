"""from_jax, and the imported program: a graph that is called like the function it came from."""

import functools
import json

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from .. import _core
from ..errors import InvalidArgumentError, TypeMismatchError
from . import (  # noqa: F401
    contractions,
    control,
    elementwise,
    indexing,
    libraries,
    linalg,
    randomness,
    reductions,
    rules,
    shapes,
    special,
)
from .builder import Builder
from .dtypes import Unsupported, check_generator, to_numpy, type_of
from .translator import Translator


class ImportedProgram:
    """A function of JAX as a graph of tidu. Called like the function, with arrays of tidu, NumPy or JAX in the
    structures of the example arguments, it gives Arrays in the structure of the result, and may be differentiated,
    mapped and compiled as any function of Arrays: td.grad(program)(x). `graph` alone needs neither JAX nor Python."""

    def __init__(self, graph, tree, is_static, out_tree):
        self.graph, self._tree, self._is_static, self._out_tree = graph, tree, is_static, out_tree

    @property
    def input_names(self):
        return self.graph.input_names

    def flatten(self, *args, **kwargs):
        """The Arrays that stand for arguments, in the order of the graph's inputs."""
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if tree != self._tree:
            raise InvalidArgumentError(f"[from_jax] expected arguments of the structure {self._tree}, got {tree}")
        arrays = [x for x, is_static in zip(leaves, self._is_static) if not is_static]
        return [to_array(x, dtype) for x, (dtype, _) in zip(arrays, self.graph.inputs)]

    def __call__(self, *args, **kwargs):
        outputs = self.graph(*self.flatten(*args, **kwargs))
        return jax.tree_util.tree_unflatten(self._out_tree, outputs)

    def to_json(self):
        return self.graph.to_json()

    def __str__(self):
        return str(self.graph)

    __repr__ = __str__

    def _repr_html_(self):
        return self.graph._repr_html_()


def to_array(x, dtype):
    if isinstance(x, _core.Array):
        return x
    try:
        x = to_numpy(x)
    except Unsupported as problem:
        raise TypeMismatchError(f"[from_jax] expected an array of a type that tidu has, got {problem}") from None
    if x.dtype == ml_dtypes.bfloat16:
        x = x.astype(np.float32)
    array = _core.asarray(np.ascontiguousarray(x).reshape(x.shape))
    return array if array.dtype == dtype else array.astype(dtype)


def is_array(x):
    return hasattr(x, "dtype") and hasattr(x, "shape") or isinstance(x, (bool, int, float, complex))


def example(x):
    """An argument that tracing needs the type of: numbers are what JAX makes of them, Arrays are NumPy's."""
    if isinstance(x, _core.Array):
        return x.astype(_core.float32).numpy().astype(ml_dtypes.bfloat16) if x.dtype.name == "bfloat16" else x.numpy()
    return x


def names_of(paths, is_static):
    """A name for each input: that of the argument, then keys, fields and positions in it."""
    names = []
    for path, static in zip(paths, is_static):
        parts = [str(getattr(k, "name", getattr(k, "key", getattr(k, "idx", k)))) for k in path[1:]]
        if path[0].idx == 0:
            parts[0] = "x" + parts[0]
        if not static:
            names.append(".".join(parts).replace(",", ";"))
    return names if len(set(names)) == len(names) else [f"x{k}" for k in range(len(names))]


def from_jax(f, *args, **kwargs):
    """The graph of f, a function of JAX, for arguments of these shapes and dtypes.

    The arguments are structures of arrays (of JAX, NumPy or tidu, or jax.ShapeDtypeStruct) and numbers; anything else
    in them is static. Loops, branches, checkpoints, custom_jvp and custom_vjp stay what they are. Raises
    ImportProgramError, with the primitives and lines, where something cannot be translated.
    """
    flat, tree = jax.tree_util.tree_flatten_with_path((args, kwargs))
    paths, leaves = [p for p, _ in flat], [example(x) for _, x in flat]
    is_static = [not is_array(x) for x in leaves]
    arrays = [None if static else x for x, static in zip(leaves, is_static)]
    out_tree = None

    @functools.wraps(f, updated=())  # errors of JAX name f and its arguments
    def of_arrays(*arguments, **keywords):
        nonlocal out_tree
        given = iter(jax.tree_util.tree_leaves((arguments, keywords)))
        full = [x if static else next(given) for x, static in zip(leaves, is_static)]
        positional, named = jax.tree_util.tree_unflatten(tree, full)
        outputs, out_tree = jax.tree_util.tree_flatten(f(*positional, **named))
        return [jnp.asarray(y) for y in outputs]

    arguments, keywords = jax.tree_util.tree_unflatten(tree, arrays)
    closed = jax.make_jaxpr(of_arrays)(*arguments, **keywords)
    name = getattr(f, "__name__", "f")
    dump = dump_of(closed, names_of(paths, is_static), name if name.isidentifier() else "f")
    return ImportedProgram(_core.Graph.from_json(json.dumps(dump)), tree, is_static, out_tree)


def dump_of(closed, names, name="f"):
    """The dump of a closed jaxpr."""
    t = Translator()
    with t.inside(Builder(name)) as g:
        try:
            for a in closed.in_avals:
                check_generator(a.dtype, "random key")
            xs = [g.input(n, *type_of(a)) for n, a in zip(names, closed.in_avals)]
            g.outputs = t.inline(closed, xs)
        except Unsupported as problem:  # of an argument or a constant
            t.failures.append((problem.primitive, problem.detail, g.where))
    t.make_rules()
    t.raise_failures()
    dump = g.dump()
    named = reachable(dump, t.named)
    return {**dump, "graphs": named} if named else dump


def reachable(dump, named):
    """The graphs that a dump refers to by name, and those that these do."""
    found, stack = {}, [dump]
    while stack:
        graph = stack.pop()
        for operation in graph["operations"]:
            for attribute in operation.get("attrs", {}).values():
                for value in attribute if isinstance(attribute, list) else [attribute]:
                    if isinstance(value, dict) and value.get("format") == "tidu.graph":
                        stack.append(value)
                    elif isinstance(value, str) and value in named and value not in found:
                        found[value] = named[value]
                        stack.append(named[value])
    return found
