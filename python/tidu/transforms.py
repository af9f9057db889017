"""Transforms of functions: they return functions again, so they nest to any order.

Arguments and results are pytrees (lists, tuples, dicts, dataclasses, named tuples, registered classes) of Arrays,
NumPy's arrays and floating numbers; ints, bools, text and other objects in them are passed on unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _core

Function = Callable[..., Any]
Argnums = int | Sequence[int]


def _wraps(f, name):
    def decorate(g):
        try:
            functools.update_wrapper(g, f)
        except AttributeError:
            pass
        g.__name__ = f"{name}({getattr(f, '__name__', 'f')})"
        g.__doc__ = f"{name} of {getattr(f, '__name__', 'a function')}."
        return g

    return decorate


def _argnums(argnums):
    return argnums if isinstance(argnums, int) else tuple(argnums)


def grad(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The gradient of f, which returns a floating scalar, by the arguments argnums (an int, or several as a tuple).

    It has the form of the argument. With has_aux=True f returns (scalar, aux), and the gradient comes as (gradient, aux).
    """
    wanted = _argnums(argnums)

    @_wraps(f, "grad")
    def gradient(*args, **kwargs):
        value, gradients = _core._value_and_grad(f, wanted, has_aux, "grad", args, kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """f's value and the gradient, as (value, gradient); with has_aux=True as ((value, aux), gradient)."""
    wanted = _argnums(argnums)

    @_wraps(f, "value_and_grad")
    def both(*args, **kwargs):
        return _core._value_and_grad(f, wanted, has_aux, "value_and_grad", args, kwargs)

    return both


def vjp(f: Function, *primals: Any, has_aux: bool = False) -> tuple:
    """f's result and the function from its cotangent to a tuple of those of the arguments; (y, pullback).

    With has_aux=True f returns (y, aux), and the answer is (y, pullback, aux).
    """
    if not has_aux:
        return _core._vjp(f, primals)
    aux = []

    def first(*args):
        y, rest = f(*args)
        aux[:] = [tree_map(_core.stop_gradient, rest)]
        return y

    y, pullback = _core._vjp(first, primals)
    return y, pullback, tree_map(lambda a: a.detach(), aux[0])


def jvp(f: Function, primals: Sequence, tangents: Sequence) -> tuple[Any, Any]:
    """f's result at primals and its tangent along tangents, both tuples of arguments."""
    return _core._jvp(f, tuple(primals), tuple(tangents))


def hvp(f: Function, primals: Any, tangents: Any) -> Any:
    """The product of the Hessian of f, a scalar, with tangents, as a tuple of the arguments' forms.

    primals and tangents are tuples of arguments, or a single Array each, of which the product is one too.
    """
    if isinstance(primals, tuple):
        return _core._hvp(f, primals, tuple(tangents))
    return _core._hvp(f, (primals,), (tangents,))[0]


def _jacobian(kind, f, argnums):
    wanted = _argnums(argnums)

    @_wraps(f, kind)
    def jacobian(*args, **kwargs):
        return _core._jacobian(kind, f, wanted, args, kwargs)

    return jacobian


def jacfwd(f: Function, argnums: Argnums = 0) -> Function:
    """The Jacobian of f, of shape result + argument, by one pass forward for each element of the argument."""
    return _jacobian("jacfwd", f, argnums)


def jacrev(f: Function, argnums: Argnums = 0) -> Function:
    """The Jacobian of f, of shape result + argument, by one pass backward for each element of the result."""
    return _jacobian("jacrev", f, argnums)


def hessian(f: Function, argnums: Argnums = 0) -> Function:
    """The second derivatives of f, a floating scalar, of shape argument + argument."""
    return _jacobian("hessian", f, argnums)


def _num_leaves(tree):
    return _core.tree_flatten(tree)[1].num_leaves


def _axes_of(tree, axes, what):
    """An axis for each leaf, of axes that stand for whole parts of the structure."""
    if axes is None or isinstance(axes, int):
        return [axes] * _num_leaves(tree)
    if isinstance(axes, dict) and isinstance(tree, dict) and axes.keys() == tree.keys():
        return [a for key in sorted(tree) for a in _axes_of(tree[key], axes[key], what)]
    if isinstance(axes, (list, tuple)) and isinstance(tree, (list, tuple)) and len(axes) == len(tree):
        return [a for part, axis in zip(tree, axes) for a in _axes_of(part, axis, what)]
    raise _errors().InvalidArgumentError(
        f"vmap: expected {what} that is an int, None or a structure of such of the form of what it is for, got {axes!r}"
    )


def _errors():
    from . import errors

    return errors


def vmap(f: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """f for all examples at once, written for one.

    in_axes: the axis of all arguments, or a tuple with one for each: an int, None for an argument that all examples
    share, or a pytree of these. out_axes: the axis of the result, or a pytree of axes.
    """

    def input_axes(args, kwargs):
        if isinstance(in_axes, (list, tuple)) and len(in_axes) != len(args):
            raise _errors().InvalidArgumentError(
                f"vmap: expected in_axes for {len(args)} arguments, got {len(in_axes)}"
            )
        axes = in_axes if isinstance(in_axes, (list, tuple)) else [in_axes] * len(args)
        found = [a for arg, axis in zip(args, axes) for a in _axes_of(arg, axis, "in_axes")]
        return found + [0] * _num_leaves(kwargs)

    def output_axes(result):
        return _axes_of(result, out_axes, "out_axes")

    @_wraps(f, "vmap")
    def mapped(*args, **kwargs):
        return _core._vmap(f, input_axes, output_axes, args, kwargs)

    return mapped


def jit(f=None, *, static_argnums=(), static_argnames=()):
    """f, traced once for each structure and types of its arguments, and then run as one graph.

    f must do the same whatever the elements are, and return its results. Ints, text and objects among the arguments,
    and the arguments in static_argnums and static_argnames, are static: each new value is traced anew. A floating
    number becomes an Array of float64.
    """
    if f is None:
        return lambda g: jit(g, static_argnums=static_argnums, static_argnames=static_argnames)
    numbers = [static_argnums] if isinstance(static_argnums, int) else list(static_argnums)
    names = [static_argnames] if isinstance(static_argnames, str) else list(static_argnames)
    compiled = _core.Compiled(f, numbers, names)
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(f, attribute):
            setattr(compiled, attribute, getattr(f, attribute))
    return compiled


compile = jit


def checkpoint(f=None, *, save="nothing"):
    """f with rematerialization: its derivative keeps only the arguments (save="nothing") or all values."""
    if f is None:
        return lambda g: checkpoint(g, save=save)
    if save not in ("nothing", "everything"):
        raise _errors().InvalidArgumentError(
            f'checkpoint: expected save="nothing" or save="everything", got {save!r}'
        )

    @_wraps(f, "checkpoint")
    def checkpointed(*args, **kwargs):
        return _core._checkpoint(f, save == "everything", args, kwargs)

    return checkpointed


def while_loop(cond: Function, body: Function, init: Any, max_steps: int | None = None) -> Any:
    """carry = init; while cond(carry): carry = body(carry), as one operation. With max_steps it has gradients."""

    def step(carry):
        return cond(carry), body(carry)

    return _core._while_loop(step, init, max_steps)


def fori_loop(lower: Any, upper: Any, body: Function, init: Any, max_steps: int | None = None) -> Any:
    """carry = init; for i in range(lower, upper): carry = body(i, carry), as one operation.

    Between plain numbers it has gradients; with Arrays as bounds it needs max_steps for them.
    """
    if isinstance(lower, int) and isinstance(upper, int):
        return _core._fori_loop(lower, upper, body, init, max_steps)
    low, high = _core.asarray(lower), _core.asarray(upper)
    dtype = _core.promote_types(
        high.dtype if isinstance(lower, int) else low.dtype, low.dtype if isinstance(upper, int) else high.dtype
    )
    low, high = low.astype(dtype), high.astype(dtype)

    def cond(state):
        return state[0] < high

    def step(state):
        return state[0] + 1, body(state[0], state[1])

    return while_loop(cond, step, (low, init), max_steps)[1]


def tree_map(f: Function, tree: Any, *rest: Any) -> Any:
    """The structure with each leaf replaced by f(leaf, ...), of the leaves at its position in each tree."""
    return _core.tree_map(f, tree, *rest)


def tree_leaves(tree: Any) -> list[_core.Array]:
    """The Arrays in a structure, in order."""
    return _core.tree_flatten(tree)[0]


def tree_flatten(tree: Any) -> tuple[list[_core.Array], _core.TreeDef]:
    """(leaves, TreeDef)."""
    return _core.tree_flatten(tree)


def tree_unflatten(treedef: _core.TreeDef, leaves: Iterable) -> Any:
    """The structure of treedef with these leaves."""
    return treedef.unflatten(leaves)


def check_gradients(
    f: Function | _core.Graph, *args: Any, order: int = 2, seed: int = 1, batch: int = 3
) -> _core.CheckReport:
    """Is the derivative of f (a function, or a Graph) right at these arguments? Its JVP is held against differences, its
    VJP against the JVP, the batched graph against a loop. The report tells operation and rule at fault."""
    graph = f if isinstance(f, _core.Graph) else _core.trace(f, *args)
    return _core._check_gradients(graph, args, order, seed, batch)
