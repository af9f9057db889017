"""Keys of jaxprs and rules: equal only if they compute the same, though JAX and libraries make new objects for each
trace.

A key has the text of the jaxpr, its constants, and a fingerprint of each custom rule inside, which the text does not
show: code, and what it closes over. Rules that call themselves end by them, and equal calls share their graphs.
"""

import functools
import hashlib
import re
import sys
import types

import jax
import numpy as np
from jax._src import core
from jax._src import linear_util as lu

from .dtypes import is_key

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
RULES_OF_CALLS = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "transpose_thunk")


def without_addresses(text):
    return ADDRESS.sub("", text)


def text_of(closed):
    with np.printoptions(precision=17, threshold=sys.maxsize):
        text = str(closed.jaxpr)
    inner = tuple(fingerprint(f, set()) for f in rules_in(closed.jaxpr))
    return without_addresses(text), tuple(hash_of(c) for c in closed.consts), inner


def rules_in(jaxpr):
    for e in jaxpr.eqns:
        yield from (e.params[name] for name in RULES_OF_CALLS if name in e.params)
        for inner in core.jaxprs_in_params(e.params):
            yield from rules_in(inner)


def hash_of(x):
    if isinstance(x, core.Tracer):
        return "of the surroundings", str(x.aval)
    x = np.asarray(jax.random.key_data(x) if hasattr(x, "dtype") and is_key(x.dtype) else x)
    return hashlib.sha256(x.tobytes()).digest(), str(x.dtype), x.shape


def fingerprint(x, seen):
    """What a function is made of: its code, defaults and closure; numbers, texts and arrays by value, other objects by
    class."""
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        return repr(x)
    if isinstance(x, (np.ndarray, np.generic)) or (isinstance(x, jax.Array) and not isinstance(x, core.Tracer)):
        return hash_of(x)
    if id(x) in seen or len(seen) > 2000:
        return "seen"
    seen.add(id(x))
    inner = lambda *parts: tuple(fingerprint(p, seen) for p in parts)
    if isinstance(x, types.FunctionType):
        cells = [cell_contents(c) for c in x.__closure__ or ()]
        return (
            x.__code__.co_filename,
            x.__code__.co_firstlineno,
            x.__code__.co_code,
            *inner(*(x.__defaults__ or ()), *cells),
        )
    if isinstance(x, types.MethodType):
        return inner(x.__func__, x.__self__)
    if isinstance(x, functools.partial):
        return inner(x.func, *x.args, *x.keywords.values())
    if isinstance(x, lu.WrappedFun):
        return inner(x.f, x.f_transformed)
    if isinstance(x, (tuple, list)):
        return inner(*x)
    if isinstance(x, dict):
        return (tuple(map(str, x)), *inner(*x.values()))
    if isinstance(x, core.AbstractValue):
        return str(x)
    return f"{type(x).__module__}.{type(x).__qualname__}"


def cell_contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None
