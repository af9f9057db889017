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
        return t.trace(lambda a: pivoted_qr(a, bool(e.params["full_matrices"])), xs, [aval(e)])
    if e.params["full_matrices"] and m > n:
        return t.trace(full_qr, xs, [aval(e)])
    return t.g.emit("qr", xs, results(e), full_matrices=False)


def pivoted_qr(a, full_matrices):
    b, order = permuted(a)
    return *lax.linalg.qr(b, full_matrices=full_matrices), order


@rule("eigh")
def eigh(t, e, xs):
    (x,), part = xs, e.params.get("subset_by_index")
    if part is None:
        return t.g.emit("eigh", xs, results(e))
    types = [(x.dtype, x.shape), (PART_OF.get(x.dtype, x.dtype), x.shape[:-1])]
    return [t.g.part(y, y.rank - 1, *part) for y in t.g.emit("eigh", xs, types)]


@rule("svd")
def svd(t, e, xs):
    g, p, (x,) = t.g, e.params, xs
    m, n, lead = *x.shape[-2:], x.shape[:-2]
    k = min(m, n)
    start, end = p.get("subset_by_index") or (0, k)
    s = (PART_OF.get(x.dtype, x.dtype), lead + (k,))
    types = [(x.dtype, lead + (m, k)), s, (x.dtype, lead + (k, n))]
    u, s, vt = g.emit("svd", xs, types, full_matrices=False)
    if (start, end) != (0, k):
        u, s, vt = (
            g.part(u, x.rank - 1, start, end),
            g.part(s, x.rank - 2, start, end),
            g.part(vt, x.rank - 2, start, end),
        )
    if not p["compute_uv"]:
        return [s]
    if p["full_matrices"] and m != n and (start, end) == (0, k):
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


def reflector(column, j):
    """(v, tau, the new column[j]) of the Householder reflection that sets a column below j to zero."""
    rows = jnp.arange(column.shape[0])
    alpha, below = column[j], jnp.where(rows > j, column, 0)
    tail = jnp.sum(jnp.abs(below) ** 2)
    is_zero = (tail == 0) & (jnp.imag(alpha) == 0)
    length = jnp.sqrt(jnp.where(is_zero, 1, jnp.abs(alpha) ** 2 + tail))
    beta = jnp.where(jnp.real(alpha) < 0, length, -length).astype(column.dtype)
    tau = jnp.where(is_zero, 0, (beta - alpha) / beta)
    v = jnp.where(rows == j, 1, jnp.where(is_zero, 0, below / jnp.where(is_zero, 1, alpha - beta)))
    return v, tau, jnp.where(is_zero, alpha, beta)


def with_packed_column(a, k, j, v, value):
    """a with column k as LAPACK stores it: the value at row j, and v below."""
    rows = jnp.arange(a.shape[0])
    return a.at[:, k].set(jnp.where(rows == j, value, jnp.where(rows > j, v, a[:, k])))


def geqrf_step(j, state):
    """Step j of geqrf."""
    a, taus = state
    v, tau, value = reflector(a[:, j], j)
    right = jnp.where(jnp.arange(a.shape[1]) > j, a, 0)
    reflected = a - jnp.conj(tau) * jnp.outer(v, jnp.conj(v) @ right)
    return with_packed_column(reflected, j, j, v, value), taus.at[j].set(tau)


@over_batch
def geqrf(a):
    steps = min(a.shape)
    return lax.fori_loop(0, steps, geqrf_step, (a, jnp.zeros(steps, a.dtype)))


@over_batch
def pivots(a):
    """The order of the columns: in each step first the column with the greatest norm in the remaining rows."""
    rows, columns, steps = jnp.arange(a.shape[0]), jnp.arange(a.shape[1], dtype=jnp.int32), min(a.shape)

    def step(j, state):
        a, taus, order = state
        norms = jnp.sum(jnp.abs(jnp.where(rows[:, None] >= j, a, 0)) ** 2, 0)
        k = jnp.argmax(jnp.where(columns >= j, norms, -1)).astype(jnp.int32)
        exchanged = columns.at[j].set(k).at[k].set(j.astype(jnp.int32))
        return *geqrf_step(j, (a[:, exchanged], taus)), order[exchanged]

    return lax.fori_loop(0, steps, step, (lax.stop_gradient(a), jnp.zeros(steps, a.dtype), columns))[2]


def permuted(a):
    order = pivots(a)
    return jnp.take_along_axis(a, order[..., None, :], -1), order


@rule("geqp3")
def geqp3(t, e, xs):
    def factor(a, chosen):
        b, order = permuted(a)
        packed, taus = geqrf(b)
        return packed, (order + 1).astype(chosen.dtype), taus

    if xs[1].known is None or xs[1].known.any():
        raise Unsupported("geqp3", "with columns that come first")
    return t.trace(factor, xs, [v.aval for v in e.invars])


@rule("hessenberg")
def hessenberg(t, e, xs):
    return t.trace(gehrd, xs, [aval(e)])


@over_batch
def gehrd(a):
    """Zeros below the first subdiagonal by reflections from both sides."""

    def step(k, state):
        a, taus = state
        v, tau, value = reflector(a[:, k], k + 1)
        right = jnp.where(jnp.arange(a.shape[0]) > k, a, 0)
        right = right - tau * jnp.outer(right @ v, jnp.conj(v))
        right = right - jnp.conj(tau) * jnp.outer(v, jnp.conj(v) @ right)
        a = jnp.where(jnp.arange(a.shape[0]) > k, right, a)
        return with_packed_column(a, k, k + 1, v, value), taus.at[k].set(tau)

    return lax.fori_loop(0, a.shape[0] - 1, step, (a, jnp.zeros(a.shape[0] - 1, a.dtype)))


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
