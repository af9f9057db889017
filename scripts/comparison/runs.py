"""Runs a program through the `tidu` command and through JAX, and says where they differ beyond rounding."""
import copy
import json
import pathlib
import subprocess

import numpy as np

import dumps
import programs

MODES = ("eval", "jvp", "vjp", "grad", "hvp", "jac", "batched eval", "batched jvp", "batched vjp", "batched grad", "third")
VALUES = ("eval", "batched eval")
OPTIONS = ([], [], ["--threads", "1"], ["--threads", "2"], ["--threads", "2"], ["--eager"], ["--backend", "reference"])
RELATIVE = {"f64": 1e-8, "c128": 1e-8, "f32": 1e-3, "c64": 1e-3, "f16": 3e-2, "bf16": 2e-1}


class Unfit(Exception):
    """The comparison does not apply to the program."""


class Failed(RuntimeError):
    """tidu failed: it ended with an error, did not end, or printed no JSON."""


class Run:
    """One form of a program: the command's arguments, and the same asked of JAX."""

    def __init__(self, case, mode, seed, options):
        self.case, self.mode, self.seed, self.options = case, mode, seed, list(options)
        self.names, count, self.inputs = [], None, case.inputs
        self.command = mode.split()[-1]
        if mode == "third":
            self.command = "vjp" if seed % 2 else "jvp"
        if not case.finite() and self.command != "eval":
            raise Unfit("derivatives at numbers that are not finite")
        active = [name for name in dumps.input_names(case.graph) if dumps.inexact(case.inputs[name][0])]
        if self.command != "eval" and (not active or not any(dumps.inexact(t) for t, _ in case.output_types())):
            raise Unfit("no derivative")
        forward = self.command == "jvp" or (self.command == "jac" and seed % 2)
        if forward and "custom_vjp_call" in dumps.primitives_in(case.graph):
            raise Unfit("JAX has no forward mode of it")
        if self.command == "hvp" and "--eager" in options and {"custom_jvp_call", "custom_vjp_call"} & dumps.primitives_in(case.graph):
            raise Unfit("backward of backward: the transposed Hessian, and rules that are no derivatives have no symmetric one")
        if self.command == "jac":
            if any(t in dumps.COMPLEX for t in [x[0] for x in case.inputs.values()] + [t for t, _ in case.output_types()]):
                raise Unfit("complex Jacobian")
            if sum(np.prod(s) for _, s in case.output_types()) * sum(case.inputs[a][1].size for a in active) > 20000:
                raise Unfit("large Jacobian")
        if mode.startswith("batched"):
            if not case.inputs:
                raise Unfit("no inputs")
            self.inputs, self.names, count = programs.batch(case, seed)
        types = {name: (dtype, case.inputs[name][1].shape) for name, (dtype, _) in self.inputs.items()}
        self.tangents = {}
        for i, name in enumerate(active):
            self.tangents[name] = programs.directions([types[name]], [seed, i], count if name in self.names else None)[0]
        self.cotangents = programs.directions(case.output_types(), [seed, 77], count)

    def arguments(self):
        """The arguments of the command: its name, files by option, further options."""
        files = {"--inputs": {name: dumps.to_json(*x) for name, x in self.inputs.items()}}
        more = [*self.options]
        if self.command in ("jvp", "hvp"):
            files["--tangents"] = {name: dumps.to_json(*t) for name, t in self.tangents.items()}
        if self.command == "vjp":
            files["--cotangents"] = [None if c is None else dumps.to_json(*c) for c in self.cotangents]
        if self.command == "jac":
            more += ["--mode", "forward" if self.seed % 2 else "reverse"]
        if self.names:
            more += ["--batched", ",".join(self.names)]
        return self.command, files, more

    def jax(self):
        import oracle
        f = oracle.Function(self.case.graph, self.inputs, self.names)
        if self.command == "jvp":
            return f.jvp(self.tangents)
        if self.command == "vjp":
            return f.vjp(self.cotangents)
        if self.command == "hvp":
            return f.hvp(self.tangents)
        if self.command == "jac":
            return f.jac("forward" if self.seed % 2 else "reverse")
        return f.grad() if self.command == "grad" else f.eval()

    def on(self, case):
        """The same run of another case."""
        return Run(case, self.mode, self.seed, self.options)


