#!/usr/bin/env python3
"""Compares programs by scripts/compare_jax.py where tidu is a stand-in that gives wrong results, fails, never ends or prints no JSON.

usage: comparison.py FOLDER      which is for all that is made. Exit status 77 where this Python has no numpy.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

if importlib.util.find_spec("numpy") is None:
    print("comparison.py: this Python has no numpy: LEFT OUT")
    sys.exit(77)

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
sys.argv[1:1] = ["--oracle", "reference"]  # as which the script is loaded
import compare_jax
from compare_jax import programs, reduce, runs

# x, y -> x + y and its gradients; what $DOES says is not done by the reference executor.
TIDU = r"""#!/bin/sh
right='{"outputs": [{"dtype": "f64", "shape": [], "data": [3]}], "gradients": {"x": {"dtype": "f64", "shape": [], "data": [1]}, "y": {"dtype": "f64", "shape": [], "data": [1]}}}'
case "$*" in *--backend*) echo "$right"; exit ;; esac
case "$DOES" in
  right) echo "$right" ;;
  wrong) echo "$right" | sed 's/\[3\]/[4]/' ;;
  less) echo '{"outputs": [], "gradients": {"x": {"dtype": "f64", "shape": [], "data": [1]}}}' ;;
  text) echo "$right" | cut -c 2- ;;
  fail) echo "no such kernel" >&2; exit 1 ;;
  sleep) exec sleep 100 ;;
esac
"""
GRAPH = {"format": "tidu.graph", "version": 1,
         "values": [{"id": 0, "dtype": "f64", "shape": [], "name": "x"}, {"id": 1, "dtype": "f64", "shape": [], "name": "y"},
                    {"id": 2, "dtype": "f64", "shape": []}],
         "inputs": [0, 1], "operations": [{"op": "add", "inputs": [0, 1], "outputs": [2]}], "outputs": [2]}
faults = []


def expect(what, wanted, got):
    if wanted != got:
        faults.append(f"{what}: expected {wanted!r}, got {got!r}")


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = folder / "tidu"
    program.write_text(TIDU)
    program.chmod(0o755)
    one = lambda x: ("f64", runs.np.array(x))
    run = runs.Run(programs.Case(GRAPH, {"x": one(1.0), "y": one(2.0)}), "grad", 0, [])
    reduce.write(folder / "case", run)

    # What differs, by the command, for both spellings of the option; words of other options are none of it.
    for does, status in (("right", 0), ("wrong", 1), ("less", 1), ("text", 1), ("fail", 1)):
        for oracle in (["--oracle", "reference"], ["--oracle=reference"]):
            done = subprocess.run([sys.executable, "-B", SCRIPTS / "compare_jax.py", "--tidu", program, *oracle, "--replay", folder / "case"],
                                  env={**os.environ, "DOES": does}, capture_output=True, text=True)
            expect(f"status of {does} {oracle}: {done.stdout}{done.stderr}", status, done.returncode)
    if importlib.util.find_spec("jax") is None:
        done = subprocess.run([sys.executable, "-B", SCRIPTS / "compare_jax.py", "--only", "reference"], capture_output=True, text=True)
        expect(f"status without JAX: {done.stderr}", 77, done.returncode)

    # What tidu fails at on the way, whatever it is compared with; what never ends is ended.
    patient, hasty = runs.Tidu(program, folder), runs.Tidu(program, folder, seconds=0.5)
    for does, words in (("fail", "tidu dump: exit status 1: no such kernel"), ("text", "tidu dump printed no JSON"),
                        ("sleep", "tidu dump did not end within 0.5 s")):
        os.environ["DOES"] = does
        tidu = hasty if does == "sleep" else patient
        oracle = compare_jax.reference(tidu)
        try:
            tidu.transposed(run.case, 0)
            expect(does, words, "a graph")
        except runs.Failed as error:
            expect(does, words, str(error)[:len(words)])
        session = compare_jax.Session(argparse.Namespace(out=str(folder / "out"), oracle="jax", only="add", kinks=False), tidu, oracle)
        for seed in range(4):  # of which some have floating results
            session.compare("single", seed, "third", [])
        expect(f"third derivatives, {does}", session.counts["failed"], session.wrong)
        expect(f"any third derivatives, {does}", True, session.wrong > 0)
    expect("judged", "different", (runs.judged(tidu, run, oracle) or ["agrees"])[0])  # it sleeps

    # Places that are in one of two results alone.
    array = lambda x: runs.dumps.from_json(x)
    three = {"dtype": "f64", "shape": [], "data": [3.0]}
    want = {"outputs": [array(three), array(three)], "gradients": {"x": array(three), "y": None}}
    places = lambda got: [place for place, _, _ in runs.differences(got, want, 0)]
    expect("the same", [], places({"outputs": [three, three], "gradients": {"x": three, "y": None}}))
    expect("an output less", ["outputs 1"], places({"outputs": [three], "gradients": {"x": three}}))
    expect("a gradient less", ["gradients x"], places({"outputs": [three, three], "gradients": {"y": None}}))
    expect("no gradients", ["gradients x"], places({"outputs": [three, three]}))
    expect("a gradient more", ["gradients z"], places({"outputs": [three, three], "gradients": {"x": three, "z": three}}))
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[3]).resolve()))
