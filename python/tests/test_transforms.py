"""Transforms of functions, with structures of arguments and results."""

import dataclasses
import typing

import numpy as np
import pytest
import tidu as td


@dataclasses.dataclass
class Layer:
    w: td.Array
    b: td.Array
    name: str = "layer"


class Pair(typing.NamedTuple):
    a: object
    b: object


def close(got, expected):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-9, atol=1e-12)


X = td.array([0.0, 1.0, 2.0])


def f(x):
    return td.sum(x * td.sin(x))


def df(x):
    x = np.asarray(x)
    return np.sin(x) + x * np.cos(x)


def ddf(x):
    x = np.asarray(x)
    return np.diag(2 * np.cos(x) - x * np.sin(x))


def test_grad():
    close(td.grad(f)(X), df(X))
    close(td.grad(lambda x: x * x * x)(2.0), 12.0)
    close(td.grad(td.grad(lambda x: x * x * x))(2.0), 12.0)
    close(td.grad(td.grad(td.grad(td.sin)))(0.5), -np.cos(0.5))
    value, gradient = td.value_and_grad(f)(X)
    close(value, f(X))
    close(gradient, df(X))


def test_argnums_and_aux():
    def g(x, y, scale=1.0):
        return td.sum(x * y) * scale

    a, b = td.array([1.0, 2.0]), td.array([3.0, 4.0])
    close(td.grad(g, argnums=1)(a, b), a)
    close(td.grad(g, argnums=-1)(a, b), a)
    da, db = td.grad(g, argnums=(0, 1))(a, b, scale=2.0)
    close(da, 2 * b)
    close(db, 2 * a)

    def h(x):
        return f(x), {"x": x * 2, "n": 3}

    gradient, aux = td.grad(h, has_aux=True)(X)
    close(gradient, df(X))
    close(aux["x"], X * 2)
    assert aux["n"] == 3
    (value, aux), gradient = td.value_and_grad(h, has_aux=True)(X)
    close(value, f(X))
    with pytest.raises(td.InvalidArgumentError, match="has_aux"):
        td.grad(h)(X)
    with pytest.raises(td.InvalidArgumentError, match="scalar"):
        td.grad(td.sin)(X)
    with pytest.raises(td.InvalidArgumentError):
        td.grad(f, argnums=1)(X)


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: {"w": a, "b": b, "name": "net", "none": None},
        lambda a, b: [a, (b, 3)],
        lambda a, b: Pair(a, b),
        lambda a, b: Layer(a, b),
        lambda a, b: {"layers": [Layer(a, b), {"x": (a,)}]},
    ],
)
def test_structures(make):
    tree = make(td.array([1.0, 2.0]), td.array([3.0, 4.0]))
    leaves, treedef = td.tree_flatten(tree)

    def loss(t):
        return sum(td.sum(leaf * leaf) for leaf in td.tree_leaves(t))

    gradient = td.grad(loss)(tree)
    assert type(gradient) is type(tree)
    assert td.tree_flatten(gradient)[1] == treedef
    for leaf, g in zip(leaves, td.tree_leaves(gradient)):
        close(g, 2 * leaf)
    y, t = td.jvp(loss, (tree,), (tree,))
    close(t, 2 * y)
    y, pullback = td.vjp(loss, tree)
    (back,) = pullback(1.0)
    assert td.tree_flatten(back)[1] == treedef
    close(td.jit(loss)(tree), loss(tree))
    same = td.jit(lambda t: t)(tree)
    assert td.tree_flatten(same)[1] == treedef
    (product,) = td.hvp(loss, (tree,), (tree,))
    for leaf, g in zip(leaves, td.tree_leaves(product)):
        close(g, 2 * leaf)
    stepped = td.tree_map(lambda p, g: p - 0.5 * g, tree, gradient)
    for leaf in td.tree_leaves(stepped):
        close(leaf, 0 * leaf)


def test_registered_class():
    class Box:
        def __init__(self, content, label):
            self.content, self.label = content, label

    td.register_pytree(Box, lambda b: ((b.content,), b.label), lambda label, c: Box(c[0], label))
    gradient = td.grad(lambda b: td.sum(b.content * b.content))(Box(X, "x"))
    assert isinstance(gradient, Box) and gradient.label == "x"
    close(gradient.content, 2 * X)


def test_jvp_vjp():
    y, t = td.jvp(f, (X,), (td.ones(3),))
    close(y, f(X))
    close(t, df(X).sum())
    y, pullback = td.vjp(lambda x: {"a": x * 2, "b": td.sin(x)}, X)
    (ct,) = pullback({"a": td.ones(3), "b": td.ones(3)})
    close(ct, 2 + np.cos(X))
    with pytest.raises(td.InvalidArgumentError, match="structure"):
        pullback(td.ones(3))
    y, pullback, aux = td.vjp(lambda x: (td.sin(x), x * 3), X, has_aux=True)
    close(aux, 3 * X)
    close(pullback(td.ones(3))[0], np.cos(X))
    close(td.vmap(td.vjp(td.sin, X)[1])(td.eye(3))[0], np.diag(np.cos(X)))


