"""The programs of docs/python.md and README.md, in order, with what they print."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAIR = re.compile(r"^```python\n(.*?)^```\n```output\n(.*?)^```", re.DOTALL | re.MULTILINE)


def squeezed(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the package stands alone, without docs/")
@pytest.mark.parametrize("page, least", [("docs/python.md", 9), ("README.md", 1)])
def test_page(page, least):
    names = {}
    blocks = PAIR.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(blocks) >= least
    for program, expected in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, "page.py", "exec"), names)
        if expected.strip() != "…":
            assert squeezed(out.getvalue()) == squeezed(expected)
