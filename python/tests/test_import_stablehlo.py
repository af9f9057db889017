"""from_stablehlo: modules that jax.export writes, against JAX, and modules by hand for operations that JAX does not
write."""

import json
import re

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: imports of StableHLO are NOT tested")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
from import_checks import Case, difference  # noqa: E402
from jax import export, lax  # noqa: E402

import tidu as td  # noqa: E402

rng = np.random.default_rng(3)


def u(*shape, low=-1.0, high=1.0):
    return rng.uniform(low, high, shape)


A = u(4, 4) + 3 * np.eye(4)
EXPORTED = {
    "elementwise": (
        lambda x: (jnp.sin(x) * jax.nn.gelu(x), jnp.arctanh(x), x > 0),
        (u(5),),
    ),
    # JAX writes these out as polynomials, which are the functions again.
    "written_out": (
        lambda x: (lax.erf_inv(x), lax.lgamma(x + 3), lax.digamma(x + 3), lax.erfc(x), lax.bessel_i1e(x)),
        (u(5),),
    ),
    "written_out_f32": (
        lambda x: (lax.erf_inv(x), lax.lgamma(x + 3), lax.digamma(x + 3), lax.erfc(x), lax.bessel_i0e(x)),
        (u(2, 2).astype(np.float32),),
    ),
    "written_out_by_name": (lambda x: (lax.erf(x), lax.asin(x), lax.acosh(x + 3), lax.sinh(x)), (u(5),)),
    "shapes": (lambda x: (x[::-1, 1:], jnp.pad(x, 1), x.T.reshape(-1), jnp.concatenate([x, x], 1)), (u(3, 4),)),
    "reductions": (
        lambda x: (x.max(0), x.sum(), jnp.argmax(x, 1), jnp.all(x > 0), jnp.cumsum(x, 1), lax.cummax(x)),
        (u(3, 4),),
    ),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(-x), lax.sort((x > 0, x), num_keys=2)[1], lax.top_k(x, 2)), (u(6),)),
    "indexing": (
        lambda x, i: (x[i], x.at[i].add(2.0), x.at[i].set(0.5 * x[0], mode="drop"), x.at[i].max(0.0)),
        (u(4, 2), np.array([3, 0, 2])),
    ),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (2,), [(1, 2)], rhs_dilation=(2,)),
        (u(2, 3, 9), u(4, 3, 2)),
    ),
    "pooling": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"), (u(4, 4),)),
    "gradient_of_pooling": (
        lambda x: jax.grad(lambda y: jnp.sum(lax.reduce_window(y, -jnp.inf, lax.max, (2,), (2,), "VALID") ** 2))(x),
        (u(6),),
    ),
    "scan": (lambda x, w: lax.scan(lambda s, a: (jnp.tanh(w @ s) + a, s.sum()), x, jnp.arange(5.0)), (u(3), u(3, 3))),
    "loop_downwards": (lambda x: lax.scan(lambda s, a: (s * a, s), 1.0, x, reverse=True), (u(5),)),
    "cond": (lambda p, x: lax.switch(p, [jnp.sin, jnp.cos, jnp.tanh], x), (np.int32(1), u(3))),
    "random": (lambda k, m: m * jax.random.normal(k, (3,)), (np.array([1, 2], np.uint32), np.float64(2.0))),
    "solve": (jnp.linalg.solve, (A, u(4))),
    "cholesky": (lambda a: jnp.linalg.cholesky(a @ a.T), (A,)),
    "cho_solve_upper": (lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a @ a.T), b), (A, u(4))),
    "triangular": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=1), (A, u(4, 2))),
    "qr": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), (A,)),
    "eigh": (lambda a: jnp.linalg.eigvalsh(a + a.T), (A,)),
    "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), (u(3, 4),)),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)) ** 2, (u(12),)),
    "complex": (lambda x: x * jnp.exp(1j * x), (u(3) + 1j * u(3),)),
    "f32": (lambda x: jax.nn.softmax(x @ x.T), (u(3, 2).astype(np.float32),)),
    "bf16": (
        lambda x: (x.astype(jnp.bfloat16) * jnp.bfloat16(1.5)).astype(jnp.float32),
        (np.array([0.5, 2.0], np.float32),),
    ),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_exported(name):
    f, args = EXPORTED[name]
    exported = export.export(jax.jit(f))(*map(jnp.asarray, args))
    case = Case(f, args)
    case.program = td.from_stablehlo(exported.mlir_module())
    case.graph = case.program.graph
    assert difference(case.tidu_eval(), case.jax_eval()) <= 1e3
    again = td.from_stablehlo(exported.mlir_module_serialized)
    assert again.graph == case.graph
    if case.active_outputs:
        assert difference(case.tidu_jvp(), case.jax_jvp()) <= 1e4
        assert difference(case.tidu_vjp(), case.jax_vjp(False)) <= 1e4


