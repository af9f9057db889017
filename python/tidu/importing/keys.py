"""Keys of jaxprs and rules: equal only if they compute the same, though JAX and libraries make new objects for each
trace.

A key has the text of the jaxpr, its constants, and a fingerprint of each parameter that the text need not show, such as
the function of a custom rule. Rules that call themselves end by them, and equal calls share their graphs.
"""

import copyreg
import functools
import hashlib
import re
import sys
import types

import jax
import numpy as np
from jax._src import core
from jax._src import linear_util as lu
from jax._src.interpreters import batching
from jax._src.literals import typed_scalar_types
from jax.extend import core as jcore

from .dtypes import is_key

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes, *typed_scalar_types)
# What JAX keeps about a trace: it is not what a function computes.
OF_TRACING = (core.Trace, core.TraceTag, core.DebugInfo, lu.Store, lu.EqualStore)
MAX_OBJECTS, MAX_NESTING = 5000, 80


class Same:
    """An object that equals only itself. It is kept, so that no other object gets its id."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, Same) and self.x is other.x

    def __hash__(self):
        return id(self.x)


def text_of(closed, around=()):
    """`around` has the variables of the surroundings that the jaxpr gets, with their positions."""
    return Fingerprints(around).jaxpr(closed)


def fingerprint(x):
    return Fingerprints().of(x)


def hash_of(x):
    kind = str(x.dtype), getattr(x, "weak_type", False), np.shape(x)
    x = np.asarray(jax.random.key_data(x) if is_key(x.dtype) else x)
    return (hashlib.sha256(x.tobytes()).digest(), *kind)


def has_memory(f):
    return getattr(f, "__qualname__", "") == "_memoize.<locals>.memoized"


def captured(f, name):
    """A value that a function closes over."""
    return f.__closure__[f.__code__.co_freevars.index(name)].cell_contents


def without_memory(f):
    """The function that JAX calls with memory of former calls, or f."""
    while has_memory(f):
        f = captured(f, "fn")
    return f


def forget(f):
    """Clears the memory of former calls, so that f is traced once more."""
    if has_memory(f):
        captured(f, "cells").clear()


def is_plain(cls):
    """Whether instances are their attributes alone. (copyreg refuses to pickle others by the same test.)"""
    count = (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0) + len(copyreg._slotnames(cls))
    return cls is not object and not cls.__itemsize__ and cls.__basicsize__ <= object.__basicsize__ + tuple.__itemsize__ * count


class Fingerprints:
    """What the values of one key are made of: functions by code, defaults and closure; numbers, texts and arrays by
    value; objects of Python by their attributes; what is not known by value by identity."""

    def __init__(self, around=()):
        self.seen = {}  # id -> (number, object)
        self.variables = {v: ("around", k) for v, k in around}  # and those of the jaxprs
        self.nesting = 0

    def jaxpr(self, closed):
        jaxpr, consts = (closed.jaxpr, closed.consts) if isinstance(closed, jcore.ClosedJaxpr) else (closed, ())
        with np.printoptions(precision=17, threshold=sys.maxsize):
            text = ADDRESS.sub("", str(jaxpr))
        return text, self.beside_the_text(jaxpr, consts)

    def beside_the_text(self, jaxpr, consts):
        for v in (*jaxpr.constvars, *jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outvars)):
            self.variables.setdefault(v, len(self.variables))
        return *map(self.of, consts), *(self.parameter(p) for e in jaxpr.eqns for p in e.params.values())

    def parameter(self, p):
        """A parameter of an equation: the text of the jaxpr has the texts of jaxprs in it."""
        if isinstance(p, jcore.ClosedJaxpr):
            return self.beside_the_text(p.jaxpr, p.consts)
        if isinstance(p, jcore.Jaxpr):
            return self.beside_the_text(p, ())
        return tuple(map(self.parameter, p)) if type(p) in (tuple, list) else self.of(p)

    def of(self, x):
        if isinstance(x, OF_TRACING):
            return type(x)
        if isinstance(x, batching.BatchTracer):
            return type(x), self.of(x.val), x.batch_dim
        if isinstance(x, core.Tracer):
            x = getattr(x, "val", x)
        if isinstance(x, jcore.Literal):
            x = x.val
        if type(x) in PLAIN:
            return repr(x)
        if isinstance(x, jcore.Var):
            return ("variable", self.variables[x]) if x in self.variables else Same(x)
        if isinstance(x, core.Tracer):
            return Same(x)
        if isinstance(x, (np.ndarray, np.generic, jax.Array)) and x.dtype != object:
            return hash_of(x)
        if isinstance(x, (core.AbstractValue, np.dtype)):
            return x
        if id(x) in self.seen and not isinstance(x, tuple):
            return "seen", self.seen[id(x)][0]
        if len(self.seen) > MAX_OBJECTS or self.nesting > MAX_NESTING:
            return Same(x)
        self.seen[id(x)] = len(self.seen), x
        self.nesting += 1
        parts = self.parts(without_memory(x))
        self.nesting -= 1
        return Same(x) if parts is None else (type(x), *parts)

    def parts(self, x):
        inner = lambda *parts: tuple(map(self.of, parts))
        if isinstance(x, types.FunctionType):
            cells = [cell_contents(c) for c in x.__closure__ or ()]
            around = x.__code__.co_filename, x.__code__, Same(x.__globals__)
            return *around, *inner(x.__defaults__, x.__kwdefaults__, vars(x), *cells)
        if isinstance(x, types.MethodType):
            return inner(x.__func__, x.__self__)
        if isinstance(x, types.BuiltinFunctionType) and not isinstance(x.__self__, types.ModuleType):
            return inner(x.__name__, x.__self__)
        if isinstance(x, functools.partial):
            return inner(x.func, x.args, x.keywords, vars(x))
        if isinstance(x, lu.WrappedFun):
            return inner(x.f_transformed)
        if isinstance(x, (tuple, list)):
            return inner(*x)
        if isinstance(x, dict):
            return inner(*x.keys(), *x.values())
        if isinstance(x, (set, frozenset)):
            return (frozenset(inner(*x)),)
        if isinstance(x, (jcore.Jaxpr, jcore.ClosedJaxpr)):
            return self.jaxpr(x)
        if isinstance(x, core.JaxprEqn):
            return inner(x.primitive, x.params)
        if isinstance(x, jax.tree_util.PyTreeDef):
            return inner(x.node_data(), x.children())
        if isinstance(x, (type, types.ModuleType, core.Primitive)):
            return None
        if is_plain(type(x)):
            return inner(*((name, getattr(x, name)) for name in attributes_of(x)))
        return inner(x.__wrapped__) if hasattr(x, "__wrapped__") else None


def attributes_of(x):
    return [name for name in [*getattr(x, "__dict__", ()), *copyreg._slotnames(type(x))] if hasattr(x, name)]


def cell_contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None
