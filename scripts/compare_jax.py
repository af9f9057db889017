#!/usr/bin/env python3
"""Compares random programs, run by the `tidu` command, with JAX.

usage: compare_jax.py [--tidu PROGRAM] [--kinds single,large,chain,rows,odd,whole] [--seeds FROM:TO] [--modes eval,hvp,...]
                      [--only PRIMITIVE] [--oracle jax|reference] [--out DIR] [--kinks] [--seconds S]
       compare_jax.py --replay DIR...       runs written programs again, and prints the differences

--tidu      the command, build/release/bin/tidu when left out
--kinds     single: one primitive; large: one, of extents around those of kernels' blocks; chain: up to ten steps of any;
            rows: many rows, for loops over blocks and threads;
            odd: numbers that are not finite, zeros, huge or tiny ones, of which values alone are compared;
            whole: integers and bools
--seeds     a program each of every kind; the same seed gives the same program, its modes and its options
--modes     which of eval, jvp, vjp, grad, hvp, jac, third (a derivative of the program with its gradients), "batched eval",
            "batched jvp", "batched vjp", "batched grad"; two of them at random when left out
--only      programs of this primitive alone; single and large programs by their seed then
--oracle    reference compares with tidu's own slow executor instead, for which nothing has to be installed but numpy
--out       where a program that differs is written, reduced: graph.json, inputs.json, ... and the command in run.sh
--seconds   begins no program after so many
--kinks     reports also differences that disappear when the inputs are slightly changed
Exit status 1 if a program differs, or if tidu fails on one. docs/comparing.md says more.
"""
import argparse
import collections
import copy
import importlib.util
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/comparison"))
asked = argparse.ArgumentParser(add_help=False)
asked.add_argument("--oracle")
for needed in ("numpy", "jax")[:1 if asked.parse_known_args()[0].oracle == "reference" else 2]:
    if importlib.util.find_spec(needed) is None:
        print(f"compare_jax.py: this Python has no {needed}; nothing is compared", file=sys.stderr)
        sys.exit(77)

import dumps
import programs
import reduce
import runs


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--tidu", default=str(ROOT / "build/release/bin/tidu"))
    parser.add_argument("--kinds", default=",".join(programs.KINDS))
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--modes", default="")
    parser.add_argument("--only")
    parser.add_argument("--oracle", choices=("jax", "reference"), default="jax")
    parser.add_argument("--out", default=str(ROOT / "build/differences"))
    parser.add_argument("--kinks", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--replay", nargs="+")
    return parser.parse_args()


def reference(tidu):
    """An oracle as JAX is one: the slow executor of tidu itself."""
    def ask(run):
        slow = copy.copy(run)
        slow.options = ["--backend", "reference"]
        return runs.arrays(tidu.run(slow))
    return ask


def forms(case, mode, seed, tidu):
    """The case as the mode wants it: scalar for gradients, with its own gradients for the third order."""
    if mode.split()[-1] in ("grad", "hvp"):
        case = programs.scalar(case, seed)
        if case is None:
            raise runs.Unfit("no floating result")
    if mode == "third":
        if not any(t in ("f64", "c128", "f32") for t, _ in case.output_types()) or not case.finite():
            raise runs.Unfit("no floating result")
        case = programs.scalar(case, seed)
        case = tidu.transposed(case, seed)
    return case


class Session:
    """The comparisons, and their results."""

    def __init__(self, args, tidu, oracle):
        self.args, self.tidu, self.oracle = args, tidu, oracle
        self.counts, self.seen, self.wrong = collections.Counter(), set(), 0

    def compare(self, kind, seed, mode, options):
        label = f"{kind} {seed} {mode}"
        pathlib.Path(self.args.out).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(self.args.out) / "current").write_text(label)  # where to go on when JAX itself ends the process
        try:
            case = programs.program(kind, seed, self.args.only)
            self.seen |= dumps.primitives_in(case.graph)
            run = runs.Run(forms(case, mode, seed, self.tidu), mode, seed, options)
            verdict, found = runs.judged(self.tidu, run, self.oracle) or ("agree", [])
        except runs.Unfit:
            self.counts["do not apply"] += 1
            return
        except runs.Failed as error:  # of tidu, before the compared result
            self.counts["failed"] += 1
            self.wrong += 1
            print(f"{label} {' '.join(options)}: {str(error)[:400]}", flush=True)
            return
        except Exception as error:  # JAX refuses some programs, and this script may be wrong: told, not hidden
            self.counts["not compared"] += 1
            self.wrong += self.args.oracle == "reference"  # which refuses nothing that tidu takes
            print(f"{label}: not compared: {type(error).__name__} {str(error)[:160]!r}", flush=True)
            return
        self.counts[verdict] += 1
        if verdict == "different" or (verdict == "kink" and self.args.kinks):
            place, _, words = found[0]
            print(f"{label} {' '.join(options)}: {verdict}: {place}: {words}", flush=True)
        if verdict == "different":
            self.wrong += 1
            where = pathlib.Path(self.args.out) / label.replace(" ", "_")
            small = reduce.smallest(self.tidu, run, self.oracle)
            reduce.write(where, small)
            print(f"  {reduce.summary(small)}\n  in {where}", flush=True)

    def all(self):
        begun = time.monotonic()
        modes = [m.strip() for m in self.args.modes.split(",") if m.strip()]
        first, last = (int(x) for x in self.args.seeds.split(":"))
        for seed in range(first, last):
            for kind in self.args.kinds.split(","):
                choice = random.Random(f"{kind} {seed}")
                for mode in modes or choice.sample(runs.MODES if kind != "odd" else runs.VALUES, 2):
                    if time.monotonic() - begun < self.args.seconds:
                        self.compare(kind, seed, mode, choice.choice(runs.OPTIONS))

    def summary(self):
        print(", ".join(f"{n} {what}" for what, n in self.counts.most_common()))
        table = subprocess.run([self.args.tidu, "ops", "--format", "json"], capture_output=True, text=True, check=True)
        left = sorted({row["primitive"] for row in json.loads(table.stdout)} - self.seen)
        print("primitives that no program had:", " ".join(left) or "none")


def replay(paths, tidu, oracle):
    """How many of them differ."""
    different = 0
    for path in paths:
        try:
            verdict = runs.judged(tidu, reduce.read(path), oracle)
        except runs.Failed as error:
            verdict = "different", [("", float("inf"), str(error))]
        print(path, verdict or "agrees", flush=True)
        different += verdict is not None and verdict[0] == "different"
    return different


def main():
    args = arguments()
    if shutil.which(args.tidu) is None:
        sys.exit(f"compare_jax.py: expected the tidu command at {args.tidu}, got none: "
                 "scripts/build.sh release -DTIDU_BUILD_TESTS=OFF --target tidu_command makes it, --tidu names another")
    with tempfile.TemporaryDirectory() as folder:
        tidu = runs.Tidu(args.tidu, folder)
        oracle = reference(tidu) if args.oracle == "reference" else lambda run: run.jax()
        if args.replay:
            return 1 if replay(args.replay, tidu, oracle) else 0
        session = Session(args, tidu, oracle)
        session.all()
    session.summary()
    return 1 if session.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
