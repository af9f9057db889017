"""Imported programs as objects: structures, static arguments, transforms, dumps, errors."""

import dataclasses
import json

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: imports of JAX programs are NOT tested")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

import jax.experimental  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import tidu as td  # noqa: E402


def model(parameters, x, *, power=2):
    y = jnp.tanh(x @ parameters["w"] + parameters["b"])
    return {"loss": jnp.mean(y**power), "y": (y, x.shape[0])}


PARAMETERS = {"w": np.arange(6.0).reshape(3, 2) / 10, "b": np.array([0.1, -0.2])}
X = np.linspace(-1, 1, 12).reshape(4, 3)


def test_structures():
    program = td.from_jax(model, PARAMETERS, X)
    assert program.input_names == ["x0.b", "x0.w", "x1"]
    result = program(PARAMETERS, X)
    expected = model(PARAMETERS, X)
    np.testing.assert_allclose(result["loss"].numpy(), expected["loss"], rtol=1e-14)
    np.testing.assert_allclose(result["y"][0].numpy(), expected["y"][0], rtol=1e-14)
    for convert in (jnp.asarray, td.array, lambda x: x):
        again = program(jax.tree_util.tree_map(convert, PARAMETERS), convert(X))
        assert again["loss"].numpy() == result["loss"].numpy()


def test_transforms():
    program = td.from_jax(model, PARAMETERS, X)
    loss = lambda p: program(p, X)["loss"]
    got = td.jit(td.grad(loss))({k: td.array(v) for k, v in PARAMETERS.items()})
    expected = jax.grad(lambda p: model(p, X)["loss"])(PARAMETERS)
    for key in PARAMETERS:
        np.testing.assert_allclose(got[key].numpy(), expected[key], rtol=1e-13)
    w = td.array(PARAMETERS["w"]).requires_grad_()
    program({"w": w, "b": PARAMETERS["b"]}, X)["loss"].backward()
    np.testing.assert_allclose(w.grad.numpy(), expected["w"], rtol=1e-13)
    mapped = td.vmap(lambda x: program(PARAMETERS, x)["loss"])(td.array(np.stack([X, 2 * X])))
    np.testing.assert_allclose(mapped.numpy(), [model(PARAMETERS, k * X)["loss"] for k in (1, 2)], rtol=1e-13)


def test_dump_runs_alone():
    program = td.from_jax(model, PARAMETERS, X)
    graph = td.Graph.from_json(program.to_json())
    loss = graph(td.array(PARAMETERS["b"]), td.array(PARAMETERS["w"]), td.array(X))[0]
    assert loss.numpy() == program(PARAMETERS, X)["loss"].numpy()
    assert any("test_import_program.py" in o.get("where", "") for o in json.loads(program.to_json())["operations"])


def test_keyword_and_static_arguments():
    program = td.from_jax(model, PARAMETERS, X, power=3)
    np.testing.assert_allclose(
        program(PARAMETERS, X, power=3)["loss"].numpy(), model(PARAMETERS, X, power=3)["loss"], rtol=1e-13
    )

    def f(x, activation):
        return getattr(jnp, activation)(x)

    assert float(td.from_jax(f, 0.5, "sin")(0.25, "sin")) == pytest.approx(np.sin(0.25))


def test_types_of_arguments():
    program = td.from_jax(lambda x, n: x * n, jax.ShapeDtypeStruct((2,), jnp.float32), 3)
    assert [str(d.name) for d, _ in program.graph.inputs] == ["float32", "int64"]
    assert program(np.array([1.0, 2.0], np.float32), 4).numpy().tolist() == [4.0, 8.0]
    with pytest.raises(td.InvalidArgumentError, match="structure"):
        program(np.array([1.0, 2.0], np.float32))
    with pytest.raises(td.TypeMismatchError):
        program(np.array([1.0, 2.0, 3.0], np.float32), 4)


def test_registered_classes():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Point:
        x: object
        y: object

    program = td.from_jax(lambda p: Point(p.y, p.x * 2), Point(1.0, np.arange(2.0)))
    result = program(Point(3.0, np.arange(2.0)))
    assert isinstance(result, Point) and float(result.y) == 6.0 and result.x.numpy().tolist() == [0.0, 1.0]


def unsupported(a):
    first = jnp.linalg.eigvals(a)
    second = jnp.linalg.eigvals(a + 1)
    return jax.lax.fori_loop(0, 2, lambda i, s: s + jax.lax.linalg.schur(a)[0].sum(), 0.0) + first.sum() + second.sum()


