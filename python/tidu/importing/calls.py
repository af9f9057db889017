"""Calls of functions that have rules. Their graphs have names: a rule may call its own function, and equal calls share
their graphs."""

import collections
import math

from .dtypes import COMPLEX, INEXACT, PART_OF, is_inexact

REFUSALS = (Exception,)  # of a function of a user or a library, when it is traced
MAX_ORDER = 8  # of derivatives, for rules that call a function with another rule each time


class Call(collections.namedtuple("Call", "name key closed xs avals types")):
    """A call of a closed jaxpr on the first of some operands. Calls with equal keys have equal rules."""

    def emit(self, t, op, rules):
        """The results, with rules by kind: functions that make their graphs."""
        if t.order >= MAX_ORDER and not all(self.key_of(kind) in t.names for kind in rules):
            return self.emit_without_rule(t)
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


def never(g, derivative, tangent):
    """NaN if a tangent is there that the rule does not accept: never a silent zero."""
    if tangent.dtype in COMPLEX:
        tangent = g.unary("real", tangent, PART_OF[tangent.dtype])
    total = g.convert(g.reduce("reduce_sum", tangent, range(tangent.rank)), derivative.dtype)
    return g.add(derivative, g.broadcast(g.mul(total, g.full(math.nan, derivative.dtype)), derivative.shape, []))
