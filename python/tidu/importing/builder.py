"""A graph under construction, as the JSON object of a dump.

`Builder.emit` appends an operation; who emits one says what types come out, and tidu checks them when it reads the
dump. The other methods are primitives with their result types worked out, scalars broadcast as jax.lax does.
"""

import math

import ml_dtypes
import numpy as np

from .dtypes import COMPLEX, NUMPY, PART_OF, SAME, Unsupported, ints, number_to_json, tensor_to_json, to_json, to_numpy

MAX_KNOWN = 4096  # elements of a value that is followed at translation time


class Value:
    """A value of a graph. `is_constant` says that it depends on no input, `known` is then its NumPy array if that is
    small, `producer` (op, operands) what made it."""

    __slots__ = ("id", "dtype", "shape", "is_constant", "known", "producer")

    def __init__(self, id, dtype, shape):
        self.id, self.dtype, self.shape = id, dtype, tuple(shape)
        self.is_constant, self.known, self.producer = False, None, None

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)


class Builder:
    def __init__(self, name):
        self.name = name
        self.values, self.inputs, self.outputs, self.operations = [], [], [], []
        self.names = {}  # of inputs, by the id of the value
        self.constants = {}
        self.where = ""  # the line of Python that operations are emitted for

    def value(self, dtype, shape):
        self.values.append(Value(len(self.values), dtype, [int(n) for n in shape]))
        return self.values[-1]

    def input(self, name, dtype, shape):
        value = self.value(dtype, shape)
        self.names[value.id] = name
        self.inputs.append(value)
        return value

    def emit(self, op, operands, types, /, **attributes):
        outputs = [self.value(dtype, shape) for dtype, shape in types]
        operation = {"op": op, "inputs": [v.id for v in operands], "outputs": [v.id for v in outputs]}
        if attributes:
            operation["attrs"] = {key: to_json(v) for key, v in attributes.items()}
        if self.where:
            operation["where"] = self.where
        self.operations.append(operation)
        for v in outputs:
            v.producer = op, list(operands)
            v.is_constant = all(x.is_constant for x in operands)
        return outputs

    def one(self, op, operands, dtype, shape, /, **attributes):
        return self.emit(op, operands, [(dtype, shape)], **attributes)[0]

    # constants

    def full(self, value, dtype, shape=()):
        shape = tuple(shape)
        value = bool(value) if dtype == "bool" else complex(value) if dtype in COMPLEX else value
        key = (repr(value), dtype, shape)
        if key not in self.constants:
            attributes = {"value": number_to_json(value), "dtype": dtype, "shape": list(shape)}
            made = self.constants[key] = self.one("full", [], dtype, shape, **attributes)
            if math.prod(shape) <= MAX_KNOWN:
                made.known = np.full(shape, value, NUMPY[dtype])
        return self.constants[key]

    def constant(self, x):
        x = to_numpy(x)
        dtype = SAME[x.dtype.name]
        if x.size and _is_splat(x):
            first = x.reshape(-1)[0]
            return self.full(float(first) if x.dtype == ml_dtypes.bfloat16 else first.item(), dtype, x.shape)
        key = (x.tobytes(), dtype, x.shape)
        if key not in self.constants:
            made = self.constants[key] = self.one("constant", [], dtype, x.shape, value=tensor_to_json(x))
            made.known = x
        return self.constants[key]

    def like(self, value, x):
        """A scalar of x's dtype."""
        return self.full(value, x.dtype)

    # elementwise

    def fit(self, x, shape):
        """x broadcast to a shape, from a scalar or from extents of 1."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.rank == 0:
            return self.broadcast(x, shape, [])
        if x.rank != len(shape) or any(n not in (1, m) for n, m in zip(x.shape, shape)):
            raise Unsupported("broadcast", f"of {list(x.shape)} to {list(shape)}")
        return self.broadcast(x, shape, range(x.rank))

    def fitted(self, xs):
        shapes = [x.shape for x in xs if x.rank]
        same_rank = len({len(s) for s in shapes}) == 1
        shape = np.broadcast_shapes(*shapes) if same_rank else shapes[0] if shapes else ()
        return [self.fit(x, shape) for x in xs]

    def unary(self, op, x, dtype=None, /, **attributes):
        return self.one(op, [x], dtype or x.dtype, x.shape, **attributes)

    def binary(self, op, x, y):
        x, y = self.fitted([x, y])
        return self.one(op, [x, y], x.dtype, x.shape)

    def compare(self, op, x, y):
        x, y = self.fitted([x, y])
        return self.one(op, [x, y], "bool", x.shape)

    def add(self, x, y):
        return self.binary("add", x, y)

    def sub(self, x, y):
        return self.binary("sub", x, y)

    def mul(self, x, y):
        return self.binary("mul", x, y)

    def div(self, x, y):
        return self.binary("div", x, y)

    def select(self, which, if_false, if_true):
        shape = np.broadcast_shapes(if_false.shape, if_true.shape, which.shape)
        if_false, if_true = self.fit(if_false, shape), self.fit(if_true, shape)
        if which.rank:
            which = self.fit(which, shape)
        return self.one("select_n", [which, if_false, if_true], if_false.dtype, shape)

    def convert(self, x, dtype):
        if x.dtype == dtype:
            return x
        if x.dtype in COMPLEX and dtype not in COMPLEX:
            x = self.one("real", [x], PART_OF[x.dtype], x.shape)
            if x.dtype == dtype:
                return x
        return self.one("convert_element_type", [x], dtype, x.shape, new_dtype=dtype)

    def conj(self, x):
        return self.unary("conj", x) if x.dtype in COMPLEX else x

    # shapes

    def broadcast(self, x, shape, dimensions):
        shape, dimensions = tuple(ints(shape)), ints(dimensions)
        if x.shape == shape and dimensions == list(range(x.rank)):
            return x
        attributes = {"shape": list(shape), "broadcast_dimensions": dimensions}
        y = self.one("broadcast_in_dim", [x], x.dtype, shape, **attributes)
        if x.known is not None and y.size <= MAX_KNOWN:
            inner = [x.shape[dimensions.index(k)] if k in dimensions else 1 for k in range(len(shape))]
            y.known = np.broadcast_to(x.known.reshape(inner), shape)
        return y

    def reshape(self, x, shape):
        shape = ints(shape)
        if x.shape == tuple(shape):
            return x
        y = self.one("reshape", [x], x.dtype, shape, new_sizes=shape)
        y.known = None if x.known is None else x.known.reshape(shape)
        return y

    def transpose(self, x, permutation):
        permutation = ints(permutation)
        if permutation == list(range(x.rank)):
            return x
        return self.one("transpose", [x], x.dtype, [x.shape[i] for i in permutation], permutation=permutation)

    def slice(self, x, start, limit, strides=None):
        start, limit, strides = ints(start), ints(limit), ints(strides or [1] * x.rank)
        shape = [max(0, -(-(b - a) // s)) for a, b, s in zip(start, limit, strides)]
        if tuple(shape) == x.shape and all(s == 1 for s in strides):
            return x
        attributes = {"start_indices": start, "limit_indices": limit, "strides": strides}
        y = self.one("slice", [x], x.dtype, shape, **attributes)
        if x.known is not None:
            y.known = x.known[tuple(slice(a, b, s) for a, b, s in zip(start, limit, strides))]
        return y

    def part(self, x, axis, start, limit):
        low, high = [0] * x.rank, list(x.shape)
        low[axis], high[axis] = start, limit
        return self.slice(x, low, high)

    def at(self, x, axis, i):
        """Position i of an axis, without the axis."""
        return self.reshape(self.part(x, axis, i, i + 1), [n for k, n in enumerate(x.shape) if k != axis])

    def concatenate(self, xs, axis):
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self.one("concatenate", xs, xs[0].dtype, shape, dimension=int(axis))

    def stack(self, xs, axis):
        return self.concatenate([self.reshape(x, x.shape[:axis] + (1,) + x.shape[axis:]) for x in xs], axis)

    def pad(self, x, value, config):
        """config: (low, high, interior) of each axis."""
        config = ints(config)
        if all(c == [0, 0, 0] for c in config):
            return x
        shape = [low + high + n + max(n - 1, 0) * inner for n, (low, high, inner) in zip(x.shape, config)]
        return self.one("pad", [x, value], x.dtype, shape, padding_config=config)

    def iota(self, dtype, shape, dimension):
        shape, dimension = tuple(ints(shape)), int(dimension)
        y = self.one("iota", [], dtype, shape, dtype=dtype, shape=list(shape), dimension=dimension)
        if math.prod(shape) <= MAX_KNOWN:
            column = np.arange(shape[dimension]).reshape([-1 if k == dimension else 1 for k in range(len(shape))])
            y.known = np.broadcast_to(column, shape).astype(NUMPY[dtype])
        return y

    # reductions, indexing, matmul

    def reduce(self, op, x, axes):
        axes = sorted(ints(axes))
        if not axes:
            return x
        return self.one(op, [x], x.dtype, [n for k, n in enumerate(x.shape) if k not in axes], axes=axes)

    def take(self, x, indices, axis=0, mode="clip"):
        shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
        return self.one("take", [x, indices], x.dtype, shape, axis=axis, mode=mode)

    def scatter_add(self, x, indices, updates, mode="drop"):
        """Adds updates to rows of x; an index out of range does nothing."""
        return self.one("scatter_add", [x, indices, updates], x.dtype, x.shape, axis=0, mode=mode)

    def matmul(self, a, b, a_axis, b_axis):
        """Contracts one axis of each; the result has the free axes of a, then those of b."""
        shape = [n for k, n in enumerate(a.shape) if k != a_axis] + [n for k, n in enumerate(b.shape) if k != b_axis]
        return self.one("dot_general", [a, b], a.dtype, shape, dimension_numbers=[[[a_axis], [b_axis]], [[], []]])

    def dump(self):
        """The JSON object, without operations that no output needs."""
        needed, kept = {v.id for v in self.outputs}, []
        for operation in reversed(self.operations):
            if any(i in needed for i in operation["outputs"]):
                needed.update(operation["inputs"])
                kept.append(operation)
        kept.reverse()
        order = [v.id for v in self.inputs] + [i for o in kept for i in o["outputs"]]
        new = {old: k for k, old in enumerate(order)}
        values = []
        for old in order:
            value = {"id": new[old], "dtype": self.values[old].dtype, "shape": list(self.values[old].shape)}
            if old in self.names:
                value["name"] = self.names[old]
            values.append(value)
        renumber = lambda ids: [new[i] for i in ids]
        operations = [{**o, "inputs": renumber(o["inputs"]), "outputs": renumber(o["outputs"])} for o in kept]
        return {
            "format": "tidu.graph",
            "version": 1,
            "name": self.name,
            "values": values,
            "inputs": renumber([v.id for v in self.inputs]),
            "operations": operations,
            "outputs": renumber([v.id for v in self.outputs]),
        }


def graphs_in(dump):
    """The graphs that the operations of a dump have as attributes."""
    for operation in dump["operations"]:
        for attribute in operation.get("attrs", {}).values():
            for value in attribute if isinstance(attribute, list) else [attribute]:
                if isinstance(value, dict) and value.get("format") == "tidu.graph":
                    yield value


def number_of_operations(dump):
    """The operations of a dump and of the graphs in it."""
    count, stack = 0, [dump]
    while stack:
        graph = stack.pop()
        count += len(graph["operations"])
        stack.extend(graphs_in(graph))
    return count


def _is_splat(x):
    """Whether one number fills x, in every bit."""
    flat = x.reshape(-1)
    return flat.tobytes() == flat[:1].tobytes() * flat.size
