"""NumPy as oracle over the function table: values, and gradients against differences."""

import math

import numpy as np
import pytest
import tidu as td

R = np.random.default_rng(7)
X = R.uniform(0.2, 0.9, (3, 4))
Y = R.uniform(0.2, 0.9, (3, 4))
A = R.normal(size=(4, 4))
SPD = A @ A.T + 4 * np.eye(4)

# name: (function of Arrays, the same of NumPy's, arguments)
UNARY = (
    "exp exp2 expm1 log log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh log2 log10 "
    "reciprocal square abs absolute negative"
).split()
NO_GRADIENT = "sign floor ceil round trunc isfinite isnan isinf logical_not".split()
BINARY = "power maximum minimum arctan2 fmod hypot logaddexp add subtract multiply divide true_divide".split()
COMPARE = (
    "mod remainder floor_divide nextafter logical_and logical_or logical_xor equal not_equal less less_equal greater "
    "greater_equal isclose allclose array_equal"
).split()
REDUCTIONS = "sum prod max min amax amin mean var std".split()


def check_value(got, expected):
    got = np.asarray(got)
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    assert got.dtype.kind == expected.dtype.kind or {got.dtype.kind, expected.dtype.kind} <= {"i", "u"}
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def check_gradient(f, *arguments):
    """The gradient of a random combination of f's elements against central differences."""
    weights = R.normal(size=np.asarray(f(*[td.array(a) for a in arguments])).shape)

    def loss(*args):
        return td.sum(f(*args) * td.array(weights))

    gradients = td.grad(loss, argnums=tuple(range(len(arguments))))(*[td.array(a) for a in arguments])
    for i, (a, g) in enumerate(zip(arguments, gradients)):
        direction = R.normal(size=a.shape)
        h = 1e-6

        def at(t):
            moved = [td.array(b + t * direction if i == k else b) for k, b in enumerate(arguments)]
            return float(loss(*moved))

        numeric = (at(h) - at(-h)) / (2 * h)
        assert math.isclose(numeric, float(np.sum(np.asarray(g) * direction)), rel_tol=2e-5, abs_tol=1e-7)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    check_value(getattr(td, name)(X), getattr(np, name)(X))
    check_gradient(getattr(td, name), X)


@pytest.mark.parametrize("name", NO_GRADIENT)
def test_unary_without_gradient(name):
    for x in (X, 5 * A, np.array([0.0, -0.0, np.inf, -np.inf, np.nan])):
        check_value(getattr(td, name)(x), getattr(np, name)(x))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    check_value(getattr(td, name)(X, Y), getattr(np, name)(X, Y))
    check_value(getattr(td, name)(X, Y[0]), getattr(np, name)(X, Y[0]))
    check_value(getattr(td, name)(X, 0.5), getattr(np, name)(X, 0.5))
    check_gradient(getattr(td, name), X, Y)
    check_gradient(getattr(td, name), X, Y[0])


@pytest.mark.parametrize("name", COMPARE)
def test_comparisons(name):
    check_value(getattr(td, name)(X, Y), getattr(np, name)(X, Y))
    check_value(getattr(td, name)(X, X), getattr(np, name)(X, X))


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    f, g = getattr(td, name), getattr(np, name)
    check_value(f(X, axis=axis, keepdims=keepdims), g(X, axis=axis, keepdims=keepdims))
    check_value(getattr(td.array(X), name.replace("am", "m"))(axis=axis), g(X, axis=axis))
    check_gradient(lambda x: f(x, axis=axis, keepdims=keepdims), X)


