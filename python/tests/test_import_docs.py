"""The programs of docs/import.md, in order, with what they print; a line "…" stands for any lines."""

import contextlib
import io
import pathlib
import re

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: docs/import.md is NOT tested")
jax.config.update("jax_platforms", "cpu")

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "import.md"
PAIR = re.compile(r"^```python\n(.*?)^```\n```output\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(not PAGE.exists(), reason="the package stands alone, without docs/")
def test_page():
    names = {}
    blocks = PAIR.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 6
    for program, expected in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, "page.py", "exec"), names)
        pattern = re.escape(expected).replace(re.escape("…\n"), r"(?:.*\n)*")
        assert re.fullmatch(pattern, out.getvalue()), out.getvalue()
