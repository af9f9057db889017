"""The translator: runs through the equations of a jaxpr, and has the rule of each primitive emit operations of tidu.

A rule is a function (t, e, xs): the Translator, the equation and the Values of its operands; it returns a Value, or a
list of one for each result. `@rule(names...)` registers it. Equations that raise Unsupported are collected with their
lines, so that one error names all of them.
"""

import collections
import contextlib
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core, source_info_util
from jax._src.interpreters import partial_eval as pe
from jax._src.state.discharge import discharge_state
from jax.extend import core as jcore

from ..errors import ImportProgramError
from .builder import MAX_KNOWN, Builder, number_of_operations
from .dtypes import EMULATED, SAME, Unsupported, dtype_of, is_float0, is_key, shape_of, type_of, width
from .registry import entering

RULES = {}
rule = entering(RULES)  # of f(translator, equation, operands)
NEW_REFS = core.ref_p, core.empty_ref_p
HERE = os.path.dirname(os.path.abspath(__file__))


def closed_jaxpr(jaxpr):
    return jaxpr if isinstance(jaxpr, jcore.ClosedJaxpr) else jcore.ClosedJaxpr(jaxpr, ())


def without_refs(jaxpr):
    """A jaxpr that makes references, with their values in place of them. Its constants become its first inputs."""
    return discharge_state(jcore.ClosedJaxpr(pe.convert_constvars_jaxpr(jaxpr), ()))


def is_traced(x):
    """Whether a constant of a jaxpr is a value that another jaxpr computes."""
    return isinstance(x, core.Tracer) and not isinstance(getattr(x, "val", None), jcore.Literal)


def variable_of(tracer):
    """The variable of the jaxpr that a tracer is a value of, or None."""
    variable = getattr(tracer, "val", None)
    return variable if isinstance(variable, jcore.Var) else None


def literal(g, v):
    """The Value of a literal of a jaxpr."""
    return g.constant(v.val if is_key(v.aval.dtype) else np.asarray(v.val, v.aval.dtype))


class OutOfReach(Unsupported):
    """A rule reads a value of a trace that JAX has ended, which would be an error of its derivative in JAX."""


class Refusal:
    """A rule that accepts no tangents, whose derivatives are then NaN."""

    def call_wrapped(self, *_):
        raise NotImplementedError


class Failure(collections.namedtuple("Failure", "primitive detail where")):
    """One equation that was not translated."""


