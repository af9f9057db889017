"""Calls, checkpoints, and functions with derivatives of the user's own: custom_jvp, custom_vjp, linear_call, linear
solves."""

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import ad_util
from jax.extend import core as jcore

from .calls import REFUSALS, Call, never, refused
from .dtypes import COMPLEX, INEXACT, Unsupported, dtype_of, is_inexact, shape_of, type_of
from .keys import forget, text_of
from .translator import is_traced, results, rule, variable_of


def inner_of(e):
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        if name in e.params:
            return e.params[name]
    raise Unsupported(e.primitive.name)


@rule(
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "call",
    "xla_call",
    "composite",
    "custom_vmap_call",
    "eval_jaxpr",
    "remat_opt",
)
def call(t, e, xs):
    return t.inline(inner_of(e), xs)


@rule("remat2", "remat", "checkpoint")
def checkpoint(t, e, xs):
    if not e.outvars:
        return []
    policy = "nothing" if e.params.get("policy") is None else "everything"
    return t.g.emit("checkpoint", xs, results(e), graph=t.graph_of(inner_of(e)), policy=policy)


def accepted(trace, live):
    """The operands that a rule accepts tangents of, and what it traces to for these: None if it accepts none. The last
    tracing is that of the result, since JAX keeps parts of a tracing in stores of the rule."""
    try:
        return live, trace(live)
    except REFUSALS:
        kept = accepted_parts(trace, sorted(live))
    return accepted(trace, kept) if kept and kept != live else (set(), None)