@pytest.mark.parametrize("name", ["all", "any", "count_nonzero"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_counts(name, axis):
    check_value(getattr(td, name)(X > 0.5, axis=axis), getattr(np, name)(X > 0.5, axis=axis))


@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_along_axes(name, axis):
    check_value(getattr(td, name)(X, axis=axis), getattr(np, name)(X, axis=axis))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_order(axis):
    check_value(td.sort(X, axis=axis), np.sort(X, axis=axis))
    check_value(td.argsort(X, axis=axis), np.argsort(X, axis=axis, kind="stable"))
    check_value(td.median(X, axis=axis), np.median(X, axis=axis))
    check_gradient(lambda x: td.sort(x, axis=axis), X)


SHAPES = [
    ("reshape", lambda m, x: m.reshape(x, (2, 6))),
    ("reshape -1", lambda m, x: m.reshape(x, (-1, 2))),
    ("ravel", lambda m, x: m.ravel(x)),
    ("transpose", lambda m, x: m.transpose(x)),
    ("transpose axes", lambda m, x: m.transpose(x, (1, 0))),
    ("swapaxes", lambda m, x: m.swapaxes(x, 0, 1)),
    ("moveaxis", lambda m, x: m.moveaxis(x, 0, -1)),
    ("expand_dims", lambda m, x: m.expand_dims(x, 1)),
    ("squeeze", lambda m, x: m.squeeze(m.expand_dims(x, 0))),
    ("broadcast_to", lambda m, x: m.broadcast_to(x, (2, 3, 4))),
    ("flip", lambda m, x: m.flip(x, 1)),
    ("roll", lambda m, x: m.roll(x, 2, 1)),
    ("roll all", lambda m, x: m.roll(x, 5)),
    ("repeat", lambda m, x: m.repeat(x, 3, 0)),
    ("tile", lambda m, x: m.tile(x, (2, 2))),
    ("concatenate", lambda m, x: m.concatenate([x, x * 2], axis=1)),
    ("stack", lambda m, x: m.stack([x, x * 2], axis=1)),
    ("hstack", lambda m, x: m.hstack([x, x])),
    ("vstack", lambda m, x: m.vstack([x, x])),
    ("split", lambda m, x: m.split(x, 2, 1)[1]),
    ("pad", lambda m, x: m.pad(x, 1)),
    ("pad widths", lambda m, x: m.pad(x, [(0, 1), (2, 0)], constant_values=3)),
    ("tril", lambda m, x: m.tril(x, -1)),
    ("triu", lambda m, x: m.triu(x, 1)),
    ("diag", lambda m, x: m.diag(x[0])),
    ("diff", lambda m, x: m.diff(x, axis=0)),
    ("take", lambda m, x: m.take(x, np.array([2, 0, 0]), axis=0)),
    ("take_along_axis", lambda m, x: m.take_along_axis(x, np.array([[1], [0], [3]]), 1)),
    ("clip", lambda m, x: m.clip(x, 0.3, 0.7)),
    ("where", lambda m, x: m.where(X > 0.5, x, 0.0)),
    ("matmul", lambda m, x: m.matmul(x, x.T)),
    ("dot", lambda m, x: m.dot(x, x[0])),
    ("outer", lambda m, x: m.outer(x[0], x[1])),
    ("inner", lambda m, x: m.inner(x, x)),
    ("kron", lambda m, x: m.kron(x, x[:2])),
    ("cross", lambda m, x: m.cross(x.T, x.T * 2 + 1)),
    ("tensordot", lambda m, x: m.tensordot(x, x, axes=([0], [0]))),
    ("einsum", lambda m, x: m.einsum("ij,kj->ki", x, x)),
    ("einsum implicit", lambda m, x: m.einsum("ij,ij", x, x)),
    ("meshgrid", lambda m, x: m.meshgrid(x[0], x[1])[1]),
    ("nan_to_num", lambda m, x: m.nan_to_num(x)),
]


@pytest.mark.parametrize("name,f", SHAPES, ids=[s[0] for s in SHAPES])
def test_shapes(name, f):
    check_value(f(td, td.array(X)), f(np, X))
    check_gradient(lambda x: f(td, x), X)


LINALG = [
    ("det", lambda m, x: m.linalg.det(x)),
    ("inv", lambda m, x: m.linalg.inv(x)),
    ("cholesky", lambda m, x: m.linalg.cholesky((x + x.T) / 2)),
    ("solve", lambda m, x: m.linalg.solve(x, x[0] * 2)),
    ("slogdet", lambda m, x: m.linalg.slogdet(x)[1]),
    ("norm", lambda m, x: m.linalg.norm(x)),
    ("eigh", lambda m, x: m.linalg.eigh((x + x.T) / 2)[0]),
    ("svd", lambda m, x: m.linalg.svd(x)[1]),
]


@pytest.mark.parametrize("name,f", LINALG, ids=[s[0] for s in LINALG])
def test_linalg(name, f):
    check_value(f(td, td.array(SPD)), f(np, SPD))
    check_gradient(lambda x: f(td, x), SPD)


def test_creation():
    check_value(td.zeros((2, 3)), np.zeros((2, 3)))
    check_value(td.ones(3, dtype=td.int32), np.ones(3, np.int32))
    check_value(td.full((2,), 7), np.full((2,), 7))
    check_value(td.arange(5), np.arange(5))
    check_value(td.arange(1, 8, 2), np.arange(1, 8, 2))
    check_value(td.arange(0.0, 1.0, 0.25), np.arange(0.0, 1.0, 0.25))
    check_value(td.linspace(0, 1, 5), np.linspace(0, 1, 5))
    check_value(td.eye(3), np.eye(3))
    check_value(td.zeros_like(X), np.zeros_like(X))
    check_value(td.one_hot([0, 2], 3), np.eye(3)[[0, 2]])


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"])
def test_dtypes(dtype):
    x = np.array([[0, 1], [1, 1]]).astype(dtype)
    y = td.array(x)
    assert y.dtype == getattr(td, "bool_" if dtype == "bool" else dtype)
    assert y.dtype == np.dtype(dtype) and y.dtype.name == dtype
    assert np.asarray(y).dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y), x)
    assert td.zeros(2, dtype=x.dtype).dtype == y.dtype
    assert td.array([0, 1], dtype=dtype).astype(td.complex128).dtype == td.complex128


