#!/usr/bin/env python3
"""Measures tidu, PyTorch, JAX and a bound written by hand, each workload by all of them in turns, so that other load on the machine
affects all alike. All get the same inputs, and results are compared: a time with other results is rejected.

usage: run.py --program TIDU_WORKLOADS [--peers PYTHON] [--libraries NAME...] [--quick] [--only TEXT...] [--threads N...]
              [--device cuda] [--limit S] [--rounds N] [--seconds S] [--least] [--json OUT] [--details OUT] [--picture OUT]
              [--inputs DIR] [--cache DIR]

--program   the program tidu_workloads
--peers     the Python that has JAX or PyTorch; without it tidu is held against the bounds alone
--libraries those of them that are measured: jax, torch, torch_compile
--quick     fewer sizes, forms and repetitions
--only      workloads whose name contains one of these
--device    all run there, in workloads and with goals of its own; tidu's results have to be the same in two runs
--limit     begins no workload after so many seconds
--least     times are those of the fastest run instead, for machines that are busy
--details   writes all measurements, as JSON: every round, every form of a peer, failures
The table goes to standard output. In the JSON of --json times are in microseconds: the median of the best round. Exit status 1
where results disagree or tidu fails.
"""
import argparse
import json
import pathlib
import signal
import sys
import time

import inputs
import report
import workers

ADBENCH = ["gmm_1k_d2_K5", "gmm_1k_d10_K25", "gmm_1k_d20_K50", "gmm_1k_d32_K25", "gmm_1k_d64_K50", "gmm_1k_d128_K25",
           "gmm_10k_d32_K25", "gmm_10k_d32_K200", "gmm_10k_d64_K200", "gmm_10k_d128_K25", "ba1", "ba2", "ba3",
           "hand_simple_small_c100", "hand_complicated_small_c100", "hand_simple_small_c800", "hand_complicated_small_c800",
           "lstm_l2_c1024", "lstm_l4_c1024"]
OTHERS = ["elementwise10", "mlp_784/64", "mlp_784/256", "mlp_2_16", "transformer/large", "transformer/small", "softmax",
          "layer_norm", "convnet", "hot_loop", "hot_loop/small", "call", "cache_hit", "compile/100", "compile/1000", "compile/10000",
          "compile/100000"]
# On a device: each at a large and a small size.
DEVICE = ["launch", "chain/256M", "mlp_4096", "mlp_2_16", "transformer/huge", "transformer/small", "gmm_10k_d64_K200/derivative",
          "gmm_1k_d10_K25/derivative", "mlp_784/64", "convnet", "elementwise10/256M"]
# Those first of which the compiled form of a peer counts most: a quick run may have to leave the rest of these out.
QUICK = ["elementwise10", "softmax", "layer_norm", "convnet", "ba1", "transformer/small", "mlp_784/64", "mlp_2_16",
         "gmm_1k_d10_K25", "hand_simple_small_c100", "lstm_l2_c1024", "hot_loop", "call", "cache_hit", "compile/1000"]
# Nothing to gain from a second thread.
ONE_THREAD = ("lstm", "call", "cache_hit", "compile")
# Parameters after a step differ from those before it by little; a wrong gradient must show.
STEPS = ("mlp", "convnet", "hot_loop")
F32 = (*STEPS, "elementwise10", "chain", "launch", "transformer", "softmax", "layer_norm", "call", "cache_hit", "compile")


def selected(quick, only, device):
    names = DEVICE if device else QUICK if quick else ADBENCH + OTHERS
    names = [f"{n}/{kind}" for n in names if n in ADBENCH for kind in ("objective", "derivative")] + \
        [n for n in names if n not in ADBENCH]
    return [n for n in names if not only or any(text in n for text in only)]