def test_written_out_functions_are_recognised():
    f = lambda x: (lax.erf_inv(x), lax.lgamma(x), lax.digamma(x), lax.erfc(x))
    exported = export.export(jax.jit(f))(jnp.zeros((2, 3)))
    program = td.from_stablehlo(exported.mlir_module())
    names = [operation["op"] for operation in json.loads(program.to_json())["operations"]]
    assert sorted(names) == ["digamma", "erf_inv", "erfc", "lgamma"]
    # What only looks like one is what it says.
    text = exported.mlir_module().replace("1.6536545626831027", "1.6536545626831")
    names = [operation["op"] for operation in json.loads(td.from_stablehlo(text).to_json())["operations"]]
    assert "erf_inv" not in names and "lgamma" in names


def test_written_out_functions_are_recognised_with_operands_exchanged():
    text = export.export(jax.jit(lax.erf_inv))(jnp.zeros(3)).mlir_module()
    swapped = re.sub(r"stablehlo.(add|multiply) (%\w+), (%\w+)", r"stablehlo.\1 \3, \2", text)
    assert swapped != text
    assert [o["op"] for o in json.loads(td.from_stablehlo(swapped).to_json())["operations"]] == ["erf_inv"]


def run(body, *args, types=None, result="tensor<4xf64>"):
    """A module whose main has these arguments and this body, imported and run."""
    names = {"float64": "f64", "float32": "f32", "int32": "i32", "int64": "i64", "bool": "i1"}
    spell = lambda x: "tensor<" + "".join(f"{n}x" for n in x.shape) + names[x.dtype.name] + ">"
    args = [np.asarray(a) for a in args]
    header = ", ".join(f"%{k}: {spell(a)}" for k, a in zip("abcdef", args))
    program = td.from_stablehlo(f"module {{ func.func @main({header}) -> {result} {{\n{body}\n}} }}")
    return program(*args)


X = np.array([3.0, -1.0, 2.0, 0.5])


