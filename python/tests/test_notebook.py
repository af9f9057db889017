"""The notebook python/examples/fit.ipynb, run from top to bottom: it shows a graph and a plot."""

import pathlib

import pytest

NOTEBOOK = pathlib.Path(__file__).resolve().parents[1] / "examples" / "fit.ipynb"


def outputs(notebook, kind):
    return [
        output["data"][kind]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]


@pytest.mark.skipif(not NOTEBOOK.exists(), reason="the package stands alone, without examples/")
def test_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (page,) = outputs(notebook, "text/html")
    assert page.startswith("<iframe") and "tidu.view" in page
    (plot,) = outputs(notebook, "image/png")
    assert len(plot) > 10000
