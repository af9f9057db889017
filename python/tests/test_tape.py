"""The tape: backward, hooks, modes, explain; graphs; errors; threads."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import tidu as td
from threads import in_threads


def close(got, expected):
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-9, atol=1e-12)


def f(x):
    return td.sum(x * td.sin(x))


def leaf(values, name=""):
    return td.array(values).requires_grad_(name=name)


def test_backward():
    w = leaf([0.0, 1.0, 2.0])
    y = f(w)
    assert y.requires_grad and not y.is_leaf and w.is_leaf and w.grad is None
    y.backward()
    x = np.array([0.0, 1.0, 2.0])
    close(w.grad, np.sin(x) + x * np.cos(x))
    f(w).backward()
    close(w.grad, 2 * (np.sin(x) + x * np.cos(x)))
    w.grad = None
    assert w.grad is None
    td.sin(w).backward(td.ones(3))
    close(w.grad, np.cos(x))
    w.zero_grad()
    y = td.sum(w * w * w)
    (g,) = td.grad_of([y], [w], create_graph=True)
    td.sum(g).backward()
    close(w.grad, 6 * x)


def test_tape_is_freed():
    w = leaf([1.0])
    y = td.sum(w * w)
    y.backward(keep_graph=True)
    y.backward()
    with pytest.raises(td.TapeError):
        y.backward()


def test_training_step():
    w = leaf([5.0])
    for _ in range(50):
        td.sum(td.square(w - 2.0)).backward()
        with td.no_grad():
            w -= 0.1 * w.grad
        w.zero_grad()
        assert w.requires_grad
    close(w, [2.0 + 3.0 * 0.8**50])


def test_hooks():
    seen = []
    w = leaf([1.0, 2.0])
    y = w * 3.0
    handle = y.register_hook(lambda ct: seen.append(ct.tolist()))
    scaled = y.register_hook(lambda ct: ct * 10.0)
    td.sum(y).backward(keep_graph=True)
    assert seen == [[1.0, 1.0]]
    close(w.grad, [30, 30])
    handle.remove()
    scaled.remove()
    w.zero_grad()
    td.sum(y).backward(workers=2)
    assert len(seen) == 1
    close(w.grad, [3, 3])

    def bad(ct):
        raise KeyError("hook")

    (y2 := w * 2.0).register_hook(bad)
    with pytest.raises(KeyError):
        td.sum(y2).backward()


def test_hooks_replace_and_stop():
    w = leaf([1.0, 2.0])
    y = w * 3.0
    order = []
    y.register_hook(lambda ct: order.append("first"))
    y.register_hook(lambda ct: order.append("second") or 2.0 * ct)
    w.register_hook(lambda ct: order.append("leaf") or -ct)
    td.sum(y).backward(keep_graph=True)
    assert order == ["first", "second", "leaf"]
    close(w.grad, [-6, -6])
    with pytest.raises(td.Error, match="hook|type|f64"):
        (z := w * 2.0).register_hook(lambda ct: td.ones(5))
        td.sum(z).backward()

    def wrong(ct):
        return "text"

    with pytest.raises(td.TypeMismatchError, match="of type str"):
        (z := w * 2.0).register_hook(wrong)
        td.sum(z).backward()


def test_modes():
    w = leaf([1.0])
    assert td.grad_enabled()
    with td.no_grad():
        assert not td.grad_enabled()
        assert not (w * 2.0).requires_grad
        with td.enable_grad():
            assert (w * 2.0).requires_grad
    assert (w * 2.0).requires_grad

    @td.no_grad()
    def g(x):
        return x * 2.0

    assert not g(w).requires_grad
    with td.detect_anomaly(), pytest.raises(td.NonFiniteError):
        td.log(leaf([0.0]) * 1.0)


def test_explain():
    with td.explain_mode():
        w = leaf([3.0, 1.0, 2.0], "w")
        v = leaf([1.0], "v")
        loss = td.argmax(w).astype(td.float64) * td.sum(v)
        text = td.explain(w, loss)
    assert 'absent: "w" reaches the root only through argmax' in text and "test_tape.py:" in text


def test_explain_says_why():
    with td.explain_mode():
        w, v = leaf([1.0, 2.0], "w"), leaf([3.0], "v")
        unused = td.explain(v, td.sum(w * w))
        detached = td.explain(w, td.sum(w.detach() * v))
        zero = td.explain(w, td.sum(td.maximum(w, 5.0)))
        fine = td.explain(w, td.sum(w * w))
    assert '"v"' in unused and "absent" in unused
    assert '"w"' in detached and "absent" in detached
    assert "zero" in zero and "test_tape.py:" in zero
    assert fine != unused


def test_graph():
    x = td.array([0.0, 1.0, 2.0])
    g = td.trace(f, x)
    assert g.operations == ["sin", "mul", "reduce_sum"]
    assert f"test_tape.py:{f.__code__.co_firstlineno + 1}" in str(g)
    close(g(x)[0], f(x))
    value, gradient = g.value_and_grad()(x)
    close(gradient, td.grad(f)(x))
    close(g.hessian()(x)[0], td.hessian(f)(x))
    close(g.jvp()(x, td.ones(3))[1], td.jvp(f, (x,), (td.ones(3),))[1])
    close(g.vjp()(x, 2.0)[1], 2 * td.grad(f)(x))
    close(g.vmap(2)(td.stack([x, x]))[0], [f(x), f(x)])
    assert td.Graph.from_json(g.to_json()) == g
    assert g.input_names == ["x0"] and g.inputs == [(td.float64, (3,))] and g.outputs == [(td.float64, ())]
    html = g._repr_html_()
    assert html.startswith("<iframe") and "tidu.view" in html


def test_check_gradients():
    x = td.array([0.5, 0.25])
    assert td.check_gradients(f, x).ok
    assert td.check_gradients(td.trace(f, x), x).ok
    assert bool(td.check_gradients(lambda x, y: td.sum(x / y), x, x + 1.0, order=1, seed=3, batch=2))
    report = td.check_gradients(f, x)
    assert report.findings == [] and "jvp agrees with differences" in str(report)

    @td.custom_jvp
    def wrong(x):
        return td.sin(x)

    wrong.defjvp(lambda p, t: (td.sin(p[0]), 2.0 * t[0]))
    report = td.check_gradients(lambda x: td.sum(wrong(x)), x)
    assert not report.ok and not report and "custom_jvp" in str(report)
    assert any("custom_jvp" in finding for finding in report.findings)


def test_errors_tell_the_line():
    x = td.ones((3, 4))
    with pytest.raises(td.TypeMismatchError, match=r"test_tape\.py:\d+") as info:
        td.matmul(x, td.ones((5, 6)))
    assert isinstance(info.value, TypeError) and isinstance(info.value, td.Error)
    with pytest.raises(td.TypeMismatchError, match=r"test_tape\.py:\d+"):
        td.grad(lambda y: td.sum(y @ td.ones((5, 6))))(x)
    with pytest.raises(td.TypeMismatchError):
        td.zeros(3, dtype="f7")


def test_threads():
    x = td.array(np.linspace(0.0, 1.0, 20000))
    g = td.jit(f)
    expected = float(g(x))

    def work(k):
        for i in range(30):
            assert float(g(x)) == expected
            assert float(td.jit(lambda x: td.sum(x) * float(k))(x)) == pytest.approx(10000.0 * k)
            w = x.copy().requires_grad_()
            f(w).backward(workers=2)
            close(w.grad, np.asarray(td.grad(f)(x)))
            td.asarray(np.arange(10000.0)) + 1.0

    in_threads(work, 4)


def test_lock_is_released():
    """While a large program runs, another thread gets on."""
    x = td.ones((500, 500))
    g = td.jit(lambda a: td.sum(a @ a @ a @ a @ a @ a @ a @ a))
    g(x)
    ends = []

    def run():
        g(x)
        ends.append("program")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # the interpreter takes the lock from nobody
    try:
        worker = threading.Thread(target=run)
        worker.start()  # gets on to the program, which lets this thread go on
        ends.append("main")
        worker.join()
    finally:
        sys.setswitchinterval(before)
    assert sorted(ends) == ["main", "program"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_beside_threads():
    """Children of a process whose other threads compute, record, and drop shared memory, go on computing."""
    x, stop = td.ones((100, 100)), threading.Event()

    def work():
        while not stop.is_set():
            w = td.array(np.linspace(0.0, 1.0, 5000)).requires_grad_()
            f(w).backward(workers=2)
            td.asarray(np.arange(5000.0)) + 1.0

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                try:
                    w = td.array(np.linspace(0.0, 1.0, 5000)).requires_grad_()
                    f(w).backward(workers=2)
                    td.asarray(np.arange(5000.0)) + 1.0
                    os._exit(0 if td.sum(x @ x).item() == 100.0**3 else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for t in threads:
            t.join()


def test_first_calls_of_many_threads():
    """What is looked up once, as the folder of the package is for messages, is looked up by a thread that lets others go on,
    which must not wait for it with the lock of the interpreter."""
    program = """
import builtins, threading, time
import tidu as td
imported = builtins.__import__
def slow(*args, **kwargs):
    time.sleep(0.05)
    return imported(*args, **kwargs)
builtins.__import__ = slow
start = threading.Barrier(8)
def work():
    start.wait()
    try:
        td.matmul(td.ones((3, 4)), td.ones((5, 6)))
    except td.TypeMismatchError as error:
        assert "<string>:" in str(error), error
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork():
    """A child goes on computing, after the parent ran on several threads."""
    x = td.ones((300, 300))
    assert td.sum(x @ x).item() == 300.0**3
    child = os.fork()
    if child == 0:
        os._exit(0 if td.sum(x @ x).item() == 300.0**3 else 1)
    assert os.waitpid(child, 0)[1] == 0