def test_jacobians():
    close(td.hessian(f)(X), ddf(X))
    close(td.hvp(f, X, td.ones(3)), ddf(X).sum(1))
    close(td.jacfwd(td.sin)(X), np.diag(np.cos(X)))
    close(td.jacrev(td.sin)(X), np.diag(np.cos(X)))
    j = td.jacrev(lambda d: {"s": d["x"] * d["y"]})({"x": X, "y": 2.0})
    close(j["s"]["x"], 2 * np.eye(3))
    close(j["s"]["y"], X)
    h = td.hessian(lambda d: td.sum(d["x"] * d["x"] * d["y"]))({"x": X, "y": 2.0})
    close(h["x"]["y"], 2 * X)
    close(h["y"]["y"], 0.0)
    a, b = td.jacfwd(lambda x, y: x * y, argnums=(0, 1))(X, X + 1)
    close(a, np.diag(X + 1))
    close(b, np.diag(X))


def test_vmap():
    m = np.arange(6.0).reshape(2, 3)
    close(td.vmap(f)(m), [float(f(td.array(row))) for row in m])
    close(td.vmap(f, in_axes=1)(m), [float(f(td.array(c))) for c in m.T])
    close(td.vmap(lambda a, b: a * b, in_axes=(0, None))(td.array(m), X), m * np.asarray(X))
    close(td.vmap(lambda a: a * 2, out_axes=1)(td.array(m)), (m * 2).T)
    close(td.vmap(td.grad(f))(td.array(m)), [df(row) for row in m])
    out = td.vmap(lambda d: {"a": d["x"] + d["y"], "b": d["x"]}, in_axes=({"x": 0, "y": None},), out_axes={"a": 0, "b": 1})(
        {"x": td.array(m), "y": X}
    )
    close(out["a"], m + np.asarray(X))
    close(out["b"], m.T)
    with pytest.raises(td.InvalidArgumentError):
        td.vmap(f, in_axes=(0, 0))(m)


def test_jit_static():
    traces = []

    def g(x, power, scale=1.0, mode="up"):
        traces.append((power, scale, mode))
        assert isinstance(power, float) and isinstance(scale, float)
        return scale * x**power if mode == "up" else x

    static = td.jit(g, static_argnums=(1, 2), static_argnames="scale")
    close(static(X, 2.0), X**2)
    close(static(X, 2.0), X**2)
    assert traces == [(2.0, 1.0, "up")] and static.num_traced == 1
    close(static(X, 3.0), X**3)
    close(static(X, 2.0, 4.0), 4 * X**2)
    close(static(X, 2.0, scale=5.0), 5 * X**2)
    close(static(X, 2.0, scale=5.0), 5 * X**2)
    assert len(traces) == 4 == static.num_traced
    close(td.grad(lambda x: td.sum(static(x, 2.0)))(X), 2 * X)
    close(td.vmap(lambda x: static(x, 2.0))(X), X**2)
    traced = []
    last = td.jit(lambda *args: traced.append(type(args[-1])) or args[0] * args[-1], static_argnums=-1)
    close(last(X, 2.0), 2 * X)
    close(last(X, X, 3.0), 3 * X)
    assert traced == [float, float]
    first = td.jit(lambda f, x: f(x), static_argnums=0)
    close(first(td.sin, X), np.sin(X))
    close(first(td.cos, X), np.cos(X))
    with pytest.raises(td.InvalidArgumentError, match="can be hashed"):
        td.jit(lambda x, n: x, static_argnums=1)(X, [1])