def test_descending_sort():
    y = run(
        """%0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
    ^bb0(%x: tensor<f64>, %y: tensor<f64>):
      %1 = stablehlo.compare GT, %x, %y, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<4xf64>) -> tensor<4xf64>
    return %0 : tensor<4xf64>""",
        X,
    )
    assert y.numpy().tolist() == [3.0, 2.0, 0.5, -1.0]


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_sort_in_total_order(direction):  # NaN is the greatest, and -0 less than 0
    expected = [-np.inf, -0.0, 0.0, 5.0, np.nan][:: 1 if direction == "LT" else -1]
    y = run(
        f"""%0 = "stablehlo.sort"(%a) <{{dimension = 0 : i64, is_stable = true}}> ({{
    ^bb0(%x: tensor<f64>, %y: tensor<f64>):
      %1 = stablehlo.compare {direction}, %x, %y, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }}) : (tensor<5xf64>) -> tensor<5xf64>
    return %0 : tensor<5xf64>""",
        np.array([0.0, np.nan, -np.inf, -0.0, 5.0]),
        result="tensor<5xf64>",
    )
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(np.signbit(y.numpy()[1:4]), np.signbit(expected[1:4]))


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_compare_in_total_order(direction):
    numbers = np.array([-np.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, np.inf, np.nan])  # in this order
    x, y = (v.reshape(-1) for v in np.meshgrid(numbers, numbers))
    i, j = (v.reshape(-1) for v in np.meshgrid(range(9), range(9)))
    compare = f"stablehlo.compare {direction}, %a, %b, TOTALORDER : (tensor<81xf64>, tensor<81xf64>) -> tensor<81xi1>"
    got = run(f"%0 = {compare}\n return %0 : tensor<81xi1>", x, y, result="tensor<81xi1>")
    compare = {"EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal"}
    expected = getattr(np, {**compare, "GT": "greater", "GE": "greater_equal"}[direction])(i, j)
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize(
    "direction,limit,step,start,count",
    [("LT", 7, 2, 0, 4), ("LE", 6, 2, 0, 4), ("GT", 0, -1, 3, 3), ("NE", 6, 2, 0, 3)],
)
def test_counted_loops_have_reverse_mode(direction, limit, step, start, count):
    text = f"""module {{ func.func @main(%a: tensor<f64>) -> tensor<f64> {{
    %s = stablehlo.constant dense<{start}> : tensor<i64>
    %l = stablehlo.constant dense<{limit}> : tensor<i64>
    %d = stablehlo.constant dense<{step}> : tensor<i64>
    %r:2 = stablehlo.while(%i = %s, %x = %a) : tensor<i64>, tensor<f64>
    cond {{
      %0 = stablehlo.compare {direction}, %i, %l : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    }} do {{
      %0 = stablehlo.add %i, %d : tensor<i64>
      %1 = stablehlo.multiply %x, %a : tensor<f64>
      stablehlo.return %0, %1 : tensor<i64>, tensor<f64>
    }}
    return %r#1 : tensor<f64> }} }}"""
    program = td.from_stablehlo(text)
    assert float(program(2.0)) == 2.0 ** (count + 1)
    assert float(td.grad(program)(2.0)) == (count + 1) * 2.0**count


def test_loop_without_a_constant_bound():
    text = """module { func.func @main(%a: tensor<f64>, %l: tensor<f64>) -> tensor<f64> {
    %r = stablehlo.while(%x = %a) : tensor<f64>
    cond {
      %0 = stablehlo.compare LT, %x, %l : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %0 = stablehlo.add %x, %x : tensor<f64>
      stablehlo.return %0 : tensor<f64>
    }
    return %r : tensor<f64> } }"""
    program = td.from_stablehlo(text)
    assert float(program(1.0, 30.0)) == 32.0
    assert float(td.jvp(program, (1.0, 30.0), (1.0, 0.0))[1]) == 32.0


def test_case_takes_the_last_branch_when_out_of_range():
    body = """%0 = "stablehlo.case"(%a) ({
      stablehlo.return %b : tensor<4xf64>
    }, {
      %1 = stablehlo.negate %b : tensor<4xf64>
      stablehlo.return %1 : tensor<4xf64>
    }) : (tensor<i32>) -> tensor<4xf64>
    return %0 : tensor<4xf64>"""
    for index, sign in ((0, 1), (1, -1), (-1, -1), (5, -1)):
        assert run(body, np.int32(index), X).numpy().tolist() == (sign * X).tolist()


def test_batch_norm_inference():
    x, parameters = u(2, 3), [u(3, low=0.5) + 1 for _ in range(4)]
    body = """%0 = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) <{epsilon = 0.25 : f32, feature_index = 1 : i64}> :
      (tensor<2x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<2x3xf64>
    return %0 : tensor<2x3xf64>"""
    scale, offset, mean, variance = parameters
    y = run(body, x, *parameters, result="tensor<2x3xf64>")
    np.testing.assert_allclose(y.numpy(), (x - mean) / np.sqrt(variance + 0.25) * scale + offset, rtol=1e-13)


def test_gather_with_index_vectors_first():
    body = """%0 = "stablehlo.gather"(%a, %b) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1],
      index_vector_dim = 0>, slice_sizes = array<i64: 1, 1>}> : (tensor<3x4xf64>, tensor<2x4xi64>) -> tensor<4xf64>
    return %0 : tensor<4xf64>"""
    x, i = u(3, 4), np.array([[0, 2, 1, 9], [3, 0, 1, -4]])
    assert run(body, x, i).numpy().tolist() == [x[0, 3], x[2, 0], x[1, 1], x[2, 0]]


