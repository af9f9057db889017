"""Primitives and executors in Python: rules in every mode, at several orders, and who runs what."""

import numpy as np
import pytest
import tidu as td
from threads import in_threads


def close(got, expected, rtol=1e-9):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=rtol, atol=1e-12)


log_cosh = td.Primitive(
    "test.log_cosh",
    elementwise=True,
    kernel=lambda x: np.log(np.cosh(x)),
    jvp=lambda primals, tangents: td.tanh(primals[0]) * tangents[0],
)
turn = td.Primitive(
    "test.turn",
    attributes={"by": int},
    infer=lambda x, by: x,
    kernel=lambda x, by: np.roll(x, by, -1),
    linear="all",
    transpose=lambda cotangent, operands, by: turn(cotangent, by=-by),
    batch=lambda operands, batched, size, by: turn(operands[0], by=by),
)


def scaled_kernel(x, y, power):
    return x**power * y, x + y


# (x^power y, x + y): a rule with several operands and results, of which some have no tangent.
def scaled_jvp(primals, tangents, power):
    (x, y), (tx, ty) = primals, tangents
    first = [0.0 * x] + ([power * x ** (power - 1) * y * tx] if tx is not None else [])
    first += [x**power * ty] if ty is not None else []
    second = [t for t in tangents if t is not None]
    return sum(first[1:], first[0]), sum(second[1:], second[0])


scaled = td.Primitive(
    "test.scaled",
    attributes={"power": 2},
    num_operands=2,
    num_results=2,
    elementwise=True,
    infer=lambda x, y, power: (x, y),
    kernel=scaled_kernel,
    jvp=scaled_jvp,
)


def smooth(x):
    return td.sum(log_cosh(turn(x, by=1) - x))


def smooth_numpy_gradient(x):
    t = np.tanh(np.roll(x, 1) - x)
    return np.roll(t, -1) - t


X = np.array([0.0, 1.0, 3.0, 2.0])


def test_values():
    close(log_cosh(X), np.log(np.cosh(X)))
    close(turn(td.array(X), by=-1), np.roll(X, -1))
    y, z = scaled(X, 2.0 * X)
    close(y, 2 * X**3)
    close(z, 3 * X)
    close(scaled(X, X, power=3)[0], X**4)
    assert repr(turn) == "Primitive('test.turn')"


@pytest.mark.parametrize("wrap", [lambda f: f, td.jit])
def test_derivatives(wrap):
    close(wrap(td.grad(smooth))(X), smooth_numpy_gradient(X))
    close(wrap(td.jacrev(td.grad(smooth)))(X), wrap(td.hessian(smooth))(X))
    step = 1e-6
    column = (smooth_numpy_gradient(X + step * np.eye(4)[1]) - smooth_numpy_gradient(X - step * np.eye(4)[1])) / (2 * step)
    close(td.hessian(smooth)(X)[1], column, rtol=1e-6)
    _, tangent = td.jvp(smooth, (X,), (np.ones(4),))
    close(tangent, smooth_numpy_gradient(X).sum())


def test_tape():
    w = td.array(X).requires_grad_()
    smooth(w).backward()
    close(w.grad, smooth_numpy_gradient(X))
    w.zero_grad()
    y = smooth(w)
    (g,) = td.grad_of([y], [w], create_graph=True)
    td.sum(g * g).backward(workers=2)
    close(w.grad, 2 * np.asarray(td.hessian(smooth)(X)) @ smooth_numpy_gradient(X))


def test_several_results():
    def f(x, y):
        a, b = scaled(x, y)
        return td.sum(a * b)

    gx, gy = td.grad(f, argnums=(0, 1))(X, X + 1)
    x, y = X, X + 1
    close(gx, 2 * x * y * (x + y) + x**2 * y)
    close(gy, x**2 * (x + y) + x**2 * y)
    only_y = td.grad(lambda y: td.sum(scaled(X, y)[0]))(X)
    close(only_y, X**2)


def test_vmap():
    xs = np.stack([X, X + 1, 2 * X])
    close(td.vmap(td.grad(smooth))(xs), [smooth_numpy_gradient(x) for x in xs])
    close(td.vmap(lambda x, y: scaled(x, y)[0], in_axes=(0, None))(xs, X), xs**2 * X)


def test_check_gradients():
    assert td.check_gradients(smooth, td.array(X)).ok
    wrong = td.Primitive(
        "test.wrong", elementwise=True, kernel=np.sin, jvp=lambda primals, tangents: td.sin(primals[0]) * tangents[0]
    )
    report = td.check_gradients(lambda x: td.sum(wrong(x)), td.array(X))
    assert not report.ok and "test.wrong" in str(report)


def test_dumps():
    g = td.trace(smooth, X)
    assert g.operations == ["test.turn", "sub", "test.log_cosh", "reduce_sum"]
    again = td.Graph.from_json(g.to_json())
    assert again == g
    close(again.grad()(X)[0], smooth_numpy_gradient(X))


def test_defined_again():
    for factor in (2.0, 3.0):
        again = td.Primitive(
            "test.again",
            elementwise=True,
            kernel=lambda x, factor=factor: factor * x,
            jvp=lambda primals, tangents, factor=factor: factor * tangents[0],
        )
        close(again(X), factor * X)
        close(td.grad(lambda x: td.sum(again(x)))(X), np.full(4, factor))


