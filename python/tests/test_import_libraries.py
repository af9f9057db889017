"""Primitives of libraries of JAX: traced, with the rules that the libraries have for them."""

import functools
import math
import os

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: imports of JAX programs are NOT tested")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from import_checks import Case, difference  # noqa: E402
from jax.extend import core as jcore  # noqa: E402
from jax.interpreters import ad  # noqa: E402

import tidu as td  # noqa: E402

falling_p = jcore.Primitive("falling")  # the derivative of falling by k is k times that by k + 1, without end
falling_p.def_impl(lambda x, *, k: 1.0 * x)
falling_p.def_abstract_eval(lambda x, *, k: x)
ad.primitive_jvps[falling_p] = lambda p, t, *, k: (
    falling_p.bind(p[0], k=k),
    t[0] * falling_p.bind(p[0], k=k + 1) * float(k),
)


def test_rules_of_primitives_that_call_others_without_end():
    g = td.from_jax(lambda x: falling_p.bind(x, k=2), 1.5)
    for order in range(1, 10):
        g = td.grad(g)
        if order <= 8:
            assert float(g(1.5)) == pytest.approx(math.factorial(order + 1) * 1.5)
    assert np.isnan(float(g(1.5)))


def compare(f, *args):
    case = Case(f, args)
    assert difference(case.tidu_eval(), case.jax_eval()) <= 1e3
    assert difference(case.tidu_jvp(), case.jax_jvp()) <= 1e3
    assert difference(case.tidu_vjp(), case.jax_vjp(True)) <= 1e3
    assert difference(case.tidu_hvp(), case.jax_hvp()) <= 1e4


def compare_reverse(f, *args):
    """For functions that JAX has no forward mode of."""
    case = Case(f, args)
    assert difference(case.tidu_eval(), case.jax_eval()) <= 1e3
    assert difference(case.tidu_vjp(), case.jax_vjp(False)) <= 1e3
    return case


@pytest.fixture
def lx():
    os.environ.setdefault("EQX_ON_ERROR", "nan")
    return pytest.importorskip("lineax", reason="lineax is not installed: imports of its solves are NOT tested")


def test_least_squares_of_an_operator_that_is_not_a_matrix(lx):
    def f(x, b):
        g = lambda y, _: jnp.array([y[0] ** 2, y[1] * y[0], jnp.sin(y[1])])
        return lx.linear_solve(lx.JacobianLinearOperator(g, x), b, lx.QR()).value

    compare(f, np.array([1.0, 2.0]), np.array([1.0, 2.0, 4.0]))


def test_solves_under_vmap(lx):
    solve = lambda solver: lambda a, b: lx.linear_solve(lx.MatrixLinearOperator(a), b, solver).value
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 2, 2)) + 3 * np.eye(2), rng.normal(size=(3, 2))
    compare(jax.vmap(solve(lx.LU())), a, b)
    compare(jax.vmap(solve(lx.LU()), in_axes=(None, 0)), a[0], b)
    compare(jax.vmap(solve(lx.QR()), in_axes=(0, None)), rng.normal(size=(3, 4, 2)), np.ones(4))


def test_solves_of_operators_that_jax_cannot_transpose(lx):
    def matvec(a, v):  # a @ v, where a is positive, as sums of exponentials compute it
        return jnp.sum(jnp.sign(v) * jnp.exp(jnp.log(a) + jnp.log(jnp.abs(v))), axis=1)

    def f(a, b):
        operator = lx.FunctionLinearOperator(lambda v: matvec(a, v), jax.ShapeDtypeStruct((2,), jnp.float64), tags)
        return lx.linear_solve(operator, b, lx.CG(1e-14, 1e-14)).value

    a, b, tags = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.0, 2.0]), lx.positive_semidefinite_tag
    program = td.from_jax(f, a, b)
    np.testing.assert_allclose(program(a, b).numpy(), np.linalg.solve(a, b), rtol=1e-12)
    w = td.grad(lambda b: td.sum(program(a, b)))(td.array(b)).numpy()
    np.testing.assert_allclose(w, np.linalg.solve(a, np.ones(2)), rtol=1e-10)
    gradient = td.grad(lambda a: td.sum(program(a, b)))(td.array(a)).numpy()
    np.testing.assert_allclose(gradient, -np.outer(w, np.linalg.solve(a, b)), rtol=1e-10)


@pytest.fixture
def jaxopt():
    return pytest.importorskip("jaxopt", reason="jaxopt is not installed: imports of its solvers are NOT tested")


def test_implicit_derivatives_of_least_squares(jaxopt):
    residual = lambda w, x, y: jnp.tanh(x @ w) - y
    f = lambda x, y: jaxopt.LevenbergMarquardt(residual, maxiter=5, tol=1e-10).run(jnp.zeros(2), x, y).params
    rng = np.random.default_rng(0)
    compare_reverse(f, rng.normal(size=(6, 2)), rng.normal(size=6))


def test_projection_on_a_section_of_a_box(jaxopt):
    f = lambda x, w: jaxopt.projection.projection_box_section(x, (jnp.zeros(4), jnp.full(4, 0.8), w, 1.0))
    compare_reverse(f, np.array([0.3, -0.2, 0.7, 0.1]), np.array([1.0, 0.5, 0.7, 0.9]))


def test_rules_that_grow_with_each_order():
    """The adjoint of an ODE is the ODE of a larger system."""
    diffrax = pytest.importorskip("diffrax", reason="diffrax is not installed: imports of its adjoints are NOT tested")

    def f(y, a):
        term = diffrax.ODETerm(lambda t, y, a: jnp.sin(t) - a * y)
        solve = functools.partial(diffrax.diffeqsolve, term, diffrax.Euler(), 0.0, 1.0, 0.25, max_steps=8)
        return solve(y, a, adjoint=diffrax.BacksolveAdjoint()).ys

    case = compare_reverse(f, np.array([0.3, -0.2]), np.array(1.5))
    assert len(case.program.to_json()) < 3e6


def test_loops_with_checkpoints_of_equinox():
    reason = "equinox is not installed: imports of its loops are NOT tested"
    eqxi = pytest.importorskip("equinox.internal", reason=reason)
    step = lambda c: (jnp.sin(c[0]) * c[0], c[1] + 1)
    loop = functools.partial(eqxi.while_loop, lambda c: c[1] < 3, step, kind="checkpointed", max_steps=8, checkpoints=4)
    compare_reverse(lambda x: loop((x, 0))[0], np.array([0.3, -0.7]))