def test_arg_max_with_a_reducer_of_two():
    body = """%i = stablehlo.iota dim = 0 : tensor<4xi32>
    %z = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %n = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.reduce(%a init: %z), (%i init: %n) across dimensions = [0] :
      (tensor<4xf64>, tensor<4xi32>, tensor<f64>, tensor<i32>) -> (tensor<f64>, tensor<i32>)
      reducer(%x: tensor<f64>, %y: tensor<f64>) (%k: tensor<i32>, %l: tensor<i32>) {
        %0 = stablehlo.compare GE, %x, %y : (tensor<f64>, tensor<f64>) -> tensor<i1>
        %1 = stablehlo.select %0, %x, %y : tensor<i1>, tensor<f64>
        %2 = stablehlo.select %0, %k, %l : tensor<i1>, tensor<i32>
        stablehlo.return %1, %2 : tensor<f64>, tensor<i32>
      }
    return %r#0, %r#1 : tensor<f64>, tensor<i32>"""
    value, index = run(body, X, result="(tensor<f64>, tensor<i32>)")
    assert (float(value), int(index)) == (3.0, 0)


def test_constants():
    body = """%0 = stablehlo.constant dense<[(1.0, 2.0), (0.5, -1.0)]> : tensor<2xcomplex<f64>>
    %1 = stablehlo.constant dense<[1.5, 0x7FC0]> : tensor<2xbf16>
    %2 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %3 = stablehlo.constant dense<"0x0000803F000000C0"> : tensor<2xf32>
    return %0, %1, %2, %3 : tensor<2xcomplex<f64>>, tensor<2xbf16>, tensor<2xi1>, tensor<2xf32>"""
    a, b, c, d = run(body, X, result="(tensor<2xcomplex<f64>>, tensor<2xbf16>, tensor<2xi1>, tensor<2xf32>)")
    assert a.numpy().tolist() == [1 + 2j, 0.5 - 1j] and c.numpy().tolist() == [True, False]
    assert float(b.astype(td.float32)[0]) == 1.5 and np.isnan(float(b.astype(td.float32)[1]))
    assert d.numpy().tolist() == [1.0, -2.0]


def test_arithmetic_of_booleans():
    body = """%0 = stablehlo.constant dense<0.0> : tensor<4xf64>
    %1 = stablehlo.compare GT, %a, %0 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
    %2 = stablehlo.compare GT, %a, %b : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
    %3 = stablehlo.add %1, %2 : tensor<4xi1>
    %4 = stablehlo.multiply %1, %2 : tensor<4xi1>
    %5 = stablehlo.constant dense<false> : tensor<i1>
    %6 = stablehlo.reduce(%2 init: %5) applies stablehlo.add across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
    return %3, %4, %6 : tensor<4xi1>, tensor<4xi1>, tensor<i1>"""
    y = np.array([2.5, -2.0, 2.5, 1.0])
    either, both, some = run(body, X, y, result="(tensor<4xi1>, tensor<4xi1>, tensor<i1>)")
    assert either.numpy().tolist() == ((X > 0) | (X > y)).tolist()
    assert both.numpy().tolist() == ((X > 0) & (X > y)).tolist() and bool(some)


def test_custom_calls_with_a_tuple():
    a = A + A.T
    for configuration, x in (("1,1,100,1e-6", np.tril(a)), ("0,1,100,1e-6", np.triu(a))):
        body = f"""%0 = stablehlo.custom_call @Eigh(%a) {{backend_config = "{configuration}"}} : (tensor<4x4xf64>) ->
          tuple<tensor<4x4xf64>, tensor<4xf64>>
        %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4x4xf64>, tensor<4xf64>>) -> tensor<4xf64>
        return %1 : tensor<4xf64>"""
        np.testing.assert_allclose(run(body, x).numpy(), np.linalg.eigvalsh(a), rtol=1e-12)


