"""Functions with derivatives of the user's own."""

import functools

from . import _core


class custom_jvp:
    """f with a JVP of the user's own: @f.defjvp gives rule(primals, tangents) -> (result, tangent of the result).

    The rule is linear in the tangents; of an integer Array the tangent is None.
    """

    def __init__(self, f):
        self._f = f
        self._custom = None
        functools.update_wrapper(self, f)

    def defjvp(self, rule):
        self._custom = _core._Custom(self._f, rule, None)
        return rule

    def __call__(self, *args):
        custom = self._custom or _core._Custom(self._f, None, None)
        return custom.call_jvp(*args)


class custom_vjp:
    """f with a VJP of the user's own: f.defvjp(forward, backward).

    forward(*args) returns (result, residuals), and backward(residuals, cotangent) a tuple of the arguments' cotangents,
    None for one that is zero.
    """

    def __init__(self, f):
        self._f = f
        self._custom = None
        functools.update_wrapper(self, f)

    def defvjp(self, forward, backward):
        self._custom = _core._Custom(self._f, forward, backward)

    def __call__(self, *args):
        custom = self._custom or _core._Custom(self._f, None, None)
        return custom.call_vjp(*args)
