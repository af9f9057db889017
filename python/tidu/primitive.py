"""Primitives of the user's own: an operation with a type rule, rules of derivatives and batching, and a kernel."""

from typing import NamedTuple

from . import _core
from .errors import InvalidArgumentError, TypeMismatchError


class Type(NamedTuple):
    """The type of an Array: dtype and shape. It equals the pair of these."""

    dtype: object
    shape: tuple


def _kind(name, given):
    """The kind of the attribute, as (name, kind, default or None)."""
    kinds = {bool: "bool", int: "int", str: "str", tuple: "ints", _core.DType: "dtype", _core.Array: "array"}
    if given in (bool, int, str, tuple, _core.DType, _core.Array):
        return name, kinds[given], None
    if type(given) in (bool, int, str):
        return name, kinds[type(given)], given
    raise InvalidArgumentError(
        f"Primitive: expected attribute {name!r} to be bool, int, str, tuple, td.DType or td.Array, or a default that is "
        f"a bool, an int or a text, got {given!r}"
    )


def _mask(linear):
    """The kind of linearity and the operands, bit by bit."""
    if linear is None:
        return 0, 0
    if linear == "bilinear":
        return 2, 0b11
    if linear == "all":
        return 1, 0xFFFFFFFF
    positions = [linear] if isinstance(linear, int) else list(linear)
    return 1, sum(1 << min(position, 31) for position in positions)


class Primitive:
    """An operation of the user. Call it with Arrays, and attributes by name.

    name: "project.name", its name in dumps. A second definition of a name replaces the first one.
    infer(*types, **attributes): the Type of the result, or a tuple of Types. The default for an elementwise primitive is
        the type of its operands.
    kernel(*arrays, **attributes): the result, computed with NumPy's arrays.
    jvp(primals, tangents, **attributes): the tangent of the result, None for zero. A tangent is None if it is zero.
        It may be omitted if it follows from `linear`.
    transpose(cotangent, operands, **attributes): the cotangents of the operands, as a tuple with None for those that are
        not linear (for a single operand, the cotangent itself). A linear operand is passed as its Type.
    batch(operands, batched, size, **attributes): the result, with a leading axis; the operands with batched true have it.
        An elementwise primitive needs none.
    linear: the operands in which it is linear: None, "all", "bilinear", or positions.
    attributes: by name, the kind of each (bool, int, str, tuple of ints, td.DType, td.Array), or a default.
    num_results: 1 by default; with another number functions take and return tuples. num_operands: any by default.

    jvp, transpose and batch compute with Arrays that have no elements, as functions under jit do. Their operations are
    differentiated again for higher orders. There is no VJP rule: reverse mode transposes the operations of jvp.
    """

    def __init__(self, name, *, infer=None, kernel=None, jvp=None, transpose=None, batch=None, linear=None,
                 elementwise=False, attributes=None, num_operands=-1, num_results=1):  # fmt: skip
        if infer is None:
            if not elementwise:
                raise InvalidArgumentError(f"Primitive: expected infer, the type rule of {name!r}, got none")
            infer = _same_type
        self.name = name
        self._num_results = num_results
        kinds = [_kind(key, given) for key, given in (attributes or {}).items()]
        rules = tuple(
            None if rule is None else wrap(rule)
            for rule, wrap in [
                (infer, self._infer),
                (jvp, self._jvp),
                (transpose, self._transpose),
                (batch, self._batch),
                (kernel, self._kernel),
            ]
        )
        self._handle = _core._define(
            name, num_operands, num_results, kinds, elementwise, *_mask(linear), rules
        )

    def __call__(self, *args, **attributes):
        return self._one(self._handle.bind(args, attributes))

    def __repr__(self):
        return f"Primitive({self.name!r})"

    def _one(self, values):
        return values[0] if self._num_results == 1 else tuple(values)

    def _all(self, result):
        return (result,) if self._num_results == 1 else tuple(result)

    def _infer(self, rule):
        return lambda types, attributes: self._all(rule(*(Type(*one) for one in types), **attributes))

    def _jvp(self, rule):
        return lambda primals, tangents, attributes: self._all(
            rule(tuple(primals), tuple(tangents), **attributes)
        )

    def _transpose(self, rule):
        def transposed(cotangents, operands, linear, attributes):
            given = tuple(Type(*one) if is_linear else one for one, is_linear in zip(operands, linear))
            found = rule(self._one(cotangents), given, **attributes)
            if isinstance(found, (tuple, list)):
                return found
            return [found if is_linear else None for is_linear in linear]

        return transposed

    def _batch(self, rule):
        return lambda operands, batched, size, attributes: self._all(
            rule(tuple(operands), tuple(batched), size, **attributes)
        )

    def _kernel(self, rule):
        return lambda operands, attributes: self._all(
            rule(*(one.numpy() for one in operands), **attributes)
        )


def _text(one):
    return f"{one.dtype.short_name}[{','.join(map(str, one.shape))}]"


def _same_type(*types, **attributes):
    for one in types:
        if one != types[0]:
            raise TypeMismatchError(f"expected operands of one type, got {' and '.join(map(_text, types))}")
    return types[0]