def test_everything_that_is_not_supported_is_named():
    with pytest.raises(td.ImportProgramError) as caught:
        td.from_jax(unsupported, np.eye(3))
    message, line = str(caught.value), unsupported.__code__.co_firstlineno
    assert isinstance(caught.value, NotImplementedError) and isinstance(caught.value, td.Error)
    assert "got 3 that it cannot" in message
    assert f"2 x eig: test_import_program.py:{line + 1}, test_import_program.py:{line + 2}" in message
    assert f"1 x schur: test_import_program.py:{line + 3}" in message
    assert [f.primitive for f in caught.value.failures].count("eig") == 2


def test_callbacks_are_refused():
    def f(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float64), x)

    with pytest.raises(td.ImportProgramError, match="1 x pure_callback, of sin"):
        td.from_jax(f, 1.0)


def test_checks_of_equinox_make_nan():  # a stand-in for equinox.error_if, whose callback raises an error
    def raises(*_):
        raise RuntimeError

    raises.__module__ = "equinox._errors"

    def error_if(x, bad):
        types = jax.tree_util.tree_map(lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype), x)
        return jax.lax.cond(bad, lambda: jax.pure_callback(raises, types), lambda: x)

    program = td.from_jax(lambda x, n: error_if((x, n, n > 0), x.sum() > 5), np.ones(2), np.int8(3))
    assert [y.numpy().tolist() for y in program(np.ones(2), np.int8(3))] == [[1.0, 1.0], 3, True]
    x, n, b = (y.numpy() for y in program(np.full(2, 9.0), np.int8(-3)))
    assert np.isnan(x).all() and n == 127 and b
    assert td.grad(lambda x: td.sum(program(x, np.int8(3))[0] ** 2))(td.array([1.0, 2.0])).numpy().tolist() == [
        2.0,
        4.0,
    ]


def test_foreign_functions_callbacks_and_references_are_named_with_their_lines():
    array = jax.ShapeDtypeStruct((3,), jnp.float64)
    g = jax.custom_jvp(lambda x: jax.new_ref(x)[...])  # beside which XLA does not have references either
    g.defjvp(lambda p, t: (g(*p), *t))

    def f(x):
        y = jax.ffi.ffi_call("mystery", array)(x) + jax.ffi.ffi_call("mystery", array)(x)
        z = g(jax.experimental.io_callback(np.sin, array, y))
        r = jax.new_ref(z)
        return r[...]

    with pytest.raises(td.ImportProgramError) as caught:
        td.from_jax(f, np.ones(3))
    message, line = str(caught.value), f.__code__.co_firstlineno
    assert f"2 x ffi_call, of mystery: test_import_program.py:{line + 1} (2 times)" in message
    assert f"1 x io_callback: test_import_program.py:{line + 2}" in message
    assert f"1 x new_ref: test_import_program.py:{line + 3}" in message and "1 x get" in message


def test_a_rule_that_refuses_an_operand_makes_nan():
    @jax.custom_jvp
    def f(x, y):
        return x * y

    @f.defjvp
    def _(primals, tangents):
        if not isinstance(tangents[1], jax.custom_derivatives.SymbolicZero):
            raise NotImplementedError
        return f(*primals), tangents[0] * primals[1]

    f.defjvp(_, symbolic_zeros=True)
    program = td.from_jax(f, 2.0, 3.0)
    assert float(program(2.0, 3.0)) == 6.0
    assert float(td.grad(lambda x: program(x, 3.0))(2.0)) == 3.0
    assert np.isnan(float(td.grad(lambda y: program(2.0, y))(3.0)))


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_other_generators_than_threefry_are_refused(impl):
    key = jax.random.key(3, impl=impl)
    bits = lambda k: jax.random.bits(k, (3,))
    of_data = lambda d: bits(jax.random.wrap_key_data(d, impl=impl))
    of_seed = lambda n: bits(jax.random.fold_in(jax.random.split(jax.random.key(n, impl=impl))[0], n))
    for f, x, primitive in (
        (of_seed, 5, "1 x random_seed"),
        (of_data, jax.random.key_data(key), "1 x random_wrap"),
        (bits, key, "1 x random key"),
        (lambda n: n + bits(key), 5, "1 x random key"),
    ):
        with pytest.raises(td.ImportProgramError, match=f"{primitive}, of the generator {impl}"):
            td.from_jax(f, x)
    with jax.default_prng_impl(impl), pytest.raises(td.ImportProgramError, match=f"random_seed, .* {impl}"):
        td.from_jax(lambda n: bits(jax.random.PRNGKey(n)), 5)
    with pytest.raises(td.TypeMismatchError, match=impl):
        td.from_jax(bits, jax.random.key(3))(key)


