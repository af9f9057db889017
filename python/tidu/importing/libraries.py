"""Primitives of libraries: their implementation is a function of JAX, which is traced. Those of equinox and lineax have
checks that are no part of the function, and lineax's solves are linear solves of tidu."""

import functools
import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .calls import REFUSALS
from .dtypes import Unsupported
from .special import with_rule_of_jax
from .translator import result, rule


class NotSquare(Exception):
    """A system that has not one solution."""


@rule("ffi_call")
def foreign_function(t, e, xs):
    raise Unsupported("ffi_call", "of " + e.params["target_name"])


@rule("call_exported")
def call_exported(t, e, xs):
    """A call of what jax.export exported, which is a StableHLO module."""
    from .stablehlo import traced_module

    exported = e.params["exported"]
    if exported.ordered_effects:
        raise Unsupported("call_exported", f"of {exported.fun_name}, which has ordered effects")
    kept, platforms = exported.module_kept_var_idx, exported.platforms
    index = [np.int32(platforms.index("cpu") if "cpu" in platforms else 0)] if len(platforms) > 1 else []
    avals = [v.aval for v in e.invars]
    traced, failures = traced_module(exported.mlir_module_serialized, avals, lambda v: index + [v[k] for k in kept])
    t.failures.extend(failures)
    return t.inline(traced, xs)


@rule("shard_map")
def shard_map(t, e, xs):
    """Over one device: collectives of an axis of length 1."""
    mesh, jaxpr = e.params["mesh"], e.params["jaxpr"]
    if mesh.size != 1:
        raise Unsupported("shard_map", f"over {mesh.size} devices")
    return t.inline(jaxpr, xs)


@rule("all_gather", "all_gather_invariant", "reduce_scatter", "all_to_all", "ppermute", "pbroadcast")
def collective_of_one(t, e, xs):
    """In a shard_map, which is over one device."""
    if any(x.size != math.prod(v.aval.shape) for x, v in zip(xs, e.outvars)):
        raise Unsupported(e.primitive.name, "over an axis of vmap too")
    return [t.g.reshape(x, v.aval.shape) for x, v in zip(xs, e.outvars)]


@rule("axis_index")
def axis_index(t, e, xs):
    return t.g.full(0, *result(e))


@rule("of a library")
def of_a_library(t, e, xs):
    """A primitive that tidu has no rule for: its implementation, if that is a function of JAX that can be traced."""
    f, name, avals = e.primitive.impl, e.primitive.name, [v.aval for v in e.invars]
    sparse = implementation_of_sparse(name)
    if "jax._src" in (getattr(getattr(f, "func", f), "__module__", "") or "") and name not in LIBRARIES and not sparse:
        raise Unsupported(name)
    try:
        if sparse:
            return with_rule_of_jax(t, e, xs, lambda *v: sparse(*v, **e.params))
        if innermost(e.primitive, e.params).name == "linear_solve":
            f = implementation(e.primitive, {**LIBRARIES, "linear_solve": lineax_square_solve})
            try:
                traced = t.traced(lambda *v: f(*v, **e.params), avals)
            except NotSquare:
                pass
            else:
                return t.inline(traced, xs)
        f = implementation(e.primitive, LIBRARIES)
        return with_rule_of_jax(t, e, xs, lambda *v: f(*v, **e.params))
    except Unsupported:
        raise
    except REFUSALS as problem:
        reason = type(problem).__name__
        raise Unsupported(name, f"its implementation cannot be traced ({reason})") from problem


def innermost(primitive, params):
    """The primitive that equinox maps."""
    return innermost(params["prim"], dict(params["params"])) if primitive.name == "vprim" else primitive


def implementation(primitive, libraries):
    if primitive.name != "vprim":
        return libraries[primitive.name]() if primitive.name in libraries else primitive.impl

    def mapped(*v, prim, params, __axis_size, __axis_name, __batch_axes):
        f = functools.partial(implementation(prim, libraries), **dict(params))
        return jax.vmap(f, in_axes=__batch_axes, axis_size=__axis_size, axis_name=__axis_name)(*v)

    return mapped


def implementation_of_sparse(name):
    """The function by which jax.experimental.sparse evaluates a primitive on dense parts, or None."""
    form = name.split("_")[0]
    if form not in ("bcoo", "bcsr", "coo", "csr"):
        return None
    module = importlib.import_module("jax.experimental.sparse." + form)
    return getattr(module, f"_{name}_impl", None)


def as_it_is():
    return lambda x, **_: x


def select_if_vmap():
    return lambda which, x, y: lax.select(jnp.broadcast_to(which, x.shape), x, y)


def lineax_solve():
    import equinox.internal as eqxi

    def solve(_, state, vector, options, solver, throw):
        return solver.compute(state, vector, options)

    return eqxi.filter_primitive_def(solve)


def lineax_square_solve():
    """As a custom_linear_solve, which any solver may be the solve of, those that iterate too."""
    import equinox.internal as eqxi

    def solve(operator, state, vector, options, solver, throw):
        structures = operator.in_structure(), operator.out_structure()
        if structures[0] != structures[1] or not solver.assume_full_rank():
            raise NotSquare

        def forward(_, b):
            solution, result, stats = solver.compute(state, b, options)
            return solution, (result, stats)

        def transposed(_, b):
            state_of_transpose, options_of_transpose = solver.transpose(state, options)
            solution, result, stats = solver.compute(state_of_transpose, b, options_of_transpose)
            return solution, (result, stats)

        try:
            jax.eval_shape(lambda b: transposed(None, b)[0], vector)
        except REFUSALS:  # lineax has no transpose: the solve has forward mode alone
            transposed = None
        matvec = linear(operator.mv, vector)
        solution, (result, stats) = lax.custom_linear_solve(matvec, vector, forward, transposed, has_aux=True)
        return solution, result, stats

    return eqxi.filter_primitive_def(solve)


def linear(f, x):
    """f, which is linear, by operations that are: its tangent, if f computes by others (sign(x) exp(log(abs(x))))."""
    try:
        jax.eval_shape(jax.linear_transpose(f, x), x)
        return f
    except REFUSALS:
        somewhere = jax.tree_util.tree_map(jnp.ones_like, x)
        return lambda v: jax.jvp(f, (somewhere,), (v,))[1]


LIBRARIES = {
    "select_if_vmap": select_if_vmap,
    "nondifferentiable_backward": as_it_is,
    "nontraceable": as_it_is,
    "nonbatchable": as_it_is,
    "linear_solve": lineax_solve,
}
