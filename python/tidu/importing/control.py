"""Control flow: scan, while and cond stay what they are."""

import numpy as np

from .translator import result, results, rule


@rule("scan")
def scan(t, e, xs):
    p = e.params
    if not e.outvars:
        return []
    n, m = int(p["num_consts"]), int(p["num_carry"])
    body = t.graph_of(p["jaxpr"], None, xs[:n])
    attributes = {"length": int(p["length"]), "reverse": bool(p["reverse"]), "num_consts": n, "num_carry": m}
    return t.g.emit("scan", xs, results(e), body=body, **attributes)


@rule("while")
def while_(t, e, xs):
    p, avals = e.params, [v.aval for v in e.invars]
    if not e.outvars:
        return []
    n, consts = int(p["cond_nconsts"]), int(p["cond_nconsts"] + p["body_nconsts"])
    mapped = len(p["cond_jaxpr"].out_avals[0].shape)  # under vmap a predicate for each example
    proceeds = lambda v: t.inline(p["cond_jaxpr"], [*v[:n], *v[consts:]])[0]

    def step(*v):
        new = t.inline(p["body_jaxpr"], v[n:])
        if not mapped:
            return new
        more = proceeds(v)  # examples that have ended keep their values
        return [t.g.select(t.g.broadcast(more, y.shape, range(mapped)), x, y) for x, y in zip(v[consts:], new)]

    cond = t.graph("cond", avals, lambda *v: [t.g.reduce("reduce_or", proceeds(v), range(mapped))], xs[:consts])
    body = t.graph("body", avals, step, xs[:consts])
    return t.g.emit("while", xs, results(e), cond=cond, body=body, max_steps=-1, num_consts=consts)


@rule("cond")
def cond(t, e, xs):
    branches, index = e.params["branches"], xs[0]
    if not e.outvars:
        return []
    if index.known is not None:
        return t.inline(branches[int(np.clip(int(index.known), 0, len(branches) - 1))], xs[1:])
    if index.dtype not in ("bool", "i32"):
        index = t.g.convert(index, "i32")
    if len(branches) == 1:
        return t.inline(branches[0], xs[1:])
    return t.g.emit("cond", [index, *xs[1:]], results(e), branches=[t.graph_of(b, None, xs[1:]) for b in branches])


@rule("platform_index")
def platform_index(t, e, xs):
    choices = [k for k, names in enumerate(e.params["platforms"]) if names is None or "cpu" in names]
    return t.g.full(choices[0], result(e)[0])
