"""bench/overheads.py runs, beside JAX if that is installed: its output, not the times."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "overheads.py"


@pytest.mark.skipif(not PROGRAM.exists(), reason="the package stands alone, without bench/")
def test_overheads(tmp_path):
    found = tmp_path / "found.json"
    options = ["--peers", sys.executable, "--rounds", "2", "--seconds", "0.0001", "--json", found]
    table = subprocess.run([sys.executable, PROGRAM, *options], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = {row["call"]: row for row in json.loads(found.read_text())}
    libraries = {"tidu"} | {name for name in ("jax", "torch") if importlib.util.find_spec(name)}
    assert set(rows["sin(a)"]["ns"]) == libraries
    assert {call: row["goal"] for call, row in rows.items()} == {
        "sin(a)": 1000,
        "a + a": 1000,
        "w + w, recorded": 1000,
        "compiled sin(a) * a": 2000,
    }
    assert all(ns > 0 for row in rows.values() for ns in row["ns"].values() if ns is not None)
    assert table.count("\n") == 2 + len(rows)
