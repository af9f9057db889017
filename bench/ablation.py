#!/usr/bin/env python3
"""Measures the gain of each rewrite of the CPU executor: every workload with all rewrites and without one, in turns, each in a separate
process on one processor. Prints a table in Markdown: a row for each rewrite with its best gain and the workload of that.

A gain of 1.20 means that the workload takes 1.20 times as long without the rewrite.

usage: ablation.py --program TIDU_WORKLOADS [--inputs DIR] [--only TEXT...] [--passes NAME...] [--files DUMP...]
                   [--rounds N] [--seconds S] [--json OUT] [--cache DIR]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from workers import Failure, Worker, environment

PASSES = ["fuse", "row_fusion", "rematerialize", "delay_matmuls", "accumulate_in_place", "gather_prologues", "fused_loads",
          "matmul_epilogues", "copy_elision", "inplace_updates", "concat_in_place", "donation", "straight_line",
          "demanded_elements", "vector_code", "merge_loops", "offset_views", "tiling", "in_place"]


def parsed(arguments):
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--inputs", default="build/bench/inputs")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--passes", nargs="*", default=PASSES, choices=PASSES)
    parser.add_argument("--files", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--json")
    parser.add_argument("--cache", default="build/bench")
    return parser.parse_args(arguments)


def worker(options, left_out):
    command = [options.program, "--serve", "--inputs", options.inputs, "--threads", "1"]
    if left_out:
        command += ["--without", left_out]
    log = pathlib.Path(options.cache) / "ablation.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return Worker("tidu", command, 1, environment(1, options.cache), str(log))


def gain_of(options, left_out, workload, base):
    """Time without the rewrite by time with all of them, the median over rounds; None where it cannot be had."""
    other = worker(options, left_out)
    try:
        other.ask(f"prepare {workload}", 600)
        ratios = []
        for _ in range(options.rounds):
            base.resume()
            with_all = base.ask(f"tidu {options.seconds}", 600)["median"]
            base.pause()
            ratios.append(other.ask(f"tidu {options.seconds}", 600)["median"] / with_all)
        return statistics.median(ratios)
    except Failure as failure:
        print(f"{workload} without {left_out}: {failure}", file=sys.stderr)
        return None
    finally:
        other.stop()


def measured(options, workloads):
    """Pass -> workload -> gain."""
    gains = {name: {} for name in options.passes}
    for workload in workloads:
        base = worker(options, None)
        try:
            base.ask(f"prepare {workload}", 600)
        except Failure as failure:
            print(f"{workload}: {failure}", file=sys.stderr)
            continue
        for name in options.passes:
            gain = gain_of(options, name, workload, base)
            if gain is not None:
                gains[name][workload] = round(gain, 4)
        base.resume()
        base.stop()
        print(f"{workload}: " + " ".join(f"{n} {g[workload]:.2f}" for n, g in gains.items() if abs(g.get(workload, 1) - 1) > 0.03),
              file=sys.stderr, flush=True)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(gains, indent=1))
    return gains


def table(gains, files):
    rows = ["| rewrite | best gain, of the workloads | best gain, of other programs | workloads with 3% and more |", "| --- | --- | --- | --- |"]
    for name, by_workload in gains.items():
        cells = []
        for of_files in (False, True):
            found = [(gain, workload) for workload, gain in by_workload.items() if (workload in files) == of_files]
            gain, workload = max(found, default=(1.0, "none"))
            cells.append(f"{gain:.2f}, {pathlib.PurePath(workload).name.removesuffix('.graph.json') if of_files else workload}")
        count = sum(gain >= 1.03 for gain in by_workload.values())
        rows.append(f"| {name} | {cells[0]} | {cells[1]} | {count} of {len(by_workload)} |")
    return "\n".join(rows)


def main(arguments):
    options = parsed(arguments)
    listed = subprocess.run([options.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    chosen = [w for w in listed if options.only is None or w in options.only or
              any(text in w for text in options.only if text not in listed)]
    files = [f"file:{path}" for path in options.files]
    if not chosen and not files:
        print("ablation.py: expected workloads that --list of tidu_workloads names, got none", file=sys.stderr)
        return 2
    print(table(measured(options, chosen + files), set(files)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