def accepted_parts(trace, refused):
    """Those of some operands, in order, that a rule accepts when it refuses them all: found by halves, since the
    operands of an argument are neighbours."""
    if len(refused) < 2:
        return set()
    kept = set()
    for half in (refused[: len(refused) // 2], refused[len(refused) // 2 :]):
        try:
            trace(set(half))
            kept.update(half)
        except REFUSALS:
            kept.update(accepted_parts(trace, half))
    return kept


def needs_no_rule(closed, xs, outs):
    """Whether no operand of a call can have a tangent, or no result."""
    is_active = any(x.dtype in INEXACT and not x.is_constant for x in xs) or any(map(is_traced, closed.consts))
    return not is_active or not any(map(is_inexact, outs))


@rule("custom_jvp_call")
def custom_jvp_call(t, e, xs):
    p, n = e.params, e.params["num_consts"]
    closed, avals, outs = p["call_jaxpr"], [v.aval for v in e.invars], [v.aval for v in e.outvars]
    active = [is_inexact(a) for a in avals]
    if needs_no_rule(closed, xs, outs):
        return t.inline(closed, xs)

    def trace(live):
        return p["jvp_jaxpr_fun"].call_wrapped(*[k not in live for k in range(n, len(avals))])

    call = Call.of("custom_jvp", e, xs)
    candidates = {k for k in range(n, len(avals)) if active[k]}
    live, traced = (None, None) if call.has_no_rule(t) else accepted(trace, candidates)
    if traced is None:
        return call.emit_without_rule(t)
    jaxpr, consts, out_zeros = traced
    captured = [c for c in consts if is_traced(c)]
    xs = [*xs, *(t.constant(c) for c in captured)]
    avals, count = avals + [c.aval for c in captured], len(avals)
    active = active + [is_inexact(c.aval) for c in captured]

    def jvp(*v):
        g, primals, around = t.g, v[:count], iter(v[count : len(avals)])
        tangents = dict(zip([k for k, a in enumerate(active) if a], v[len(avals) :]))
        known = [next(around) if is_traced(c) else t.constant(c) for c in consts]
        with t.reading({c.val: x for c, x in zip(consts, known) if is_traced(c)}):
            r = t.run(jaxpr, known, [*primals[n:], *(tangents[k] for k in sorted(live))])
        ys, given = r[: len(outs)], iter(r[len(outs) :])
        ds = [None if is_zero else next(given) for is_zero in out_zeros]
        ts = [d if d is not None else g.full(0, *type_of(a)) for d, a in zip(ds, outs) if is_inexact(a)]
        for k in range(n, len(avals)):
            if active[k] and k not in live:
                ts = [never(g, d, tangents[k]) for d in ts]
        return [*ys, *ts]

    rule_text = text_of(jcore.ClosedJaxpr(jaxpr, consts), [(c.val, k) for k, c in enumerate(captured)])
    rule_avals = avals + [a for a in avals if is_inexact(a)]
    rules = {"jvp": lambda: t.graph(call.name + "_jvp", rule_avals, jvp, xs)}
    call = call._replace(key=(*call.key, rule_text, tuple(live)), xs=xs, avals=avals)
    return call.emit(t, "custom_jvp_call", rules)


@rule("custom_vjp_call")
def custom_vjp_call(t, e, xs):
    p = e.params
    closed, avals, outs = p["call_jaxpr"], [v.aval for v in e.invars], [v.aval for v in e.outvars]
    if needs_no_rule(closed, xs, outs):
        return t.inline(closed, xs)
    call = Call.of("custom_vjp", e, xs)
    if call.has_no_rule(t):
        return call.emit_without_rule(t)
    try:
        made = VjpRule(t, e, avals, outs)
    except REFUSALS:
        return call.emit_without_rule(t)
    xs, avals = [*xs, *(t.constant(c) for c in made.captured)], [*avals, *(c.aval for c in made.captured)]
    rules = {
        "forward": lambda: t.graph(call.name + "_forward", avals, made.forward),
        "backward": lambda: t.graph(call.name + "_backward", made.backward_avals, made.backward),
    }
    return call._replace(key=(*call.key, made.text()), xs=xs, avals=avals).emit(t, "custom_vjp_call", rules)


class VjpRule:
    """forward and backward of a custom_vjp, traced. Residuals that are constants stay so: backward may look at them.
    `captured` has the traced values that the rule reads and that are no operands of the equation: forward gets them
    after the operands, and `read_by_backward` has the traced values that backward gets after the residuals."""

    def __init__(self, t, e, avals, outs):
        p = e.params
        self.t, self.n, self.avals, self.outs, self.bwd = t, p["num_consts"], avals, outs, p["bwd"]

        def trace(live):
            forget(p["fwd_jaxpr_thunk"].f)  # out_trees() is of the last tracing
            flags = [k in live for k in range(self.n, len(avals))]
            (self.jaxpr, self.consts), trees = p["fwd_jaxpr_thunk"].call_wrapped(*flags), p["out_trees"]()
            _, tree, self.forwarded = trees
            self.num_own = tree.num_leaves - sum(f is not None for f in self.forwarded)
            self._find_residuals()
            return self._trace_backward()  # which may refuse what the forward function accepts

        candidates = {k for k in range(self.n, len(avals)) if is_inexact(avals[k])}
        self.live, self.backward_jaxpr = accepted(trace, candidates)
        if self.backward_jaxpr is None:
            raise NotImplementedError
        cotangents = [a for a in outs if is_inexact(a)]
        self.read_by_backward = [c for c in self.backward_jaxpr.consts if is_traced(c)]
        self.backward_avals = [*self.residual_avals, *(c.aval for c in self.read_by_backward), *cotangents]
        read = {id(variable_of(c)): c for c in [*self.consts, *self.read_by_backward] if is_traced(c)}
        operands = {id(v) for v in e.invars}
        self.captured = [c for k, c in read.items() if k not in operands]
        self.variables = [*e.invars, *map(variable_of, self.captured)]  # which forward reads as traced values too

    def text(self):
        around = [(v, k) for k, v in enumerate(self.variables) if isinstance(v, jcore.Var)]
        forward = text_of(jcore.ClosedJaxpr(self.jaxpr, self.consts), around)
        return forward, text_of(self.backward_jaxpr, around), tuple(self.live), tuple(self.forwarded)

    def _find_residuals(self):
        """residuals: for each (is a constant, the constant or the position among those that are values)."""
        constants = {v: c for v, c in zip(self.jaxpr.constvars, self.consts) if not is_traced(c)}
        own = iter(self.jaxpr.outvars[: self.num_own])
        self.residuals, self.residual_avals = [], []
        for forwarded in self.forwarded:
            v = next(own) if forwarded is None else None
            if isinstance(v, jcore.Literal):
                is_flag = v.aval.dtype == bool and not v.aval.shape
                self.residuals.append((True, bool(v.val) if is_flag else v.val))
            elif v is not None and v in constants:
                self.residuals.append((True, constants[v]))
            else:
                self.residuals.append((False, len(self.residual_avals)))
                self.residual_avals.append(self.avals[forwarded] if v is None else v.aval)

    def forward(self, *v):
        t = self.t
        with t.reading({a: x for a, x in zip(self.variables, v) if isinstance(a, jcore.Var)}):
            r = t.run(self.jaxpr, [t.constant(c) for c in self.consts], list(v[self.n : len(self.avals)]))
            read = [t.constant(c) for c in self.read_by_backward]
        own, ys = iter(r[: self.num_own]), r[self.num_own :]
        kept = [next(own) if f is None else v[f] for f in self.forwarded]
        return [*ys, *(x for x, (is_fixed, _) in zip(kept, self.residuals) if not is_fixed), *read]

    def _trace_backward(self):
        cotangents = [a for a in self.outs if is_inexact(a)]
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.residual_avals + cotangents]
        return jax.make_jaxpr(self._backward_of_jax)(*specs)

    def _backward_of_jax(self, *v):
        """The cotangents of the operands that have one."""
        residuals = [k if is_fixed else v[k] for is_fixed, k in self.residuals]
        given = iter(v[len(self.residual_avals) :])
        cotangents = [next(given) if is_inexact(a) else np.zeros(a.shape, jax.dtypes.float0) for a in self.outs]
        for store in self.bwd.stores:
            if store:
                store.reset()
        made = list(self.bwd.call_wrapped(*residuals, *cotangents))
        made = [None] * (len(self.avals) - len(made)) + made
        zero = lambda c: c is None or isinstance(c, (ad_util.Zero, ad_util.SymbolicZero))
        return [jnp.zeros(a.shape, a.dtype) if zero(c) else c for c, a in zip(made, self.avals) if is_inexact(a)]

    def backward(self, *v):
        """The cotangents of the operands that have one, and of captured values: NaN if JAX refuses them. Those of
        complex values are conjugated: JAX pairs them without, tidu with conjugation."""
        g, n = self.t.g, len(self.residual_avals)
        m = n + len(self.read_by_backward)
        with self.t.reading(dict(zip(map(variable_of, self.read_by_backward), v[n:m]))):
            made = self.t.inline(self.backward_jaxpr, [*v[:n], *(g.conj(c) for c in v[m:])])
        cotangents = [g.conj(c) for c in made]
        for i, k in enumerate(k for k, a in enumerate(self.avals) if is_inexact(a)):
            if k not in self.live:
                cotangents[i] = refused(g, self.avals[k], v[:m], v[m:])
        captured = [c.aval for c in self.captured if is_inexact(c.aval)]
        return [*cotangents, *(refused(g, a, v[:m], v[m:]) for a in captured)]


@rule("linear_call")
def linear_call(t, e, xs):
    p = e.params
    n = p["num_callee_consts"] + p["num_res"]
    transpose, consts = p["transpose_thunk"]()
    avals, outs = [v.aval for v in e.invars], [v.aval for v in e.outvars]

    def transposed(*v):
        g = t.g
        made = t.inline(
            transpose, [*(g.constant(c) for c in consts), *v[p["num_callee_consts"] : n], *map(g.conj, v[n:])]
        )
        return [g.conj(c) for c in made]

    graphs = {"graph": t.graph_of(p["callee"]), "transpose": t.graph("transpose", avals[:n] + outs, transposed)}
    return t.g.emit("linear_call", xs, results(e), num_residuals=n, **graphs)


def is_zero(x):
    while x.known is None and x.producer and x.producer[0] == "broadcast_in_dim":
        (x,) = x.producer[1]
    return x.known is not None and not x.known.any()


@rule("custom_linear_solve")
def custom_linear_solve(t, e, xs):
    """JAX's, with the constants of all four functions together. JAX transposes without conjugation, tidu with."""
    lengths, jaxprs, avals = e.params["const_lengths"], e.params["jaxprs"], [v.aval for v in e.invars]
    at = [int(k) for k in np.cumsum([0, lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve])]
    n = at[4]
    consts = lambda v, k: list(v[at[k] : at[k + 1]])
    count = len(avals) - n

    def transpose_solve(*v):
        g = t.g
        made = t.inline(jaxprs.transpose_solve, consts(v, 3) + [g.conj(c) for c in v[n:]])
        return [g.conj(c) for c in made[:count]]

    graphs = {
        "matvec": t.graph("matvec", avals, lambda *v: t.inline(jaxprs.matvec, consts(v, 0) + list(v[n:]))),
        "solve": t.graph("solve", avals, lambda *v: t.inline(jaxprs.solve, consts(v, 2) + list(v[n:]))[:count]),
    }
    if jaxprs.transpose_solve is not None:
        graphs["transpose_solve"] = [t.graph("transpose_solve", avals, transpose_solve)]
    types = [(dtype_of(a.dtype), shape_of(a)) for a in avals[n:]]
    # JAX then takes matvec for its transpose, in derivatives by a matrix too whose tangent is not symmetric.
    symmetric = jaxprs.vecmat is jaxprs.matvec and not any(dtype in COMPLEX for dtype, _ in types)
    if all(map(is_zero, xs[n:])):  # a zero tangent of a rule must be seen to be zero
        ys = [t.g.full(0, *type) for type in types]
    else:
        ys = t.g.emit("custom_linear_solve", xs, types, num_consts=n, symmetric=symmetric, **graphs)
    if len(e.outvars) == count:
        return ys
    stopped = [t.g.unary("stop_gradient", x) if is_inexact(a) else x for x, a in zip(xs, avals)]
    return ys + t.inline(jaxprs.solve, consts(stopped, 2) + stopped[n:])[count:]  # what solve says beside the solution