class Tidu:
    """The command, which gets its files in a folder that is its own."""

    def __init__(self, program, folder, seconds=600):
        self.program, self.folder, self.seconds = program, pathlib.Path(folder), seconds

    def text(self, command, graph, files, more):
        arguments = [str(self.program), command, str(self.folder / "graph.json")]
        (self.folder / "graph.json").write_text(json.dumps(graph))
        for option, content in files.items():
            path = self.folder / f"{option.strip('-')}.json"
            path.write_text(json.dumps(content))
            arguments += [option, str(path)]
        try:
            done = subprocess.run([*arguments, *more], capture_output=True, text=True, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"tidu {command} did not end within {self.seconds} s") from None
        if done.returncode:
            raise Failed(f"tidu {command}: exit status {done.returncode}: {done.stderr.strip()[:400]}")
        return done.stdout

    def json(self, command, graph, files, more):
        text = self.text(command, graph, files, more)
        try:
            return json.loads(text, parse_constant=float)
        except ValueError as error:
            raise Failed(f"tidu {command} printed no JSON: {error}") from None

    def run(self, run):
        command, files, more = run.arguments()
        return self.json(command, run.case.graph, files, more)

    def transposed(self, case, seed):
        """The program with its gradients: a graph whose derivatives are of an order higher."""
        graph = self.json("dump", case.graph, {}, ["--stage", "transposed", "--format", "json"])
        inputs = dict(case.inputs)
        for i in graph["inputs"]:
            value = graph["values"][i]
            if value["name"] not in inputs:
                inputs[value["name"]] = programs.directions([(value["dtype"], tuple(value["shape"]))], [seed, i])[0]
        return programs.Case(dumps.live(graph), inputs)


def difference(got, want, least_tolerance):
    """(relative error or inf, in words) of one result; None where it is right."""
    if got is None:
        return None if want is None or not np.any(np.asarray(want) != 0) else (np.inf, "null where there is a value")
    dtype, g = got["dtype"], dumps.from_json(got)
    if want is None:
        return None if not np.any(g != 0) else (np.inf, "a value where there is none")
    w = np.asarray(want)
    if g.shape != w.shape or np.dtype(dumps.CARRIER[dtype]) != w.dtype:
        return np.inf, f"{dtype}{list(g.shape)} for {w.dtype}{list(w.shape)}"
    if not dumps.inexact(dtype):
        wrong = g != w
        return (np.inf, f"{g[wrong][:4]} for {w[wrong][:4]}") if wrong.any() else None
    if dtype in dumps.COMPLEX:
        g, w = np.stack([g.real, g.imag]), np.stack([w.real, w.imag])
    g, w = g.astype(np.float64), w.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(g) & np.isfinite(w)
        odd = ~finite & ~((g == w) | (np.isnan(g) & np.isnan(w)))
        if odd.any():
            return np.inf, f"{g[odd][:4]} for {w[odd][:4]}"
        largest = np.max(np.abs(w[finite]), initial=0.0)
        error = np.max(np.abs(g - w)[finite], initial=0.0) / max(largest, 1e-3)
    tolerance = max(RELATIVE[dtype], least_tolerance)
    if error <= tolerance:
        return None
    worst = np.unravel_index(np.argmax(np.where(finite, np.abs(g - w), 0)), g.shape)
    return error, f"off by {error:.1e}: {g[worst]} for {w[worst]}"


def flat(result):
    """The arrays of a command's output, by position."""
    for key, part in result.items():
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for name, x in items:
            if isinstance(x, dict) and "dtype" not in x:
                yield from ((f"{key} {name} by {i}", y) for i, y in x.items())
            else:
                yield f"{key} {name}", x


