#!/usr/bin/env python3
"""A library that tidu is measured beside, in a process of its own: serves the requests that bench/run.py sends.

usage: worker.py jax|torch|torch_compile --threads N --inputs DIR [--most-forms N] [--device cuda]

Requests come from standard input, one a line; each is answered by one line of JSON:
  prepare WORKLOAD    makes every form in which the workload is written here, and runs each once
  choose SECONDS      measures each of them for so long, and keeps the fastest
  time SECONDS        how long that one takes, in microseconds
A form is a function without arguments that runs once and returns its results; see jax_forms.py and torch_forms.py. On a device
runs are timed until the last of them is done there.
"""
import argparse
import json
import os
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import inputs  # noqa: E402  (of the folder above)


def measure(run, seconds, fewest=3, finish=None):
    """Times of a run in microseconds; short runs are timed many at once. A run that has the attribute `seconds` says itself
    how long the part of it took that counts. `finish` waits for a device."""
    for _ in range(5 if finish else 1):
        run()
    least = 2e-3 if finish else 50e-6
    clock = time.perf_counter

    def timed(count):
        start = clock()
        for _ in range(count):
            run()
        if finish:
            finish()
        return run.seconds if hasattr(run, "seconds") else (clock() - start) / count

    at_once = 1
    while not hasattr(run, "seconds") and at_once < 100000:
        taken = timed(at_once) * at_once
        if taken >= least:
            break
        at_once = max(at_once + 1, int(at_once * 1.2 * least / max(taken, 1e-9)))
    samples, start = [], clock()
    while len(samples) < fewest or clock() - start < seconds:
        samples.append(timed(at_once) * 1e6)
    samples.sort()
    return {"median": samples[len(samples) // 2], "min": samples[0], "runs": len(samples) * at_once}


def checks(results):
    """The checks of tidu_workloads' main.cpp: the size, sum and norm of each result, and its sum weighted by cos(position); for results
    with more than 2^23 elements a regular sample."""
    import numpy as np

    found = []
    for result in results:
        whole = np.asarray(result.cpu() if hasattr(result, "cpu") else result).reshape(-1)
        stride = max(1, whole.size >> 22)
        flat = whole[::stride].astype(np.float64)
        found.append([whole.size, flat.sum(), np.sqrt((flat * flat).sum()), flat @ np.cos(np.arange(0, whole.size, stride))])
    return [[float(v) for v in check] for check in found]


class Worker:
    def __init__(self, library, directory, most_forms):
        self.library, self.directory, self.most_forms = library, directory, most_forms
        self.forms, self.run = {}, None

    def prepare(self, workload):
        start, self.forms, self.run = time.perf_counter(), {}, None
        failed, found = {}, {}
        made = self.library.forms(workload, inputs.read(self.directory, workload))
        for name, make in list(made.items())[:self.most_forms]:
            try:
                self.forms[name], results = make()
                found[name] = checks(results)
            except Exception as error:  # one form less
                traceback.print_exc()
                failed[name] = describe(error)
        if not self.forms:
            return {"error": "; ".join(f"{k}: {v}" for k, v in failed.items()) or "no form of it here"}
        return {"failed": failed, "checks": found, "prepare_s": time.perf_counter() - start}

    def choose(self, seconds):
        times = {name: measure(run, seconds, 3, self.library.finish())["median"] for name, run in self.forms.items()}
        best = min(times, key=times.get)
        self.run = self.forms[best]
        return {"best": best, "forms": times}

    def answer(self, line):
        request, argument = line.split()
        if request == "prepare":
            return self.prepare(argument)
        return self.choose(float(argument)) if request == "choose" else measure(self.run, float(argument), 3, self.library.finish())


def describe(error):
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["jax", "torch", "torch_compile"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--inputs", required=True)
    parser.add_argument("--most-forms", type=int, default=100)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    # Output of libraries must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if options.library == "jax":
        import jax_forms as library
        library.start(options.threads, options.device)
    else:
        import torch_forms as library
        library.start(options.threads, options.device, compiled=options.library == "torch_compile")
    worker = Worker(library, options.inputs, options.most_forms)
    print(json.dumps({"version": library.version()}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            reply = worker.answer(line)
        except Exception as error:
            traceback.print_exc()
            reply = {"error": describe(error)}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