def disagreement(workload, ours, theirs):
    """None, or the difference between the two lists of checks: size, sum, norm, weighted sum of each result."""
    if [c[0] for c in ours] != [c[0] for c in theirs]:
        return f"sizes of results are {[int(c[0]) for c in theirs]}, expected {[int(c[0]) for c in ours]}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        norm, size = max(a[2], b[2]), a[0]
        tolerance = 1e-7 if not workload.startswith(F32) else 5e-6 if workload.startswith(STEPS) and size > 1 else 3e-4
        # Rounding may be biased; that of single precision is, where sums cancel.
        for what, x, y in zip(("sum", "norm", "weighted sum"), a[1:], b[1:]):
            scale = norm * size ** (0.5 if what == "sum" else 0.0)
            if not abs(x - y) <= tolerance * scale + 1e-12:
                return f"{what} of result {i} is {y!r}, expected {x!r}"
    return None


class Run:
    def __init__(self, options):
        self.options = options
        self.rounds = options.rounds or (3 if options.quick else 7)
        self.seconds = options.seconds or (0.12 if options.quick else 0.25)
        # Seconds that peers may take to compile their forms of a workload; of those that take long there are
        # none when a quick run has come to its limit.
        self.patience = 45 if options.quick else 400
        self.end = time.monotonic() + (options.limit or 1e9)
        self.slow_until = self.end if options.limit or not options.quick else time.monotonic() + 150

    def prepared(self, team, workload, detail):
        """Everyone prepares at once: those who could, and agree with tidu."""
        asked = []
        for name, worker in team.items():
            if name == "torch_compile" and time.monotonic() > self.slow_until:
                detail["failed"][name] = "left out of a quick run"
                continue
            try:
                worker.send(f"prepare {workload}")
                asked.append(name)
            except workers.Failure as failure:
                detail["failed"][name] = str(failure)
        ready, end = [], time.monotonic() + self.patience
        for name in asked:
            try:
                reply = team[name].receive(600 if name == "tidu" else max(1.0, end - time.monotonic()))
                detail["prepared"][name] = reply
                ready.append(name)
            except workers.Failure as failure:
                detail["failed"][name] = str(failure)
        if "tidu" not in ready:
            return []
        for name in ready[1:]:
            for form, found in detail["prepared"][name]["checks"].items():
                wrong = disagreement(workload, detail["prepared"]["tidu"]["checks"], found)
                if wrong:
                    detail["disagrees"][name] = f"{form}: {wrong}"
        return [name for name in ready if name not in detail["disagrees"]]

    def alone(self, team, name, request, timeout):
        """The answer of one worker while the others stand still."""
        others = [worker for other, worker in team.items() if other != name]
        for worker in others:
            worker.pause()
        try:
            return team[name].ask(request, timeout)
        finally:
            for worker in others:
                worker.resume()

    def measure(self, team, workload, threads):
        detail = {"workload": workload, "threads": threads, "device": self.options.device,
                  "prepared": {}, "failed": {}, "disagrees": {}, "rounds": {}, "apart_ns": []}
        ready = self.prepared(team, workload, detail)
        turns = []
        for name in ready:
            if name == "tidu":
                turns += [("tidu", "tidu", "tidu")]
                turns += [("bound", "tidu", "bound")] if detail["prepared"]["tidu"]["has_bound"] else []
            else:
                turns.append((name, name, "time"))
        for name in [n for n in ready if n != "tidu"]:
            try:
                detail["prepared"][name].update(self.alone(team, name, f"choose {min(0.2, self.seconds)}", self.patience))
            except workers.Failure as failure:
                detail["failed"][name] = str(failure)
        for _ in range(self.rounds):
            if threads > 1 and ready and "tidu" not in detail["failed"] and not self.options.device:
                try:
                    detail["apart_ns"].append(self.alone(team, "tidu", "apart", 60)["apart_ns"])
                except workers.Failure as failure:
                    detail["failed"]["tidu"] = str(failure)
            for what, name, request in turns:
                if name in detail["failed"]:
                    continue
                try:
                    detail["rounds"].setdefault(what, []).append(self.alone(team, name, f"{request} {self.seconds}", 300))
                except workers.Failure as failure:
                    detail["failed"][name] = str(failure)
        return detail


