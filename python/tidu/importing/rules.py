"""Calls, checkpoints, and functions with derivatives of the user's own: custom_jvp, custom_vjp, linear_call, linear
solves."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import ad_util, core
from jax.extend import core as jcore

from .dtypes import COMPLEX, PART_OF, Unsupported, dtype_of, is_inexact, shape_of, type_of
from .keys import text_of
from .special import REFUSALS
from .translator import results, rule

MAX_DEPTH = 3  # rules inside of rules of one line, where no two are equal


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


def known_of(xs):
    return tuple(None if x.known is None else (x.known.tobytes(), str(x.known.dtype), x.shape) for x in xs)


def never(g, derivative, tangent):
    """NaN if a tangent is there that the rule does not accept: never a silent zero."""
    if tangent.dtype in COMPLEX:
        tangent = g.unary("real", tangent, PART_OF[tangent.dtype])
    total = g.convert(g.reduce("reduce_sum", tangent, range(tangent.rank)), derivative.dtype)
    return g.add(derivative, g.broadcast(g.mul(total, g.full(math.nan, derivative.dtype)), derivative.shape, []))


def accepted(trace, live):
    """The operands that a rule accepts tangents of, and what it traces to for these."""
    try:
        return live, trace(live)
    except REFUSALS:
        pass
    kept = set()
    for k in sorted(live):
        try:
            trace({k})
            kept.add(k)
        except REFUSALS:
            pass
    return kept, trace(kept)


@rule("custom_jvp_call")
def custom_jvp_call(t, e, xs):
    p, n = e.params, e.params["num_consts"]
    closed, avals, outs = p["call_jaxpr"], [v.aval for v in e.invars], [v.aval for v in e.outvars]
    active = [is_inexact(a) for a in avals]
    line = closed.jaxpr.debug_info.func_src_info
    if not any(active) or not any(map(is_inexact, outs)) or t.depth[line] >= MAX_DEPTH:
        return t.inline(closed, xs)

    def trace(live):
        if not live:
            return None, (), [True] * len(outs)
        return p["jvp_jaxpr_fun"].call_wrapped(*[k not in live for k in range(n, len(avals))])

    live, (jaxpr, consts, out_zeros) = accepted(trace, {k for k in range(n, len(avals)) if active[k]})
    captured = [c for c in consts if isinstance(c, core.Tracer)]
    xs = [*xs, *(t.constant(c) for c in captured)]
    avals, count = avals + [c.aval for c in captured], len(avals)
    active = active + [is_inexact(c.aval) for c in captured]

    def jvp(*v):
        g, primals, around = t.g, v[:count], iter(v[count : len(avals)])
        tangents = dict(zip([k for k, a in enumerate(active) if a], v[len(avals) :]))
        if live:
            known = [next(around) if isinstance(c, core.Tracer) else g.constant(c) for c in consts]
            with t.reading({c.val: x for c, x in zip(consts, known) if isinstance(c, core.Tracer)}):
                r = t.run(jaxpr, known, [*primals[n:], *(tangents[k] for k in sorted(live))])
        else:
            r = t.inline(closed, primals)
        ys, given = r[: len(outs)], iter(r[len(outs) :])
        made = [None if is_zero else next(given) for is_zero in out_zeros]
        ts = [d if d is not None else g.full(0, *type_of(a)) for d, a in zip(made, outs) if is_inexact(a)]
        for k in range(n, len(avals)):
            if active[k] and k not in live:
                ts = [never(g, d, tangents[k]) for d in ts]
        return [*ys, *ts]

    name = closed.jaxpr.debug_info.func_name
    rule_text = text_of(jcore.ClosedJaxpr(jaxpr, consts)) if live else None
    key = ("custom_jvp", name, text_of(closed), rule_text, tuple(live), known_of(xs))
    rule_avals = avals + [a for a in avals if is_inexact(a)]
    return named_call(t, key, line, xs, results(e), {
        "graph": (name, lambda: t.graph(name, avals, lambda *v: t.inline(closed, v[:count]), xs)),
        "jvp": (name + "_jvp", lambda: t.graph(name + "_jvp", rule_avals, jvp, xs)),
    }, "custom_jvp_call")  # fmt: skip


def named_call(t, key, line, xs, types, graphs, op):
    """A call whose graphs have names, so that rules may refer to themselves."""
    t.depth[line] += 1
    attributes = {kind: t.named_graph((key, kind), name, make) for kind, (name, make) in graphs.items()}
    t.depth[line] -= 1
    return t.g.emit(op, xs, types, **attributes)


@rule("custom_vjp_call")
def custom_vjp_call(t, e, xs):
    p = e.params
    closed, avals, outs = p["call_jaxpr"], [v.aval for v in e.invars], [v.aval for v in e.outvars]
    line = closed.jaxpr.debug_info.func_src_info
    if not any(map(is_inexact, avals)) or not any(map(is_inexact, outs)) or t.depth[line] >= MAX_DEPTH:
        return t.inline(closed, xs)
    made = VjpRule(t, e, avals, outs)
    name = closed.jaxpr.debug_info.func_name
    key = ("custom_vjp", name, text_of(closed), made.text(), known_of(xs))
    return named_call(t, key, line, xs, results(e), {
        "graph": (name, lambda: t.graph_of(closed, None, xs)),
        "forward": (name + "_fwd", lambda: t.graph(name + "_fwd", avals, made.forward)),
        "backward": (name + "_bwd", lambda: t.graph(name + "_bwd", made.backward_specs, made.backward)),
    }, "custom_vjp_call")  # fmt: skip


class VjpRule:
    """forward and backward of a custom_vjp, traced. Residuals that are constants stay so: backward may look at them."""

    def __init__(self, t, e, avals, outs):
        p = e.params
        self.variables = e.invars  # which forward reads as traced values too
        self.t, self.n, self.avals, self.outs, self.bwd = t, p["num_consts"], avals, outs, p["bwd"]
        thunk = p["fwd_jaxpr_thunk"]
        # JAX keeps what it traced, but out_trees() is that of the last tracing.
        _, seen = t.forward_rules.setdefault(id(thunk), (thunk, {}))

        def trace(live):
            if frozenset(live) not in seen:
                flags = [k in live for k in range(self.n, len(avals))]
                seen[frozenset(live)] = thunk.call_wrapped(*flags), p["out_trees"]()
            return seen[frozenset(live)]

        candidates = {k for k in range(self.n, len(avals)) if is_inexact(avals[k])}
        self.live, traced = accepted(trace, candidates)
        (self.jaxpr, self.consts), (_, tree, self.forwarded) = traced
        self.num_own = tree.num_leaves - sum(f is not None for f in self.forwarded)
        self._find_residuals()
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.residual_avals]
        self.backward_specs = specs + [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in outs if is_inexact(a)]
        self.backward_jaxpr = jax.make_jaxpr(self._backward_of_jax)(*self.backward_specs)

    def text(self):
        forward = text_of(jcore.ClosedJaxpr(self.jaxpr, self.consts))
        return forward, text_of(self.backward_jaxpr), tuple(self.live), tuple(self.forwarded)

    def _find_residuals(self):
        """residuals: for each (is a constant, the constant or the position among those that are values)."""
        constants = dict(zip(self.jaxpr.constvars, self.consts))
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
        with self.t.reading({a: x for a, x in zip(self.variables, v) if isinstance(a, jcore.Var)}):
            r = self.t.run(self.jaxpr, [self.t.constant(c) for c in self.consts], list(v[self.n :]))
        own, ys = iter(r[: self.num_own]), r[self.num_own :]
        kept = [next(own) if f is None else v[f] for f in self.forwarded]
        return [*ys, *(x for x, (is_fixed, _) in zip(kept, self.residuals) if not is_fixed)]

    def _backward_of_jax(self, *v):
        residuals = [k if is_fixed else v[k] for is_fixed, k in self.residuals]
        given = iter(v[len(self.residual_avals) :])
        cotangents = [next(given) if is_inexact(a) else np.zeros(a.shape, jax.dtypes.float0) for a in self.outs]
        for store in self.bwd.stores:
            if store:
                store.reset()
        made = list(self.bwd.call_wrapped(*residuals, *cotangents))
        made = [None] * (len(self.avals) - len(made)) + made
        zero = lambda c: c is None or isinstance(c, (ad_util.Zero, ad_util.SymbolicZero))
        result = []
        for k, (c, a) in enumerate(zip(made, self.avals)):
            if not is_inexact(a):
                continue
            if k >= self.n and k not in self.live:
                c = jnp.full(a.shape, math.nan, a.dtype)
            result.append(jnp.zeros(a.shape, a.dtype) if zero(c) else c)
        return result

    def backward(self, *v):
        """Cotangents of complex values are conjugated: JAX pairs them without, tidu with conjugation."""
        g, n = self.t.g, len(self.residual_avals)
        made = self.t.inline(self.backward_jaxpr, [*v[:n], *(g.conj(c) for c in v[n:])])
        return [g.conj(c) for c in made]


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
    ys = t.g.emit("custom_linear_solve", xs, types, num_consts=n, symmetric=symmetric, **graphs)
    if len(e.outvars) == count:
        return ys
    stopped = [t.g.unary("stop_gradient", x) if is_inexact(a) else x for x, a in zip(xs, avals)]
    return ys + t.inline(jaxprs.solve, consts(stopped, 2) + stopped[n:])[count:]  # what solve says beside the solution
