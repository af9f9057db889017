"""from_stablehlo: modules that torchax and torch_xla exported, with PyTorch's values, jvp, vjp and Hessian-vector
products. export_torch.py wrote both; PyTorch is not needed here."""

import json
import pathlib

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: imports of PyTorch's modules are NOT tested")
jax.config.update("jax_platforms", "cpu")

import tidu as td  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "exported_by_torch"
NAMES = sorted(path.stem for path in FOLDER.glob("*.mlir"))


def arrays(values, types):
    return [td.asarray(np.array(x, np.float64).reshape(shape)).astype(d) for x, (d, shape) in zip(values, types)]


def check(got, expected, bound):
    for y, z in zip(got, expected, strict=True):
        z = np.array(z)
        np.testing.assert_allclose(np.asarray(y).reshape(z.shape), z, rtol=bound, atol=bound * max(np.abs(z).max(), 1))


@pytest.mark.parametrize("name", NAMES)
def test_exported(name):
    data = json.loads((FOLDER / f"{name}.json").read_text())
    text = (FOLDER / f"{name}.mlir").read_text()
    graph = td.from_stablehlo(text).graph
    # The exporters round numbers of a program in f64 to f32: 1e-5 of a norm, or a factor of gelu.
    bound = 1e-6
    inputs, count = arrays(data["inputs"].values(), graph.inputs), len(graph.outputs)
    check(graph(*inputs), data["outputs"], bound)
    places = [list(data["inputs"]).index(k) for k in data["names"]]
    wrt = [graph.input_names[k] for k in places]
    floating = [k for k, (dtype, _) in enumerate(graph.outputs) if dtype.name.startswith("float")]
    tangents = arrays(data["tangents"], [graph.inputs[k] for k in places])
    cotangents = arrays(data["cotangents"], [graph.outputs[k] for k in floating])
    pushed = graph.jvp(wrt)(*inputs, *tangents)[count:]
    check(pushed, data["jvp"], bound)
    pulled = graph.vjp(wrt)
    check(pulled(*inputs, *cotangents)[count:], data["vjp"], bound)
    second = pulled.jvp(wrt)(*inputs, *cotangents, *tangents)
    check(second[-len(wrt) :], data["hvp"], 10 * bound)


def test_modules_are_there():
    assert len(NAMES) > 20