def row(detail, statistic):
    """The JSON entry of a workload."""
    times = {what: min(r[statistic] for r in rounds) for what, rounds in detail["rounds"].items()}
    peers = {name: round(time, 3) for name, time in times.items() if name not in ("tidu", "bound")}
    rounded = lambda name: round(times[name], 3) if name in times else None
    result = {"workload": detail["workload"], "threads": detail["threads"], "tidu": rounded("tidu"), "peers": peers,
              "bound": rounded("bound")}
    return {**result, "device": detail["device"]} if detail["device"] else result


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--peers")
    parser.add_argument("--libraries", nargs="*", default=list(workers.PEERS), choices=list(workers.PEERS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--threads", nargs="*", type=int)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--device", choices=["cuda"])
    parser.add_argument("--least", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--json")
    parser.add_argument("--details")
    parser.add_argument("--picture")
    parser.add_argument("--inputs", default="build/bench/inputs")
    parser.add_argument("--cache", default="build/bench/cache")
    return parser.parse_args()


def measure_all(options, names, peers, run, details, rows, versions):
    """Fills details, rows and versions, each as soon as it is known."""
    for threads in options.threads or ([min(8, len(workers.PROCESSORS))] if options.device else [1, 2]):
        if threads > len(workers.PROCESSORS):
            print(f"{threads} threads: left out, as there are {len(workers.PROCESSORS)} processors", file=sys.stderr)
            continue
        team = workers.workers(options.program, options.peers, peers, threads, options.inputs, options.cache,
                               1 if options.quick else 100, options.device)
        try:
            for workload in names:
                if threads > 1 and workload.startswith(ONE_THREAD):
                    continue
                if time.monotonic() > run.end:
                    print(f"{workload}: left out, as the time was over", file=sys.stderr)
                    continue
                inputs.write(options.inputs, workload)
                details.append(run.measure(team, workload, threads))
                rows.append(row(details[-1], "min" if options.least else "median"))
                print(report.progress(rows[-1], details[-1]), file=sys.stderr, flush=True)
                if options.json:  # the results so far, in case the rest fails
                    pathlib.Path(options.json).write_text(report.as_json(rows))
        finally:
            versions.update({name: worker.version for name, worker in team.items() if worker.version})
            for worker in team.values():
                worker.stop()


def main():
    options = parse()
    names = selected(options.quick, options.only, options.device)
    if not names:
        sys.exit(f"run.py: expected names of workloads, got --only {' '.join(options.only)}")
    peers = workers.peers_that_run(options.peers, options.libraries) if options.peers else []
    run, details, rows, versions = Run(options), [], [], {}
    if options.device:
        refused = workers.refused_device(options.program, options.device)
        if refused:
            sys.exit(refused)
    allowed = workers.quota()
    if allowed is not None and allowed < max(options.threads or [2]):
        print(f"this process may use {allowed:g} processors' time: more threads are held back", file=sys.stderr)
    # When terminated, it prints the results so far, and ends its workers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ended = None
    try:
        measure_all(options, names, peers, run, details, rows, versions)
    except SystemExit as end:
        ended = end
    print(report.table(rows, versions, options.least))
    if options.details:
        pathlib.Path(options.details).write_text(json.dumps(details, indent=1))
    if options.picture:
        pathlib.Path(options.picture).write_text(report.picture(rows, versions))
    bad = [d for d in details if d["disagrees"] or "tidu" in d["failed"] or not d["rounds"].get("tidu")]
    for detail in bad:
        print(f"{detail['workload']}, {detail['threads']} threads: {detail['disagrees'] or detail['failed']}", file=sys.stderr)
    sys.exit(ended.code if ended else 1 if bad else 0)


if __name__ == "__main__":
    main()