def arrays(result):
    """A command's output with numpy arrays in place of tensors, as oracles return it."""
    if isinstance(result, dict) and "dtype" in result:
        return dumps.from_json(result)
    if isinstance(result, dict):
        return {key: arrays(x) for key, x in result.items()}
    return [arrays(x) for x in result] if isinstance(result, list) else result


def differences(got, want, least_tolerance):
    """All that differs, as (place, error, words)."""
    wanted, given = dict(flat(want)), dict(flat(got))
    found = [(place, np.inf, "nothing where there is a value") for place, x in wanted.items()
             if x is not None and place not in given]
    for place, x in given.items():
        if place.startswith("jacobians") and x is None and place not in wanted:
            continue
        d = difference(x, wanted.get(place), least_tolerance)
        if d is not None:
            found.append((place, *d))
    return found


def tolerance_of(case):
    """That of the narrowest dtype in the program."""
    return max((RELATIVE[t] for t in case.dtypes() if t in RELATIVE), default=0.0)


def errors_of(got, want):
    """The largest error of floating results against others, relative to these."""
    wanted, worst = dict(flat(want)), 0.0
    for place, x in flat(got):
        w = wanted.get(place)
        if x is None or w is None or not np.issubdtype(np.asarray(w).dtype, np.inexact):
            continue
        with np.errstate(all="ignore"):
            x, w = np.asarray(x).astype(complex), np.asarray(w).astype(complex)
            finite = np.isfinite(x) & np.isfinite(w)
            if np.any(np.isfinite(x) != np.isfinite(w)):
                return np.inf
            largest = np.max(np.abs(w[finite]), initial=0.0)
            worst = max(worst, np.max(np.abs(x - w)[finite], initial=0.0) / max(largest, 1e-3))
    return worst


def rounded_as_much(run, got, want, oracle):
    """Is the oracle about as far from the result in 64 bits? For programs in 32 bits alone."""
    if not run.case.dtypes().intersection(("f32", "c64")) or run.case.dtypes().intersection(("f16", "bf16")):
        return False
    wide = {"f32": "f64", "c64": "c128"}
    widen = lambda x: None if x is None else (wide.get(x[0], x[0]), x[1].astype(dumps.CARRIER[wide.get(x[0], x[0])]))
    other = copy.copy(run)
    other.case = programs.Case(dumps.widened(run.case.graph), {})
    other.inputs = {name: widen(x) for name, x in run.inputs.items()}
    other.tangents = {name: widen(x) for name, x in run.tangents.items()}
    other.cotangents = [widen(x) for x in run.cotangents]
    exact = oracle(other)
    return errors_of(arrays(got), exact) <= 10 * errors_of(want, exact)


def judged(tidu, run, oracle):
    """None if tidu agrees; otherwise ("rounding" or "kink" or "different", the difference)."""
    want = oracle(run)
    try:
        got = tidu.run(run)
    except Failed as error:
        return "different", [("", np.inf, str(error))]
    found = differences(got, want, tolerance_of(run.case))
    if not found:
        return None
    worst = max(error for _, error, _ in found)
    if np.isfinite(worst) and rounded_as_much(run, got, want, oracle):
        return "rounding", found
    # Rounding may explain a difference as large as the change of the result when the inputs change by a few roundings.
    step = max((np.finfo(dumps.CARRIER[t]).eps * (2**16 if t == "bf16" else 1) for t in run.case.dtypes() if dumps.inexact(t)),
               default=0.0)
    try:
        near = oracle(run.on(programs.moved(run.case, 4 * step, run.seed)))
        if np.isfinite(worst) and worst <= 100 * errors_of(near, want):
            return "rounding", found
        # Beside a kink all agree again.
        for i in range(2):
            beside = run.on(programs.moved(run.case, 1e-2, run.seed + i + 1))
            if differences(tidu.run(beside), oracle(beside), tolerance_of(run.case)):
                return "different", found
        return "kink", found
    except RuntimeError as error:
        return "different", [*found, ("moved", np.inf, str(error))]
