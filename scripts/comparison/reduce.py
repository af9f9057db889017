"""Reduces a program that differs, and writes the rest as files that the command reads."""
import copy
import json
import pathlib
import shlex
import time

import numpy as np

import dumps
import programs
import runs


def differs(tidu, run, oracle):
    try:
        verdict = runs.judged(tidu, run, oracle)
    except Exception:  # a program that JAX rejects does not differ
        return False
    return verdict is not None and verdict[0] == "different"


def with_outputs(case, outputs):
    return programs.Case(dumps.live({**case.graph, "outputs": outputs}), case.inputs)


def replaced(case, old, new):
    """Every use of a value by another's."""
    graph = copy.deepcopy(case.graph)
    for operation in graph["operations"]:
        operation["inputs"] = [new if i == old else i for i in operation["inputs"]]
    graph["outputs"] = [new if i == old else i for i in graph["outputs"]]
    return programs.Case(dumps.live(graph), case.inputs)


def as_input(case, value, array):
    """A value that was computed becomes an input."""
    graph = copy.deepcopy(case.graph)
    name = next(n for n in (f"v{i}" for i in range(len(case.inputs) + 1)) if n not in case.inputs)
    graph["values"][value]["name"] = name
    for operation in graph["operations"]:
        if value in operation["outputs"] and len(operation["outputs"]) > 1:
            return None
    graph["operations"] = [o for o in graph["operations"] if value not in o["outputs"]]
    graph["inputs"] = [*graph["inputs"], value]
    return programs.Case(dumps.live(graph), {**case.inputs, name: (graph["values"][value]["dtype"], array)})


def without_unused_inputs(case):
    used = {i for o in case.graph["operations"] for i in o["inputs"]} | set(case.graph["outputs"])
    kept = [i for i in case.graph["inputs"] if i in used]
    return programs.Case(dumps.live({**case.graph, "inputs": kept}), case.inputs)


def computed(tidu, case):
    """Every value of the program."""
    ids = [i for o in case.graph["operations"] for i in o["outputs"]]
    run = runs.Run(programs.Case({**case.graph, "outputs": ids}, case.inputs), "eval", 0, ["--backend", "reference"])
    return dict(zip(ids, map(dumps.from_json, tidu.run(run)["outputs"])))


def candidates(tidu, case):
    graph = case.graph
    if len(graph["outputs"]) > 1:
        for i in graph["outputs"]:
            yield with_outputs(case, [i])
        for k in range(len(graph["outputs"])):
            yield with_outputs(case, graph["outputs"][:k] + graph["outputs"][k + 1:])
    type_of = lambda i: (graph["values"][i]["dtype"], graph["values"][i]["shape"])
    values = computed(tidu, case)
    for operation in reversed(graph["operations"]):
        if len(operation["outputs"]) != 1:
            continue
        out = operation["outputs"][0]
        for other in dict.fromkeys(operation["inputs"] + graph["inputs"]):
            if other != out and type_of(other) == type_of(out):
                yield replaced(case, out, other)
        if values[out].size < 10**6:
            yield as_input(case, out, values[out])
    yield without_unused_inputs(case)


def size(case):
    return (len(case.graph["operations"]), len(case.graph["outputs"]), len(case.graph["inputs"]))


def smallest(tidu, run, oracle, seconds=120):
    """The smallest run that was found in that time and differs still."""
    end, progress = time.monotonic() + seconds, True
    if run.mode.startswith("batched"):
        return run
    while progress and time.monotonic() < end:
        progress = False
        try:
            for case in candidates(tidu, run.case):
                if time.monotonic() > end:
                    break
                if case is None or size(case) >= size(run.case):
                    continue
                try:
                    smaller = run.on(case)
                except (runs.Unfit, KeyError):
                    continue
                if differs(tidu, smaller, oracle):
                    run, progress = smaller, True
                    break
        except RuntimeError:
            break
    return run


def summary(run):
    graph = run.case.graph
    lines = []
    for o in graph["operations"]:
        results = ", ".join(f"%{i} {graph['values'][i]['dtype']}{graph['values'][i]['shape']}" for i in o["outputs"])
        attrs = {k: v for k, v in o.get("attrs", {}).items() if k not in dumps.GRAPH_ATTRIBUTES and not isinstance(v, dict)}
        lines.append(f"{results} = {o['op']} {' '.join(f'%{i}' for i in o['inputs'])} {attrs or ''}")
    return "\n  ".join([f"inputs {graph['inputs']}", *lines[:40], f"outputs {graph['outputs']}"])


def write(folder, run):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    command, files, more = run.arguments()
    (folder / "graph.json").write_text(json.dumps(run.case.graph))
    line = ["tidu", command, "graph.json"]
    for option, content in files.items():
        name = f"{option.strip('-')}.json"
        (folder / name).write_text(json.dumps(content))
        line += [option, name]
    (folder / "run.sh").write_text(shlex.join([*line, *more]) + "\n")
    (folder / "run.json").write_text(json.dumps({
        "mode": run.mode, "seed": run.seed, "options": run.options,
        "inputs": {name: dumps.to_json(*x) for name, x in run.case.inputs.items()}}))


def read(folder):
    folder = pathlib.Path(folder)
    told = json.loads((folder / "run.json").read_text())
    inputs = {name: (x["dtype"], dumps.from_json(x)) for name, x in told["inputs"].items()}
    case = programs.Case(json.loads((folder / "graph.json").read_text()), inputs)
    return runs.Run(case, told["mode"], told["seed"], told["options"])
