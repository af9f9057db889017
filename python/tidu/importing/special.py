"""Primitives that JAX, or a library, computes by functions of jax.numpy: traced, with the JVP rule that JAX has for
them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import ad_util, core
from jax._src.interpreters import ad
from jax._src.lax import linalg as lax_linalg
from jax._src.lax import special as lax_special
from jax._src.random import core as random_core

from .calls import REFUSALS, Call
from .dtypes import is_inexact, shape_of, type_of
from .keys import fingerprint, text_of
from .translator import RULES, out_aval, rule


def leaves_of(v):
    return list(v) if isinstance(v, (list, tuple)) else [v]


def with_rule_of_jax(t, e, xs, f):
    """f, which computes a primitive by functions of JAX, as a call whose derivative is JAX's rule for the primitive."""
    avals, outs, name = [v.aval for v in e.invars], [v.aval for v in e.outvars], e.primitive.name
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
    types = [type_of(a) for a in outs]
    active = [is_inexact(a) for a in avals]
    differentiable = any(active) and any(map(is_inexact, outs)) and e.primitive in ad.primitive_jvps
    if not differentiable:
        return t.trace(f, xs, avals)
    traced = jax.make_jaxpr(lambda *v: leaves_of(f(*v)))(*specs)
    key = name, fingerprint(e.params), text_of(traced)
    rule_graph = lambda: t.graph_of(traced_rule(e, specs, active, avals, outs), name + "_jvp")
    return Call(name, key, traced, xs, avals, types).emit(t, "custom_jvp_call", {"jvp": rule_graph})


def traced_rule(e, specs, active, avals, outs):
    """The jaxpr from primals and tangents of inexact operands to results and their tangents."""
    places = [k for k, a in enumerate(active) if a]

    def jvp(*v, without=()):
        primals, given = list(v[: len(avals)]), list(v[len(avals) :])
        zero = lambda p: ad_util.Zero(core.typeof(p).to_tangent_aval())
        tangents = [given.pop(0) if a else zero(p) for a, p in zip(active, primals)]
        missing = [tangents[k] for k in without]
        for k in without:
            tangents[k] = zero(primals[k])
        y, dy = ad.primitive_jvps[e.primitive](tuple(primals), tuple(tangents), **e.params)
        dy = [ad.instantiate_zeros(d) for d, a in zip(leaves_of(dy), outs) if is_inexact(a)]
        for m in missing:  # an operand that the rule refuses: a tangent of it makes NaN, not a silent zero
            dy = [d + jnp.sum(m).real.astype(d.dtype) * math.nan for d in dy]
        return [*leaves_of(y), *dy]

    all_specs = [*specs, *(s for s, a in zip(specs, active) if a)]
    trace = lambda without: jax.make_jaxpr(lambda *v: jvp(*v, without=without))(*all_specs)
    try:
        return trace(())
    except REFUSALS:
        return trace([k for k in places if refuses(trace, [j for j in places if j != k])])


def refuses(trace, without):
    try:
        trace(without)
        return False
    except REFUSALS:
        return True


def same_shape(f):
    def call(*xs):
        xs = jnp.broadcast_arrays(*xs) if len({x.shape for x in xs}) > 1 else xs
        return f(*xs, dtype=xs[0].dtype)

    return call


def bessel_i1e(x):
    """The derivative of the series of i0e, which is i1e - sign(x) i0e."""
    y, dy = jax.jvp(lax_special.bessel_i0e_impl, (x,), (jnp.ones_like(x),))
    return dy + jnp.sign(x) * y


def random_gamma(e):
    log_space = e.params["log_space"]
    return lambda key, a: random_core._gamma_impl(key, a, log_space=log_space, use_vmap=True)


def lu_pivots(e):
    size = e.params["permutation_size"]
    return lambda p: lax_linalg._generic_lu_pivots_to_permutation(p, size)


def hurwitz_zeta(s, q):
    """sum_k (k + q)^-s by Euler and Maclaurin, for s > 1 and q > 0."""
    terms = 10
    numerators = [1, -1, 1, -1, 5, -691, 7, -3617, 43867]
    denominators = [6, 30, 42, 30, 66, 2730, 6, 510, 798]
    s, q = jnp.broadcast_arrays(s, q)
    total = sum((q + k) ** -s for k in range(terms))
    a = q + terms
    total = total + a ** (1 - s) / (s - 1) + 0.5 * a**-s
    factor, power = s, a ** (-s - 1)
    for k, (n, d) in enumerate(zip(numerators, denominators)):
        total = total + n / d / math.factorial(2 * k + 2) * factor * power
        factor = factor * (s + 2 * k + 1) * (s + 2 * k + 2)
        power = power / (a * a)
    return total


COMPOSED = {
    "igamma": lambda e: same_shape(lax_special.igamma_impl),
    "igammac": lambda e: same_shape(lax_special.igammac_impl),
    "igamma_grad_a": lambda e: same_shape(lax_special.igamma_grad_a_impl),
    "random_gamma_grad": lambda e: same_shape(lax_special.random_gamma_grad_impl),
    "regularized_incomplete_beta": lambda e: same_shape(lax_special.regularized_incomplete_beta_impl),
    "bessel_i0e": lambda e: lax_special.bessel_i0e_impl,
    "bessel_i1e": lambda e: bessel_i1e,
    "random_gamma": random_gamma,
    "lu_pivots_to_permutation": lu_pivots,
}
for _name, _make in COMPOSED.items():
    RULES[_name] = lambda t, e, xs, make=_make: with_rule_of_jax(t, e, xs, make(e))


def whole_order(value, least):
    order = value.known
    if order is None or not np.all(order == order.reshape(-1)[0]):
        return None
    first = float(order.reshape(-1)[0])
    return int(first) if first == int(first) and first >= least else None


@rule("polygamma")
def polygamma(t, e, xs):
    m = whole_order(xs[0], 0)
    if m is None:  # (-1)^(m + 1) m! zeta(m + 1, x)
        f = lambda n, x: (1 - 2 * ((n + 1) % 2)) * jnp.exp(lax.lgamma(n + 1)) * lax.zeta(n + 1, x)
        return with_rule_of_jax(t, e, xs, f)
    x = t.g.fit(xs[1], shape_of(out_aval(e)))
    return t.g.unary("digamma", x) if m == 0 else t.g.unary("polygamma", x, m=m)


@rule("zeta")
def zeta(t, e, xs):
    n = whole_order(xs[0], 2)
    if n is None:
        return with_rule_of_jax(t, e, xs, hurwitz_zeta)
    q = t.g.fit(xs[1], shape_of(out_aval(e)))
    return t.g.mul(t.g.unary("polygamma", q, m=n - 1), t.g.like((-1) ** n / math.factorial(n - 1), q))