@pytest.mark.parametrize("direction", ["GE", "GT", "LE", "LT"])
@pytest.mark.parametrize("kind,init,start", [("maximum", "0xFFF0000000000000", -np.inf), ("multiply", "2.0", 2.0)])
def test_select_and_scatter(direction, kind, init, start):
    x, source = np.array([1.0, 3.0, 3.0, 3.0, 2.0, 2.0]), np.array([5.0, 7.0])
    body = f"""%i = stablehlo.constant dense<{init}> : tensor<f64>
    %0 = "stablehlo.select_and_scatter"(%a, %b, %i) <{{padding = dense<0> : tensor<1x2xi64>,
      window_dimensions = array<i64: 2>, window_strides = array<i64: 4>}}> ({{
    ^bb0(%x: tensor<f64>, %y: tensor<f64>):
      %1 = stablehlo.compare {direction}, %x, %y : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }}, {{
    ^bb0(%x: tensor<f64>, %y: tensor<f64>):
      %1 = stablehlo.{kind} %x, %y : tensor<f64>
      stablehlo.return %1 : tensor<f64>
    }}) : (tensor<6xf64>, tensor<2xf64>, tensor<f64>) -> tensor<6xf64>
    return %0 : tensor<6xf64>"""
    expected = np.full(6, start)
    of_windows = {"G": [1, 4 if direction == "GE" else 5], "L": [0, 4 if direction == "LE" else 5]}[direction[0]]
    expected[of_windows] = source if kind == "maximum" else start * source
    assert run(body, x, source, result="tensor<6xf64>").numpy().tolist() == expected.tolist()


def test_names_and_functions():
    text = """module { func.func @twice(%a: tensor<f64>) -> tensor<f64> { %0 = stablehlo.add %a, %a : tensor<f64>
    return %0 : tensor<f64> } }"""
    assert float(td.from_stablehlo(text, name="twice")(2.0)) == 4.0
    with pytest.raises(td.InvalidArgumentError, match="it has twice"):
        td.from_stablehlo(text)
    with pytest.raises(td.InvalidArgumentError, match="expected a StableHLO module"):
        td.from_stablehlo("module { what }")


def test_everything_that_is_not_supported_is_named():
    text = """module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.custom_call @mystery(%a) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.custom_call @mystery(%0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32> } }"""
    with pytest.raises(td.ImportProgramError) as caught:
        td.from_stablehlo(text)
    assert "2 x stablehlo.custom_call @mystery: stablehlo:2, stablehlo:3" in str(caught.value)
    with pytest.raises(td.ImportProgramError, match="extent that is not static"):
        td.from_stablehlo(
            "module { func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> } }"
        )


@pytest.mark.parametrize("platforms", [["cpu"], ["tpu", "cpu"]])
def test_a_call_of_an_exported_function(platforms):
    def f(x, unused, n):
        step = lambda c, y: (jnp.sin(c) * y, lax.platform_dependent(c, cpu=jnp.tanh, default=jnp.cos))
        return {"a": lax.scan(step, x[0], x)[1], "n": n + jnp.uint8(250)}

    specs = jax.ShapeDtypeStruct((4,), np.float64), jax.ShapeDtypeStruct((), np.int32), np.uint8(9)
    exported = export.export(jax.jit(f), platforms=platforms)(*specs)
    x = np.array([0.5, -1.0, 2.0, 0.3])
    program = td.from_jax(lambda x, n: exported.call(x * 2, np.int32(3), n), x, np.uint8(9))
    got, expected = program(x, np.uint8(9)), f(2 * x, 3, jnp.uint8(9))
    assert int(got["n"]) == 3 and np.abs(got["a"].numpy() - expected["a"]).max() < 1e-14


def test_derivatives_of_an_exported_function():
    x = np.array([0.5, -1.0, 2.0, 0.3])
    exported = export.export(jax.jit(lambda x: jnp.cumsum(jnp.sin(x)) * x))(x)
    program = td.from_jax(lambda x: exported.call(x).sum(), x)
    expected = jax.grad(lambda x: jnp.sum(jnp.cumsum(jnp.sin(x)) * x))(x)
    assert np.abs(td.jvp(program, (td.array(x),), (td.array(x),))[1].numpy() - expected @ x) < 1e-14