@pytest.mark.parametrize("name", "add sub mul truediv pow mod floordiv matmul and or xor eq ne lt le gt ge".split())
def test_operators(name):
    import operator

    f = getattr(operator, name + "_" if name in ("and", "or") else name)
    a, b = (np.array([[1, 2], [3, 4]]), np.array([[3, 1], [2, 2]]))
    if name not in ("and", "or", "xor"):
        a, b = a + 0.25, b + 0.5
    check_value(f(td.array(a), td.array(b)), f(a, b))
    check_value(f(td.array(a), b), f(a, b))
    check_value(f(a, td.array(b)), f(a, b))
    if name != "matmul":
        check_value(f(td.array(a), 2), f(a, 2))
        check_value(f(2, td.array(a)), f(2, a))


def test_numbers_take_the_dtype_of_arrays():
    x = td.ones(3, dtype=td.float32)
    assert (x * 2).dtype == td.float32
    assert (2.5 * x).dtype == td.float32
    assert (x + 1j).dtype == td.complex64
    assert (td.arange(3) / 2).dtype == td.float64


def test_scalars():
    x = td.array(2.5)
    assert float(x) == 2.5 and x.item() == 2.5 and bool(x)
    assert int(td.array(7)) == 7 and [10, 20, 30][td.array(1)] == 20
    assert complex(td.array(1 + 2j)) == 1 + 2j
    assert isinstance(td.array(True).item(), bool)
    assert td.array([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert len(td.ones((4, 2))) == 4 and [float(v) for v in td.array([1.0, 2.0])] == [1.0, 2.0]


def test_nested_lists():
    check_value(td.array([[True, False]]), np.array([[True, False]]))
    check_value(td.array([[1, 2.5], [3, 4]]), np.array([[1, 2.5], [3, 4]]))
    check_value(td.array([1, 2j]), np.array([1, 2j]))
    check_value(td.array([]), np.array([]))
    check_value(td.array([td.array(1.0), 2.0]), np.array([1.0, 2.0]))
    with pytest.raises(td.TypeMismatchError):
        td.array([[1, 2], [3]])
    with pytest.raises(OverflowError):
        td.array([2**70])


def test_random():
    key = td.random.key(0)
    a, b = td.random.split(key)
    assert np.asarray(td.random.normal(a, (1000,))).std() == pytest.approx(1, abs=0.1)
    np.testing.assert_array_equal(td.random.uniform(a, (3,)).numpy(), td.random.uniform(a, (3,)).numpy())
    assert not np.array_equal(td.random.uniform(a, (3,)).numpy(), td.random.uniform(b, (3,)).numpy())
    assert sorted(td.random.permutation(a, 5).tolist()) == [0, 1, 2, 3, 4]
    assert set(td.random.randint(a, (100,), 2, 5).tolist()) == {2, 3, 4}


def test_neural():
    x = np.linspace(-2, 2, 9)
    check_value(td.nn.relu(x), np.maximum(x, 0))
    check_value(td.nn.sigmoid(x), 1 / (1 + np.exp(-x)))
    check_value(td.nn.silu(x), x / (1 + np.exp(-x)))
    check_value(td.softmax(X), np.exp(X) / np.exp(X).sum(-1, keepdims=True))
    image = R.normal(size=(1, 2, 5, 5))
    kernel = R.normal(size=(3, 2, 3, 3))
    expected = np.zeros((1, 3, 3, 3))
    for i in range(3):
        for j in range(3):
            expected[:, :, i, j] = np.tensordot(image[:, :, i : i + 3, j : j + 3], kernel, ((1, 2, 3), (1, 2, 3)))
    check_value(td.nn.conv2d(image, kernel), expected)
    check_gradient(td.nn.conv2d, image, kernel)
