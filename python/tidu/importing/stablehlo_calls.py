"""Calls: functions of the module, composites, and custom calls that JAX exports for linear algebra."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import linalg as lax_linalg
from jaxlib.mlir import ir

from .dtypes import Unsupported
from .registry import entering
from .stablehlo import OPS, attribute, op, type_of


@op("func.call")
def call(m, o, xs):
    return m.call(attribute(o, "callee"), xs)


@op("stablehlo.composite")
def composite(m, o, xs):
    """A function by its name, if that is known, else as the module defines it."""
    name = attribute(o, "name")
    if name in OPS and "composite_attributes" not in o.attributes:
        return OPS[name](m, o, xs)
    return m.call(attribute(o, "decomposition"), xs)


@op("stablehlo.rng_bit_generator", "stablehlo.rng")
def rng(m, o, xs):
    raise Unsupported(o.name, "random numbers whose bits the program does not say")


TARGETS = {}
target = entering(TARGETS)


def lapack(*routines):
    """The names that jax.export gives LAPACK's routines of all dtypes."""
    return target(*(f"lapack_{kind}{routine}{end}" for routine in routines for kind in "sdcz" for end in ("_ffi", "")))


def option(o, name, default):
    """An entry of the call's configuration: a number, or the letter that LAPACK has for it."""
    for key in ("mhlo.backend_config", "backend_config"):
        config = o.attributes[key] if key in o.attributes else None
        if isinstance(config, ir.DictAttr) and name in config:
            return config[name].value
    return default


@op("stablehlo.custom_call", "mhlo.custom_call")
def custom_call(m, o, xs):
    name = attribute(o, "call_target_name")
    if name not in TARGETS:
        raise Unsupported(f"{o.name} @{name}")
    results = TARGETS[name](o, xs)
    return [tuple(results)] if str(o.results[0].type).startswith("tuple") else results


def info(o, k=-1):
    return jnp.zeros(*type_of(list(o.results)[k].type))


def adjoint(x):
    return jnp.swapaxes(x, -1, -2).conj()


@target("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "Ein")
def identity(o, xs):
    return xs[0]


@target("shape_assertion")
def nothing(o, xs):
    return []


@lapack("potrf")
def potrf(o, xs):
    is_lower = option(o, "uplo", ord("L")) == ord("L")
    x = xs[0] if is_lower else adjoint(xs[0])
    x = jnp.tril(x) + adjoint(jnp.tril(x, -1))
    y = lax.linalg.cholesky(x, symmetrize_input=False)
    return [y if is_lower else adjoint(y), info(o)]


@lapack("getrf")
def getrf(o, xs):
    factors, pivots, _ = lax.linalg.lu(xs[0])
    return [factors, pivots + 1, info(o)]


@target("LuDecomposition")
def lu(o, xs):
    return list(lax.linalg.lu(xs[0]))


@lapack("geqrf")
def geqrf(o, xs):
    y = list(lax_linalg.geqrf(xs[0]))
    return y + [info(o)] * (len(o.results) - 2)


@lapack("orgqr", "ungqr")
def orgqr(o, xs):
    return [lax.linalg.householder_product(*xs), *([info(o)] * (len(o.results) - 1))]


@target("Qr")
def qr(o, xs):
    return list(lax_linalg.geqrf(xs[0]))


@target("ProductOfElementaryHouseholderReflectors")
def householder_product(o, xs):
    return lax.linalg.householder_product(*xs)


@lapack("syevd", "heevd")
def syevd(o, xs):
    is_lower = option(o, "uplo", ord("L")) == ord("L")
    x = xs[0] if is_lower else adjoint(xs[0])
    x = jnp.tril(x) + adjoint(jnp.tril(x, -1))
    vectors, values = lax.linalg.eigh(x, symmetrize_input=False)
    return [vectors, values, info(o)]


@target("Eigh")
def eigh(o, xs):
    """XLA's own: the configuration says whether the lower triangle counts and values are sorted, and the precision."""
    is_lower = attribute(o, "backend_config", "1").startswith("1")
    x = xs[0] if is_lower else adjoint(xs[0])
    x = jnp.tril(x) + adjoint(jnp.tril(x, -1))
    return list(lax.linalg.eigh(x, symmetrize_input=False))


@lapack("gesdd", "gesvd")
def gesdd(o, xs):
    """Results: the overwritten operand, singular values, both sides of vectors, and info."""
    _, s, u, vt = (type_of(v.type)[0] for v in list(o.results)[:4])
    x = xs[0]
    m, n, k = x.shape[-2], x.shape[-1], min(x.shape[-2:])
    if option(o, "mode", ord("S")) == ord("N"):
        return [x, lax.linalg.svd(x, compute_uv=False), jnp.zeros(u, x.dtype), jnp.zeros(vt, x.dtype), info(o)]
    is_full = u[-1] == m and vt[-2] == n and m != n
    left, values, right = lax.linalg.svd(x, full_matrices=is_full)
    assert values.shape[-1] == k
    return [x, values, left, right, info(o)]


@lapack("trsm")
def trsm(o, xs):
    letter = lambda name, default: chr(option(o, name, ord(default)))
    transpose = letter("trans_x", "N")
    y = lax.linalg.triangular_solve(
        xs[0],
        xs[1],
        left_side=letter("side", "L") == "L",
        lower=letter("uplo", "L") == "L",
        transpose_a=transpose != "N",
        conjugate_a=transpose == "C",
        unit_diagonal=letter("diag", "N") == "U",
    )
    return [y]


@target("mhlo.topk", "TopK")
def top_k(o, xs):
    k = type_of(o.results[0].type)[0][-1]
    return list(lax.top_k(xs[0], int(k)))


@target("mhlo.erf")
def erf(o, xs):
    return lax.erf(xs[0])


@target("cu_threefry2x32_ffi", "cu_threefry2x32")
def threefry(o, xs):
    from jax._src.random.threefry2x32 import threefry2x32_p

    shape = np.shape(xs[2])
    keys = [jnp.broadcast_to(k, shape) for k in xs[:2]]
    return threefry2x32_p.bind(*keys, *xs[2:4])