def test_errors():
    with pytest.raises(td.InvalidArgumentError, match="sin"):
        td.Primitive("sin", elementwise=True)
    with pytest.raises(td.InvalidArgumentError, match="type rule"):
        td.Primitive("test.untyped")
    with pytest.raises(td.InvalidArgumentError, match="attribute 'by'"):
        td.Primitive("test.attributes", elementwise=True, attributes={"by": 1.5})
    with pytest.raises(td.AttributeValueError, match="by"):
        turn(X)
    with pytest.raises(td.AttributeValueError, match='expected its attributes, got "further"'):
        turn(X, by=1, further=2)
    with pytest.raises(td.AttributeValueError, match="integer, got 'far'"):
        turn(X, by="far")
    with pytest.raises(td.TypeMismatchError, match="one type"):
        td.Primitive("test.pair", elementwise=True, num_operands=2)(X, td.ones(3))
    with pytest.raises(td.ExecutionError, match="test.bare"):
        td.Primitive("test.bare", elementwise=True)(X)
    with pytest.raises(td.ADRuleError, match="test.bare"):
        td.grad(lambda x: td.sum(td.Primitive("test.bare", elementwise=True, kernel=np.sin)(x)))(X)
    with pytest.raises(td.ExecutionError, match="expected result 0 of type"):
        td.Primitive("test.short", elementwise=True, kernel=lambda x: x[:2])(X)


@pytest.mark.parametrize("rule", ["infer", "kernel", "jvp"])
def test_exceptions_pass(rule):
    def raising(*args, **attributes):
        raise KeyError(f"of {rule}")

    rules = dict(kernel=np.sin, jvp=lambda primals, tangents: tangents[0])
    bad = td.Primitive(f"test.bad_{rule}", elementwise=True, **(rules | {rule: raising}))
    with pytest.raises(KeyError, match=f"of {rule}") as info:
        td.grad(lambda x: td.sum(bad(x)))(X)
    assert info.tb.tb_next is not None
    if hasattr(info.value, "__notes__"):
        assert f"test.bad_{rule}" in info.value.__notes__[0]


def test_threads():
    """Rules and kernels take the lock of the interpreter while other threads have it, and compute."""

    def work(k):
        x = X + k
        for _ in range(20):
            w = td.array(x).requires_grad_()
            smooth(w).backward(workers=2)
            close(w.grad, smooth_numpy_gradient(x))
            close(td.jit(td.grad(smooth))(x), smooth_numpy_gradient(x))

    in_threads(work, 4)


class Counting(td.Executor):
    def __init__(self):
        self.ran, self.linear, self.sums = [], 0, 0

    def run_operation(self, operation, inputs):
        self.ran.append(operation.name)
        if operation.name == "sin":
            return [np.sin(np.asarray(inputs[0]))]
        return super().run_operation(operation, inputs)

    def run_transposed_linear(self, graph, inputs):
        self.linear += 1
        return super().run_transposed_linear(graph, inputs)

    def add_operands(self, a, b):
        self.sums += 1
        return super().add_operands(a, b)


def test_executor():
    executor = Counting()
    with td.use_executor(executor):
        w = td.array(X).requires_grad_()
        a = td.sin(w)
        td.sum(a * w).backward()
        close(w.grad, np.sin(X) + X * np.cos(X))
        assert "sin" in executor.ran and "cos" in executor.ran
        assert executor.linear > 0 and executor.sums > 0
        executor.ran.clear()
        close(td.jit(lambda x: td.sum(td.sin(x)))(X), np.sin(X).sum())
        assert "sin" in executor.ran
        close(smooth(td.array(X)), np.log(np.cosh(np.roll(X, 1) - X)).sum())
        assert "test.log_cosh" in executor.ran
    executor.ran.clear()
    td.sin(X)
    assert executor.ran == []


def test_executor_errors():
    class Failing(td.Executor):
        def execute_forward(self, graph, inputs):
            raise KeyError("forward")

    class Short(td.Executor):
        def execute_forward(self, graph, inputs):
            return []

    class Wrong(td.Executor):
        def execute_forward(self, graph, inputs):
            return [td.ones(7)]

    with td.use_executor(Failing()), pytest.raises(KeyError, match="forward"):
        td.sin(td.array(X))
    with td.use_executor(Short()), pytest.raises(td.ExecutionError, match="expected 1 outputs, got 0"):
        td.sin(td.array(X))
    with td.use_executor(Wrong()), pytest.raises(td.ExecutionError, match=r"f64\[4\], got f64\[7\]"):
        td.sin(td.array(X))


def test_operations():
    g = td.trace(lambda x: td.sum(td.sin(x) * x), X)
    steps = g.steps
    assert [s.name for s in steps] == ["sin", "mul", "reduce_sum"]
    assert steps[2].attributes == {"axes": (0,)} and steps[0].inputs == g.input_values
    assert steps[2].outputs == g.output_values and "test_primitives.py:" in steps[0].where
    close(steps[0](X)[0], np.sin(X))
