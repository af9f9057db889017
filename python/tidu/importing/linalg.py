"""Linear algebra: factorizations that tidu has, and those by Householder reflections and loops that it does not
have."""

import jax
import jax.numpy as jnp
from jax import lax

from .dtypes import PART_OF, Unsupported
from .translator import aval, result, results, rule


@rule("cholesky")
def cholesky(t, e, xs):
    return t.g.unary("cholesky", xs[0])


@rule("lu")
def lu(t, e, xs):
    return t.g.emit("lu", xs, results(e))


@rule("triangular_solve")
def triangular_solve(t, e, xs):
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    return t.g.one("triangular_solve", xs, *result(e), **{k: bool(e.params[k]) for k in names})


@rule("qr")
def qr(t, e, xs):
    m, n = xs[0].shape[-2:]
    if e.params.get("pivoting"):
        raise Unsupported("qr", "with pivoting")
    if e.params["full_matrices"] and m > n:
        return t.trace(full_qr, xs, [aval(e)])
    return t.g.emit("qr", xs, results(e), full_matrices=False)


@rule("eigh")
def eigh(t, e, xs):
    if e.params.get("subset_by_index") not in (None, (0, xs[0].shape[-1])):
        raise Unsupported("eigh", "of a part of the spectrum")
    return t.g.emit("eigh", xs, results(e))


@rule("svd")
def svd(t, e, xs):
    g, p, (x,) = t.g, e.params, xs
    m, n, lead = *x.shape[-2:], x.shape[:-2]
    k = min(m, n)
    if p.get("subset_by_index") not in (None, (0, k)):
        raise Unsupported("svd", "of a part of the singular values")
    s = (PART_OF.get(x.dtype, x.dtype), lead + (k,))
    types = [(x.dtype, lead + (m, k)), s, (x.dtype, lead + (k, n))]
    u, s, vt = g.emit("svd", xs, types, full_matrices=False)
    if not p["compute_uv"]:
        return [s]
    if p["full_matrices"] and m != n:
        square = lambda v: t.trace(completed, [v], [jax.ShapeDtypeStruct(v.shape, aval(e).dtype)])[0]
        last = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        u, vt = (square(u), vt) if m > n else (u, g.transpose(square(g.transpose(vt, last)), last))
    return [s, u, vt]


# Householder reflections as LAPACK has them: I - tau v v^H, with v[j] = 1 and the rest of v below the diagonal.


def over_batch(f):
    """f of matrices, over leading axes."""

    def call(*xs):
        g = f
        for _ in range(xs[0].ndim - 2):
            g = jax.vmap(g)
        return g(*xs)

    return call


@over_batch
def geqrf(a):
    m, n = a.shape
    rows, columns = jnp.arange(m), jnp.arange(n)

    def step(j, state):
        a, taus = state
        column = a[:, j]
        alpha, below = column[j], jnp.where(rows > j, column, 0)
        tail = jnp.sum(jnp.abs(below) ** 2)
        is_zero = (tail == 0) & (jnp.imag(alpha) == 0)
        length = jnp.sqrt(jnp.where(is_zero, 1, jnp.abs(alpha) ** 2 + tail))
        beta = jnp.where(jnp.real(alpha) < 0, length, -length).astype(a.dtype)
        tau = jnp.where(is_zero, 0, (beta - alpha) / beta)
        v = jnp.where(rows == j, 1, jnp.where(is_zero, 0, below / jnp.where(is_zero, 1, alpha - beta)))
        right = jnp.where(columns > j, a, 0)
        a = a - jnp.conj(tau) * jnp.outer(v, jnp.conj(v) @ right)
        new = jnp.where(rows == j, jnp.where(is_zero, alpha, beta), jnp.where(rows > j, v, column))
        return a.at[:, j].set(new), taus.at[j].set(tau)

    return lax.fori_loop(0, min(m, n), step, (a, jnp.zeros(min(m, n), a.dtype)))


def reflected(a, taus, c, conjugate, forward):
    """c after the reflections, one after another from the first or from the last."""
    rows, k = jnp.arange(a.shape[0]), taus.shape[0]

    def step(i, c):
        j = i if forward else k - 1 - i
        v = jnp.where(rows == j, 1, jnp.where(rows > j, a[:, j], 0))
        tau = jnp.conj(taus[j]) if conjugate else taus[j]
        return c - tau * jnp.outer(v, jnp.conj(v) @ c)

    return lax.fori_loop(0, k, step, c)


@over_batch
def householder_product(a, taus):
    return reflected(a, taus, jnp.eye(*a.shape, dtype=a.dtype), False, False)


def full_qr(a):
    m, n = a.shape[-2:]
    packed, taus = geqrf(a)
    wide = jnp.concatenate([packed, jnp.zeros((*a.shape[:-2], m, m - n), a.dtype)], -1)
    return householder_product(wide, taus), jnp.triu(jnp.concatenate([packed[..., :n, :], 0 * packed[..., n:, :]], -2))


def completed(u):
    """A unitary matrix whose first columns are those of u, which are orthonormal."""
    return jnp.concatenate([u, full_qr(u)[0][..., :, u.shape[-1] :]], -1)


@rule("geqrf")
def geqrf_rule(t, e, xs):
    return t.trace(geqrf, xs, [aval(e)])


@rule("householder_product")
def householder_product_rule(t, e, xs):
    return t.trace(householder_product, xs, [v.aval for v in e.invars])


@rule("ormqr")
def ormqr(t, e, xs):
    left, transposed = bool(e.params["left"]), bool(e.params["transpose"])

    @over_batch
    def product(a, taus, c):  # c Q = (Q^H c^H)^H
        if left:
            return reflected(a, taus, c, transposed, transposed)
        return jnp.conj(reflected(a, taus, jnp.conj(c.T), not transposed, not transposed).T)

    return t.trace(product, xs, [v.aval for v in e.invars])


@rule("tridiagonal_solve")
def tridiagonal_solve(t, e, xs):
    return t.trace(thomas, xs, [v.aval for v in e.invars])


def thomas(lower, diagonal, upper, b):
    """Elimination along the last axis of the diagonals, without pivots."""
    front = lambda v: jnp.moveaxis(v, -1, 0)
    zero = jnp.zeros_like(diagonal[..., 0])

    def eliminate(state, row):
        c, r = state
        a, d, u, x = row
        w = d - a * c
        state = u / w, (x - a[..., None] * r) / w[..., None]
        return state, state

    rows = front(lower), front(diagonal), front(upper), jnp.moveaxis(b, -2, 0)
    _, eliminated = lax.scan(eliminate, (zero, jnp.zeros_like(b[..., 0, :])), rows)

    def substitute(x, row):
        c, r = row
        x = r - c[..., None] * x
        return x, x

    _, x = lax.scan(substitute, jnp.zeros_like(b[..., 0, :]), eliminated, reverse=True)
    return jnp.moveaxis(x, 0, -2)


@rule("symmetric_product")
def symmetric_product(t, e, xs):
    alpha, beta = e.params["alpha"], e.params["beta"]
    return t.trace(lambda a, c: alpha * (a @ jnp.swapaxes(a, -1, -2)) + beta * c, xs, [v.aval for v in e.invars])


@rule("cholesky_update")
def cholesky_update(t, e, xs):
    def update(r, w):
        return jnp.conj(jnp.linalg.cholesky(jnp.conj(r.T) @ r + jnp.outer(jnp.conj(w), w)).T)

    return t.trace(update, xs, [v.aval for v in e.invars])
