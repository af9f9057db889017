"""Calls of functions that have rules. Their graphs have names: a rule may call its own function, and equal calls share
their graphs."""

import collections
import math

from .dtypes import COMPLEX, INEXACT, PART_OF, is_inexact, type_of
from .keys import text_of
from .translator import results

REFUSALS = (Exception,)  # of a function of a user or a library, when it is traced
MAX_ORDER = 8  # of derivatives, for rules that call a function with another rule each time
MAX_ORDER_IF_GROWING, MAX_OPERATIONS = 2, 300  # of such rules, if each order has over twice the operations of the last


class Call(collections.namedtuple("Call", "name key closed xs avals types")):
    """A call of a closed jaxpr on the first of some operands. Calls with equal keys have equal rules; the first part of
    a key is of the function without its rules."""

    @classmethod
    def of(cls, kind, e, xs):
        """The call of an equation, without its rules."""
        closed = e.params["call_jaxpr"]
        key = ((kind, text_of(closed)),)
        return cls(closed.jaxpr.debug_info.func_name, key, closed, xs, [v.aval for v in e.invars], results(e))

    def has_no_rule(self, t):
        """Whether the orders of derivatives end before this call's rules, which is known before these are traced."""
        return is_last_order(t) and self.key[0] not in t.called

    def emit(self, t, op, rules):
        """The results, with rules by kind: functions that make their graphs."""
        if is_last_order(t) and not all(self.key_of(kind) in t.names for kind in rules):
            return self.emit_without_rule(t)
        t.called.add(self.key[0])
        names = {kind: t.named_graph(self.key_of(kind), f"{self.name}_{kind}", make) for kind, make in rules.items()}
        return t.g.emit(op, self.xs, self.types, graph=self.primal(t), **names)

    def emit_without_rule(self, t):
        """The results, with derivatives that are NaN."""
        count = len(self.avals)
        avals = [*self.avals, *(a for a in self.avals if is_inexact(a))]

        def call(xs):
            make = lambda: t.graph(self.name + "_never", avals, jvp, self.xs)
            rule = t.named_graph(self.key_of("never"), self.name + "_never", make)
            return t.g.emit("custom_jvp_call", xs, self.types, graph=self.primal(t), jvp=rule)

        def jvp(*v):
            ys = call(v[:count])
            ts = [t.g.full(0, y.dtype, y.shape) for y in ys if y.dtype in INEXACT]
            for tangent in v[count:]:
                ts = [never(t.g, d, tangent) for d in ts]
            return [*ys, *ts]

        return call(self.xs)

    def primal(self, t):
        body = lambda *v: t.inline(self.closed, v[: len(self.closed.in_avals)])
        make = lambda: t.graph(self.name, self.avals, body, self.xs)
        return t.named_graph(self.key_of("graph"), self.name, make, is_rule=False)

    def key_of(self, kind):
        known = tuple(None if x.known is None else (x.known.tobytes(), str(x.known.dtype), x.shape) for x in self.xs)
        return self.key, kind, known


def is_last_order(t):
    """Whether rules that are being made refer to no new ones: each order of derivatives may have rules twice as large
    and as many as the last, such as those of an ODE by its adjoint, which is the ODE of a larger system."""
    if t.order < MAX_ORDER_IF_GROWING:
        return False
    before, last = t.operations[t.order - 2], t.operations[t.order - 1]
    return t.order >= MAX_ORDER or last > max(MAX_OPERATIONS, 2 * before)


def never(g, derivative, tangent):
    """NaN if a tangent is there that the rule does not accept: never a silent zero."""
    if tangent.dtype in COMPLEX:
        tangent = g.unary("real", tangent, PART_OF[tangent.dtype])
    total = g.convert(g.reduce("reduce_sum", tangent, range(tangent.rank)), derivative.dtype)
    return g.add(derivative, g.broadcast(g.mul(total, g.full(math.nan, derivative.dtype)), derivative.shape, []))


def refused(g, aval, residuals, cotangents):
    """A cotangent that is NaN: linear in the rule's cotangents, and with derivatives by its residuals that are NaN."""
    dtype, shape = type_of(aval)
    result = g.full(0, dtype, shape)
    for cotangent in cotangents:
        result = never(g, result, cotangent)
    for residual in residuals:
        if residual.dtype in INEXACT:
            result = g.mul(result, never(g, g.full(1, dtype, shape), residual))
    return result
