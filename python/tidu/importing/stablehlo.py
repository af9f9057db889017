"""from_stablehlo: a StableHLO module, evaluated operation by operation by functions of jax.lax, and imported as these
are.

jaxlib's bindings parse the module. StableHLO's operations are those of jax.lax, so the rules for jaxprs serve both. A
scope names the location of each operation, which errors and dumps then have. What nobody can evaluate is collected, as
in the translator.
"""

import re

import jax
import numpy as np
from jax import lax
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from ..errors import ImportProgramError, InvalidArgumentError
from .dtypes import Unsupported
from .program import from_jax
from .registry import entering
from .stablehlo_functions import Patterns
from .translator import Failure

DTYPES = {
    "i1": np.bool_,
    "f16": np.float16,
    "bf16": jax.numpy.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}
for _bits in (8, 16, 32, 64):
    DTYPES[f"i{_bits}"] = np.dtype(f"int{_bits}")
    DTYPES[f"ui{_bits}"] = np.dtype(f"uint{_bits}")
OPS = {}
op = entering(OPS)  # of f(module, operation, operands) -> a result or a list of them
LOCATION = re.compile(r'"([^"]*)":(\d+):')


def type_of(value_type):
    """(shape, dtype) of a tensor type."""
    tensor = ir.RankedTensorType(value_type)
    element = str(tensor.element_type)
    if element not in DTYPES:
        raise Unsupported("type " + str(value_type))
    if any(tensor.is_dynamic_dim(k) for k in range(tensor.rank)):
        raise Unsupported("type " + str(value_type), "with an extent that is not static")
    return tuple(tensor.shape), np.dtype(DTYPES[element])


def line_of(operation):
    """file:line of the innermost location that has one; "-" is the text itself."""
    match = LOCATION.search(str(operation.location))
    if not match:
        return ""
    name = match.group(1).rsplit("/", 1)[-1]
    return f"{'stablehlo' if name == '-' else name}:{match.group(2)}"


class Module:
    """A parsed module, whose functions are evaluated by jax.lax."""

    def __init__(self, module):
        self.module = module  # which the operations live in
        self.functions, self.failures, self.patterns = {}, [], Patterns(module)
        for operation in module.body.operations:
            if operation.operation.name == "func.func":
                self.functions[ir.StringAttr(operation.attributes["sym_name"]).value] = operation

    def call(self, name, xs):
        if name not in self.functions:
            raise Unsupported("func.call", f"of @{name}, which the module does not have")
        return self.block(self.functions[name].regions[0].blocks[0], xs, {})

    def block(self, block, xs, values):
        """The operands of the terminator. `values` has what the block reads from around it."""
        values = {**values, **dict(zip(block.arguments, xs))}
        for each in block.operations:
            operation = each.operation
            operands = [values[v] for v in operation.operands]
            if operation.name in ("stablehlo.return", "func.return"):
                return operands
            values.update(zip(operation.results, self.evaluate(operation, operands, values)))
        return []

    def region(self, operation, k, values):
        """A region as a function of its arguments."""
        return lambda *xs: self.block(operation.regions[k].blocks[0], xs, values)

    def evaluate(self, operation, operands, values):
        where = line_of(operation)
        self.values = values
        try:
            if operation.name not in OPS:
                raise Unsupported(operation.name)
            with jax.named_scope("loc:" + where.replace("/", "|")):
                special = self.patterns.function(operation)
                if special:
                    function, operand = special
                    results = function(values[operand])
                else:
                    results = OPS[operation.name](self, operation, operands)
            results = results if isinstance(results, (list, tuple)) else [results]
            return [self.typed(y, v.type) for y, v in zip(results, operation.results)]
        except Unsupported as problem:
            self.failures.append(Failure(problem.primitive, problem.detail, where))
            return [self.stand_in(v.type) for v in operation.results]

    def typed(self, y, value_type):
        if not str(value_type).startswith("tensor"):  # tokens and tuples
            return y
        shape, dtype = type_of(value_type)
        if isinstance(y, np.ndarray) and y.dtype == dtype and y.shape == shape:
            return y
        return lax.convert_element_type(y, dtype).reshape(shape)

    def stand_in(self, value_type):
        try:
            return np.zeros(*type_of(value_type))
        except Exception:
            return np.zeros((), np.float32)


def attribute(operation, name, default=None):
    """An attribute as Python's or NumPy's: numbers, texts, lists and arrays."""
    if name not in operation.attributes:
        return default
    value = operation.attributes[name]
    text = str(value)
    if text.startswith("array<"):
        return list(value)
    if text.startswith("dense<"):
        return np.array(value)
    kinds = (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr, ir.FlatSymbolRefAttr)
    return value.value if isinstance(value, kinds) else value


def enumerant(operation, name, default=""):
    """The word of an enumeration: LT of #stablehlo<comparison_direction LT>."""
    if name not in operation.attributes:
        return default
    return str(operation.attributes[name]).rstrip(">").split()[-1]


def parse(text):
    if isinstance(text, bytes):
        if text[:4] == b"ML\xefR":
            try:
                return dialect.deserialize_portable_artifact(ir.Context.current, text)
            except Exception:  # bytecode of the dialect itself
                return ir.Module.parse(text)
        text = text.decode()
    return ir.Module.parse(text)


def read(text):
    """The Module of a text; in a context of MLIR."""
    from . import stablehlo_calls, stablehlo_control, stablehlo_ops  # noqa: F401

    return Module(parse(text))


def traced_module(data, avals, arguments):
    """The jaxpr of the function main of a module, of values with these avals from which `arguments` makes main's, and
    the Failures in it."""
    with jax_mlir.make_ir_context(), jax.enable_x64(True):
        module = read(data)
        specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        return jax.make_jaxpr(lambda *xs: module.call("main", arguments(xs)))(*specs), module.failures


def from_stablehlo(text, *, name="main"):
    """The graph of a StableHLO module: an ImportedProgram of the function `name`.

    text is MLIR text, its bytecode, or a portable artifact, as jax.export (exported.mlir_module(),
    .mlir_module_serialized) and PyTorch's exporters give it. Loops with a constant number of steps become scans, which
    have reverse mode. Raises ImportProgramError, with operations and locations, where something cannot be translated.
    """
    with jax_mlir.make_ir_context(), jax.enable_x64(True):
        try:
            module = read(text)
        except Exception as problem:
            raise InvalidArgumentError(f"[from_stablehlo] expected a StableHLO module, got {problem}") from None
        if name not in module.functions:
            known = ", ".join(sorted(module.functions)) or "none"
            raise InvalidArgumentError(
                f'[from_stablehlo] expected a function of the module, got "{name}"; it has {known}'
            )
        arguments = module.functions[name].regions[0].blocks[0].arguments
        specs = []
        for k, argument in enumerate(arguments):
            try:
                specs.append(jax.ShapeDtypeStruct(*type_of(argument.type)))
            except Unsupported as problem:
                raise ImportProgramError([(problem.primitive, problem.detail, f"argument {k}")]) from None

        def main(*xs):
            results = module.call(name, xs)
            if module.failures:
                raise ImportProgramError(module.failures)
            return results[0] if len(results) == 1 else tuple(results)

        main.__name__ = name
        return from_jax(main, *specs)