class Translator:
    """Emits into `g`, the innermost Builder. `named` holds graphs that others refer to by name: rules of the user's
    own."""

    def __init__(self):
        self.g = None
        self.failures = []
        self.scopes = []  # (builder, values) of each jaxpr that is being run
        self.named, self.names = {}, {}
        self.called = set()  # keys of functions that have rules
        self.waiting = collections.deque()  # rules to make: (name, make, order, scopes, where)
        self.order = 0  # of the derivatives that first need what is being made
        self.operations = collections.Counter()  # of the named graphs, by order
        self.barriers = 0
        self.outer_where = ""

    @contextlib.contextmanager
    def inside(self, builder):
        outer, self.g = self.g, builder
        if outer is not None:
            builder.where = outer.where
        try:
            yield builder
        finally:
            self.g = outer

    def graph(self, name, avals, body, known=()):
        """The dump of a graph of its own: body maps its inputs to its outputs. `known` are Values that the first inputs
        equal."""
        with self.inside(Builder(name)) as g:
            xs = [g.input(f"x{k}", *type_of(a)) for k, a in enumerate(avals)]
            for x, value in zip(xs, known):
                x.known = value.known
            g.outputs = body(*xs)
        return g.dump()

    def graph_of(self, closed, name=None, known=()):
        """The dump of a closed jaxpr."""
        closed = closed_jaxpr(closed)
        name = name or closed.jaxpr.debug_info.func_name or "f"
        return self.graph(name, closed.in_avals, lambda *xs: self.inline(closed, xs), known)

    def named_graph(self, key, name, make, is_rule=True):
        """The name of the graph that make() gives; made once for each key. Rules are made by make_rules, and what they
        refer to may be themselves."""
        if key not in self.names:
            self.names[key] = used = f"{name}#{len(self.names)}"
            if is_rule:
                self.waiting.append((used, make, self.order + 1, list(self.scopes), self.g.where))
            else:
                self.store(used, make())
        return self.names[key]

    def store(self, name, dump):
        self.named[name] = dump
        self.operations[self.order] += number_of_operations(dump)

    def make_rules(self):
        """Makes the rules that are referred to by name, and those that these refer to, by the order of derivatives."""
        while self.waiting:
            used, make, self.order, self.scopes, where = self.waiting.popleft()
            around = Builder("around")
            around.where = where
            with self.inside(around):
                try:
                    self.store(used, make())
                except Unsupported as problem:  # of a value that the rule reads
                    self.failures.append(Failure(problem.primitive, problem.detail, where))

    def inline(self, closed, xs):
        closed = closed_jaxpr(closed)
        return self.run(closed.jaxpr, [self.constant(c) for c in closed.consts], list(xs))

    def constant(self, x):
        """The Value of a constant of a jaxpr, or of a value of an enclosing jaxpr."""
        if not isinstance(x, core.Tracer):
            return self.g.constant(x)
        value = self.surrounding(x)
        if value is None:
            variable = getattr(x, "val", None)
            is_ended = isinstance(variable, jcore.Var) and not any(variable in values for _, values in self.scopes)
            error = OutOfReach if is_ended else Unsupported
            raise error("a traced value", "which a function reads that does not have it as an argument")
        return value

    def trace(self, f, xs, avals):
        """f, a function of jax.numpy, on Values of the current graph that have these avals."""
        return self.inline(self.traced(f, avals), xs)

    def traced(self, f, avals):
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        return jax.make_jaxpr(lambda *v: jax.tree_util.tree_leaves(f(*v)))(*specs)

    def run(self, jaxpr, consts, args):
        if any(e.primitive in NEW_REFS for e in jaxpr.eqns):
            with contextlib.suppress(NotImplementedError):
                closed = without_refs(jaxpr)
                jaxpr, consts, args = closed.jaxpr, [self.constant(c) for c in closed.consts], [*consts, *args]
        values = {}

        def read(v):
            return literal(self.g, v) if isinstance(v, jcore.Literal) else values[v]

        values.update(zip(jaxpr.constvars, consts))
        values.update(zip(jaxpr.invars, args))
        outer = self.g.where
        with self.reading(values):
            for e in jaxpr.eqns:
                xs = [read(v) for v in e.invars]
                self.g.where = line_of(e) or outer
                outputs = self.apply(e, xs)
                values.update((v, o) for v, o in zip(e.outvars, outputs) if type(v).__name__ != "DropVar")
        self.g.where = outer
        return [read(v) for v in jaxpr.outvars]

    @contextlib.contextmanager
    def reading(self, values):
        """Lets rules inside read these Values, which are given by their variables."""
        self.scopes.append((self.g, values))
        try:
            yield
        finally:
            self.scopes.pop()

    def surrounding(self, tracer):
        """The Value that a rule reads from around it, which JAX has as a tracer of a jaxpr that is being run."""
        variable = getattr(tracer, "val", None)
        if isinstance(variable, jcore.Literal):
            return literal(self.g, variable)
        for builder, values in reversed(self.scopes):
            if isinstance(variable, jcore.Var) and variable in values:
                value = values[variable]
                if builder is self.g or value.known is None:
                    return value if builder is self.g else None
                return self.g.constant(value.known)
        return None

    def apply(self, e, xs):
        try:
            outputs = self.outputs_of(e, xs)
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            check_types(e, outputs)
            self.remember(e, xs, outputs)
            return outputs
        except Unsupported as problem:
            self.failures.append(Failure(problem.primitive, problem.detail, self.g.where))
            return [self.g.full(0, *stand_in(v.aval)) for v in e.outvars]

    def outputs_of(self, e, xs):
        f = RULES.get(e.primitive.name, RULES["of a library"])
        try:
            return f(self, e, xs)
        except OutOfReach:
            if e.primitive.name != "custom_jvp_call":
                raise
            return f(self, e.replace(params={**e.params, "jvp_jaxpr_fun": Refusal()}), xs)

    def remember(self, e, xs, outputs):
        """Follows small arrays of integers that depend on no input: indices, axes, choices."""
        if e.primitive.multiple_results or len(outputs) != 1 or not e.outvars:
            return
        (y,) = outputs
        if y.known is not None or y.size > MAX_KNOWN or y.dtype not in ("bool", "i32", "i64"):
            return
        if any(x.known is None for x in xs) or e.primitive.name.startswith("random"):
            return
        avals = [v.aval for v in [*e.invars, *e.outvars]]
        if any(is_key(a.dtype) or is_float0(a.dtype) or np.dtype(a.dtype).name not in SAME for a in avals):
            return
        with jax.ensure_compile_time_eval():
            operands = [jnp.asarray(x.known, v.aval.dtype).reshape(v.aval.shape) for x, v in zip(xs, e.invars)]
            y.known = np.asarray(e.primitive.bind(*operands, **e.params))

    def wrap(self, x, dtype):
        """x reduced to the range of a JAX dtype of integers that tidu does not have."""
        if np.dtype(dtype).name not in EMULATED:
            return x
        bits, signed = width(dtype)
        if bits == 64:
            return x
        g, mask = self.g, self.g.like((1 << bits) - 1, x)
        if not signed:
            return g.binary("and", x, mask)
        half = g.like(1 << (bits - 1), x)
        return g.sub(g.binary("and", g.add(x, half), mask), half)

    def raise_failures(self):
        if self.failures:
            raise ImportProgramError(self.failures)


def stand_in(aval):
    try:
        return type_of(aval)
    except Unsupported:
        return "f64", tuple(n if isinstance(n, int) else 1 for n in aval.shape)


def check_types(e, outputs):
    for v, o in zip(e.outvars, outputs):
        if type(v).__name__ != "DropVar" and (o.dtype, o.shape) != type_of(v.aval):
            raise AssertionError(f"{e.primitive.name}: {o.dtype}{list(o.shape)} for {v.aval}")


def line_of(e):
    """The user's line that an equation is for, as file:line; or the location in a StableHLO text, which name scopes
    carry."""
    for scope in reversed(str(e.source_info.name_stack).split("/")):
        if scope.startswith("loc:"):
            return scope.removeprefix("loc:").replace("|", "/")
    for frame in source_info_util.user_frames(e.source_info.traceback):
        if not frame.file_name.startswith(HERE):
            return f"{frame.file_name.rsplit('/', 1)[-1]}:{frame.start_line}"
    return ""


def aval(e, k=0):
    return e.invars[k].aval


def out_aval(e, k=0):
    return e.outvars[k].aval


def result(e, k=0):
    """(dtype, shape) of a result, in tidu's types."""
    return dtype_of(out_aval(e, k).dtype), shape_of(out_aval(e, k))


def results(e):
    return [result(e, k) for k in range(len(e.outvars))]