def test_jit():
    traces = []

    @td.jit
    def g(x, n, *, flag="a"):
        """Says n."""
        traces.append(n)
        return x * n if flag == "a" else x

    close(g(X, 2), 2 * X)
    close(g(X, 2), 2 * X)
    assert traces == [2]
    close(g(X, 3), 3 * X)
    close(g(X, 3, flag="b"), X)
    close(g(td.array([1.0]), 3), [3.0])
    assert traces == [2, 3, 3, 3] and g.num_traced == 4
    assert g.__doc__ == "Says n." and g.__name__ == "g"
    close(td.grad(td.jit(f))(X), df(X))
    close(td.jit(td.grad(f))(X), df(X))
    close(td.jit(lambda x, k: x * k["a"])(X, {"a": 2.0}), 2 * X)

    class Model:
        @td.jit
        def predict(self, x):
            return x + 1

    close(Model().predict(X), X + 1)
    with pytest.raises(td.InvalidArgumentError):
        kept = []
        td.jit(lambda x: kept.append(x * 2) or x)(X)
    with pytest.raises(td.InvalidArgumentError):
        td.jit(lambda x: x if x[0] > 0 else -x)(X)
    w = td.array(2.0).requires_grad_()
    td.jit(lambda x: td.sum(x) * w)(X).backward()
    close(w.grad, 3.0)
    with pytest.raises(ZeroDivisionError):
        td.jit(lambda x: x * (1 // 0))(X)


def test_loops():
    def decay(rate):
        return td.scan(lambda level, x: ((n := level * rate + x), n * n), 0.0, td.array([1.0, 2.0, 3.0]))

    last, squares = decay(td.array(0.5))
    close(last, 4.25)
    close(squares, [1, 6.25, 18.0625])
    close(td.grad(lambda r: td.sum(decay(r)[1]))(0.5), 30.5)
    close(td.hessian(lambda r: td.sum(decay(r)[1]))(0.5), 37.0)
    carry, ys = td.scan(lambda c, _: ({"n": c["n"] + 1}, None), {"n": 0}, None, length=4)
    assert carry["n"].item() == 4 and ys is None
    carry, ys = td.scan(lambda c, x: (c + x, c), 0.0, td.arange(3.0), reverse=True)
    close(ys, [3, 2, 0])

    def root(a):
        return td.while_loop(lambda x: abs(x * x - a) > 1e-10, lambda x: 0.5 * (x + a / x), 1.0, 50)

    close(root(2.0), np.sqrt(2))
    close(td.grad(root)(2.0), 0.5 / np.sqrt(2))
    close(td.vmap(root)(td.array([0.01, 1.0, 100.0])), [0.1, 1, 10])
    assert td.while_loop(lambda c: c[0] < 10, lambda c: (c[0] * 2, c[1]), (1, X))[0].item() == 16
    close(td.fori_loop(0, 4, lambda i, c: c * 3.0, 1.0), 81.0)
    close(td.grad(lambda x: td.fori_loop(0, 4, lambda i, c: c * x, 1.0))(3.0), 108.0)
    close(td.fori_loop(0, td.array(4), lambda i, c: c + i.astype(td.float64), 0.0), 6.0)
    with pytest.raises(td.ADRuleError):
        td.grad(lambda x: td.while_loop(lambda c: c < 10.0, lambda c: c * x, 1.0))(3.0)
    with pytest.raises(td.InvalidArgumentError, match="carry"):
        td.scan(lambda c, x: ((c, c), x), 0.0, X)
    with pytest.raises(td.InvalidArgumentError, match="pair"):
        td.scan(lambda c, x: c, 0.0, X)


def test_choices():
    def g(x):
        return td.cond(x > 0, lambda a: {"y": a * 2}, lambda a: {"y": -a}, x)["y"]

    close(g(td.array(3.0)), 6.0)
    close(g(td.array(-3.0)), 3.0)
    close(td.grad(g)(-1.0), -1.0)
    close(td.vmap(g)(td.array([1.0, -1.0])), [2, 1])
    close(td.switch(1, [lambda x: x, lambda x: x * 10], td.array(2.0)), 20.0)
    close(td.switch(td.array(7), [lambda x: x, lambda x: x * 10], td.array(2.0)), 20.0)
    with pytest.raises(td.InvalidArgumentError, match="structure"):
        td.cond(td.array(True), lambda: (1.0, 2.0), lambda: 1.0)


def test_custom_rules():
    @td.custom_jvp
    def g(x):
        return td.sin(x)

    @g.defjvp
    def _(primals, tangents):
        return g(primals[0]), 3.0 * tangents[0]

    close(g(1.0), np.sin(1.0))
    close(td.grad(g)(1.0), 3.0)
    close(td.jvp(g, (1.0,), (2.0,))[1], 6.0)
    close(td.grad(td.grad(lambda x: g(x) * x))(1.0), 6.0)

    @td.custom_vjp
    def clipped(x, y):
        return {"z": x * y}

    clipped.defvjp(lambda x, y: ({"z": x * y}, (x, y, "kept")), lambda r, ct: (td.clip(ct["z"] * r[1], -1.0, 1.0), None))
    a, b = td.grad(lambda x, y: clipped(x, y)["z"], argnums=(0, 1))(2.0, 30.0)
    close(a, 1.0)
    close(b, 0.0)
    w = td.array(2.0).requires_grad_()
    clipped(w, 30.0)["z"].backward()
    close(w.grad, 1.0)
    close(td.vmap(td.grad(lambda x: clipped(x, 3.0)["z"]))(X), [1, 1, 1])
    with pytest.raises(td.InvalidArgumentError, match="defjvp"):
        td.custom_jvp(lambda x: x)(1.0)


def test_checkpoint():
    g = td.checkpoint(f)
    close(td.grad(g)(X), df(X))
    w = td.array(2.0).requires_grad_()
    td.checkpoint(lambda x: td.sum(td.sin(x) * w))(X).backward()
    close(w.grad, np.sin(X).sum())
    close(td.grad(td.checkpoint(f, save="everything"))(X), df(X))
    assert "checkpoint" in td.trace(g, X).operations


def test_exceptions_pass_through():
    class Mine(Exception):
        pass

    def bad(x):
        raise Mine("here")

    for transform in (td.grad(bad), td.jit(bad), td.vmap(bad), td.jacfwd(bad), td.checkpoint(bad)):
        with pytest.raises(Mine, match="here"):
            transform(X)
    with pytest.raises(Mine):
        td.scan(lambda c, x: bad(x), 0.0, X)
    close(td.grad(f)(X), df(X))
