"""Special functions that a module has expanded into polynomials, as jax.export does with lgamma, digamma, erf_inv, erfc
and Bessel functions. They are recognised by comparison with the expansions of this version of JAX, and become function
calls again: the derivative of an approximating polynomial may be far from that of the function, or NaN."""

import functools

import jax
import numpy as np
from jax import export, lax
from jaxlib.mlir import ir

EXPANDED = {
    "bessel_i0e": lax.bessel_i0e,
    "bessel_i1e": lax.bessel_i1e,
    "digamma": lax.digamma,
    "erf_inv": lax.erf_inv,
    "erfc": lax.erfc,
    "lgamma": lax.lgamma,
}
DTYPES = {"f32": np.float32, "f64": np.float64}
MIN_NUMBERS = 8  # distinct constants of the smallest expansion


@functools.cache
def text_of(name, dtype):
    return export.export(jax.jit(EXPANDED[name]))(jax.ShapeDtypeStruct((), dtype)).mlir_module()


def element(value):
    return str(ir.RankedTensorType(value.type).element_type) if "tensor" in str(value.type) else str(value.type)


def number(operation):
    """The number that all elements of a constant are, also after a broadcast, else None."""
    while operation is not None and operation.name == "stablehlo.broadcast_in_dim":
        operation = operation_of(operation.operands[0])
    if operation is None or operation.name != "stablehlo.constant" or element(operation.results[0]) not in DTYPES:
        return None
    value = operation.attributes["value"]
    return str(value).split(":")[0] if isinstance(value, ir.DenseElementsAttr) and value.is_splat else None


def operation_of(value):
    owner = value.owner
    return None if isinstance(owner, ir.Block) else getattr(owner, "operation", owner)


def matches(value, pattern, argument, found, seen):
    """Whether a value is computed as a pattern is, from one value, which `found` gets."""
    if pattern == argument:
        if found:
            return found[0] == value
        found.append(value)
        return element(value) == element(pattern)
    if (value, pattern) in seen:
        return True
    made, asked = operation_of(value), operation_of(pattern)
    if element(value) != element(pattern):
        return False
    if number(asked) is not None:
        return number(made) == number(asked)
    if made is None or made.name != asked.name:
        return False
    if len(made.operands) != len(asked.operands) or len(made.regions) or direction(made) != direction(asked):
        return False
    for operands in orders(made):
        bound = list(found)
        if all(matches(v, p, argument, found, seen) for v, p in zip(operands, asked.operands)):
            seen.add((value, pattern))
            return True
        if len(found) > len(bound):  # matches found since depend on a choice that is taken back
            found[:] = bound
            seen.clear()
    return False


def orders(operation):
    """The operands in each order that gives the same result."""
    operands = list(operation.operands)
    return [operands, operands[::-1]] if operation.name in ("stablehlo.add", "stablehlo.multiply") else [operands]


def direction(operation):
    name = "comparison_direction"
    return str(operation.attributes[name]) if name in operation.attributes else ""


class Patterns:
    """The functions as this version of JAX writes them, for the dtypes that a module has numbers of."""

    def __init__(self, module):
        numbers = {}
        for operation in walk(module.operation):
            if number(operation) is not None:
                numbers.setdefault(element(operation.results[0]), set()).add(number(operation))
        self.parsed, self.roots = [], {}
        for name, found in numbers.items():
            if len(found) >= MIN_NUMBERS:
                self.add(DTYPES[name])

    def add(self, dtype):
        for name, function in EXPANDED.items():
            module = ir.Module.parse(text_of(name, dtype))
            self.parsed.append(module)  # keeps the values below alive
            block = module.body.operations[0].regions[0].blocks[0]
            root = list(block.operations)[-1].operation.operands[0]
            if operation_of(root) is not None:
                self.roots.setdefault(operation_of(root).name, []).append((function, root, block.arguments[0]))

    def function(self, operation):
        """(function, operand) if an operation is the last of an expanded function, else None."""
        for function, root, argument in self.roots.get(operation.name, ()):
            found = []
            if matches(operation.results[0], root, argument, found, set()) and found:
                return function, found[0]
        return None


def walk(operation):
    for region in operation.regions:
        for block in region:
            for each in block:
                yield each.operation
                yield from walk(each.operation)
