#!/usr/bin/env python3
"""Measures what a call of one element costs: of tidu's Python package beside PyTorch and JAX, and of the C interface beyond C++.

usage: overheads.py [--peers PYTHON] [--program TIDU_BENCH] [--rounds N] [--seconds S] [--json OUT]

Runs in the Python that has tidu installed.
--peers     the Python that has PyTorch or JAX; those that it lacks are left out
--program   the program tidu_bench, which measures the C interface
--rounds    how often everyone takes a turn
--seconds   how long a call is repeated in a turn
Each library has a process of its own, and they take turns, so that other load on the machine affects all alike. The time of a call is
the median of the fastest eighth of its turns, in ns. The table goes to standard output, --json has the same. Exit status 1 where a
library computes something else.
"""
import argparse
import contextlib
import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import timeit

# call: what it computes of a = 0.5, and the goal in ns
CALLS = {
    "sin(a)": (math.sin(0.5), 1000),
    "a + a": (1.0, 1000),
    "w + w, recorded": (1.0, 1000),
    "compiled sin(a) * a": (math.sin(0.5) * 0.5, 2000),
}
C_CALL, C_GOAL = "C interface beyond C++", 100
LIBRARIES = ["tidu", "torch", "jax"]


def of_tidu():
    import tidu as td

    a, w = td.array(0.5), td.array(0.5).requires_grad_()
    f = td.jit(lambda x: td.sin(x) * x)
    return {"sin(a)": ("f(a)", {"f": td.sin, "a": a}), "a + a": ("a + a", {"a": a}), "w + w, recorded": ("a + a", {"a": w}),
            "compiled sin(a) * a": ("f(a)", {"f": f, "a": a})}


def of_torch():
    import torch

    torch.set_num_threads(1)
    a = torch.tensor(0.5, dtype=torch.float64)
    w = a.clone().requires_grad_()
    return {"sin(a)": ("f(a)", {"f": torch.sin, "a": a}), "a + a": ("a + a", {"a": a}), "w + w, recorded": ("a + a", {"a": w})}


def of_jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    a = jnp.asarray(0.5)
    f = jax.jit(lambda x: jnp.sin(x) * x)
    return {"sin(a)": ("f(a)", {"f": jnp.sin, "a": a}), "a + a": ("a + a", {"a": a}),
            "compiled sin(a) * a": ("f(a)", {"f": f, "a": a})}


def serve(library):
    """Answers each line "CALL SECONDS" of standard input by the time of a call in ns. The first line says what calls there are, and
    what they give."""
    calls = {"tidu": of_tidu, "torch": of_torch, "jax": of_jax}[library]()
    timers = {name: timeit.Timer(statement, globals=names) for name, (statement, names) in calls.items()}
    print(json.dumps({name: eval(statement, names).item() for name, (statement, names) in calls.items()}), flush=True)
    at_once = {}
    for line in sys.stdin:
        name, seconds = json.loads(line)
        if name not in at_once:
            timers[name].timeit(100)
            at_once[name] = 1 + int(seconds / (timers[name].timeit(100) / 100))
        print(timers[name].timeit(at_once[name]) / at_once[name] * 1e9, flush=True)


class Library:
    """One that is measured, in a process of its own."""

    def __init__(self, python, name):
        command = [python, "-B", __file__, "--serve", name]
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        results = self.process.stdout.readline()
        if not results:
            sys.exit(f"overheads.py: {name} could not be measured")
        self.turns = {call: [] for call in json.loads(results)}
        for call, y in json.loads(results).items():
            if not math.isclose(y, CALLS[call][0], rel_tol=1e-14):
                sys.exit(f"overheads.py: {call} of {name} is {y!r}, expected {CALLS[call][0]!r}")

    def take_turn(self, call, seconds):
        if call in self.turns:
            print(json.dumps([call, seconds]), file=self.process.stdin, flush=True)
            self.turns[call].append(float(self.process.stdout.readline()))

    def time(self, call):
        return fastest(self.turns[call]) if call in self.turns else None

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def fastest(turns):
    """The median of the fastest eighth."""
    eighth = sorted(turns)[: max(1, len(turns) // 8)]
    return eighth[len(eighth) // 2]


def has(python, module):
    test = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", test]).returncode == 0


def measured(options):
    """{call: {library: ns}}"""
    libraries = [Library(sys.executable, "tidu")]
    with contextlib.ExitStack() as ends:
        ends.callback(lambda: [library.end() for library in libraries])
        for name in LIBRARIES[1:]:
            if options.peers and has(options.peers, name):
                libraries.append(Library(options.peers, name))
        for _ in range(options.rounds):
            for call in CALLS:
                for library in libraries:
                    library.take_turn(call, options.seconds)
        return {call: {library.name: library.time(call) for library in libraries} for call in CALLS}


def of_c(options):
    """What a call through the C interface takes beyond one in C++: the least of its rounds."""
    command = [options.program, "--benchmark_filter=^c/call/1$", "--benchmark_format=json",
               f"--benchmark_min_time={options.rounds * options.seconds}"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    return found["benchmarks"][0]["more_ns"]


def print_table(times, goals):
    print("| call, ns | " + " | ".join(LIBRARIES) + " | goal | reached |")
    print("| --- | " + "---: | " * (len(LIBRARIES) + 1) + "--- |")
    for call, by_library in times.items():
        found = [by_library.get(name) for name in LIBRARIES]
        numbers = ["" if t is None else f"{t:.0f}" for t in found]
        print(f"| {call} | " + " | ".join(numbers) + f" | {goals[call]} | {'yes' if found[0] <= goals[call] else 'no'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers")
    parser.add_argument("--program")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=0.005)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--serve", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    if importlib.util.find_spec("tidu") is None:
        sys.exit(f"overheads.py: expected tidu to be installed in {sys.executable}")
    times, goals = measured(options), {call: goal for call, (_, goal) in CALLS.items()}
    if options.program:
        times[C_CALL], goals[C_CALL] = {"tidu": of_c(options)}, C_GOAL
    print_table(times, goals)
    if options.json:
        rows = [{"call": call, "goal": goals[call], "ns": ns} for call, ns in times.items()]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
