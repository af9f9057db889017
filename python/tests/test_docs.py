"""The programs of docs/python.md, in order, with what they print."""

import contextlib
import io
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
PAIR = re.compile(r"^```python\n(.*?)^```\n```output\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(not PAGE.exists(), reason="the package stands alone, without docs/")
def test_page():
    names = {}
    blocks = PAIR.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) >= 7
    for program, expected in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, "page.py", "exec"), names)
        if expected.strip() == "…":
            continue
        assert out.getvalue() == expected