def test_the_older_way_to_threefry_bits_is_refused():
    with jax.threefry_partitionable(False), pytest.raises(td.ImportProgramError, match="partitionable") as caught:
        td.from_jax(lambda n: jax.random.bits(jax.random.split(jax.random.key(n))[0]), 5)
    assert [f.primitive for f in caught.value.failures] == ["random_split", "random_bits"]


def test_errors_of_jax_name_the_function_and_its_arguments():
    def positive(parameters, kind, x):
        return parameters["w"] if x > 0 else np.sin(x)

    where = f"positive at {__file__}:{positive.__code__.co_firstlineno}"
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        td.from_jax(positive, {"w": 1.0}, "text", x=2.0)
    assert where in str(caught.value) and "argument x" in str(caught.value)
    with pytest.raises(jax.errors.TracerArrayConversionError) as caught:
        td.from_jax(lambda p: positive(p, "text", np.sin(p["w"])), {"w": 1.0})
    assert "argument p['w']" in str(caught.value)


def test_a_custom_vjp_that_refuses_some_operands_makes_nan():
    @jax.custom_vjp
    def f(x, y, z):
        return x * y * z

    def forward(x, y, z):
        if x.perturbed or z.perturbed:  # the last one that is tried too
            raise NotImplementedError
        return x.value * y.value * z.value, (x.value, z.value)

    f.defvjp(forward, lambda r, ct: (ct, ct * r[0] * r[1], ct), symbolic_zeros=True)
    program = td.from_jax(f, 1.5, 2.0, 3.0)
    assert float(program(1.5, 2.0, 3.0)) == 9.0
    gradient = [float(g) for g in td.grad(program, argnums=(0, 1, 2))(1.5, 2.0, 3.0)]
    assert np.isnan(gradient[0]) and gradient[1] == 4.5 and np.isnan(gradient[2])


def test_a_custom_vjp_whose_backward_function_refuses_some_operands():
    @jax.custom_vjp
    def f(x, t):
        return x * t

    def backward(residuals, ct):
        x, t, is_perturbed = residuals
        if is_perturbed:
            raise RuntimeError
        return ct * t, None

    f.defvjp(lambda x, t: (x.value * t.value, (x.value, t.value, t.perturbed)), backward, symbolic_zeros=True)
    program = td.from_jax(lambda x: f(x, 2.0 * jnp.abs(jax.lax.stop_gradient(x))), 1.5)
    assert float(td.grad(program)(1.5)) == 3.0
    program = td.from_jax(f, 1.5, 2.0)
    gradient = [float(g) for g in td.grad(program, argnums=(0, 1))(1.5, 2.0)]
    assert gradient[0] == 2.0 and np.isnan(gradient[1])  # an error in JAX


def test_tangents_of_a_rule_that_are_zero():
    @jax.custom_jvp
    def named(x):
        return x

    named.defjvp(lambda p, t: (named(*p), named(*t)))

    @jax.custom_jvp
    def f(x):
        return jnp.round(x)

    @f.defjvp
    def rule(primals, tangents):
        zero = named(jnp.zeros(2))
        matrix = jnp.diag(1.0 + primals[0] ** 2)
        return f(*primals), -jax.lax.custom_linear_solve(lambda v: matrix @ v, zero, lambda _, b: b / matrix[0])

    program = td.from_jax(lambda x: f(x) * x, np.array([1.2, 2.7]))
    assert np.array_equal(td.jacfwd(program)(td.array([1.2, 2.7])).numpy(), np.diag([1.0, 3.0]))


def raising(kind):
    f = (jax.custom_jvp if kind == "jvp" else jax.custom_vjp)(lambda x: x**2)
    if kind == "jvp":
        f.defjvp(lambda p, t: {}["nothing"])
    elif kind == "forward":
        f.defvjp(lambda x: {}["nothing"], lambda _, ct: (ct,))
    else:
        f.defvjp(lambda x: (x**2, None), lambda _, ct: ([][1],))
    return f


@pytest.mark.parametrize("kind", ["jvp", "forward", "backward"])
def test_a_rule_that_raises_makes_nan(kind):
    program = td.from_jax(raising(kind), 1.5)
    assert float(program(1.5)) == 2.25
    values = td.jvp(td.value_and_grad(lambda x: program(x) ** 2), (td.array(1.5),), (td.array(1.0),))
    values, tangents = [[float(v) for v in pair] for pair in values]
    assert values[0] == 2.25**2 and np.isnan([values[1], *tangents]).all()


def test_determinant_of_no_elements():  # JAX's rule raises
    assert float(td.from_jax(jnp.linalg.det, np.zeros((0, 0)))(np.zeros((0, 0)))) == 1.0
