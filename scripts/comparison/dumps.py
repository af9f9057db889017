"""Dumps of graphs and tensors as Python has them: tensors to and from JSON, a builder that knows the type of every result, and
the part of a graph that its outputs need. Types are pairs (dtype, shape); bf16 is carried as float32 that holds such numbers."""
import copy
import math

import numpy as np

CARRIER = {"bool": np.bool_, "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": np.float32, "f32": np.float32,
           "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
FLOATS = ("f16", "bf16", "f32", "f64")
COMPLEX = ("c64", "c128")
INTEGERS = ("i32", "i64")
PART = {"c64": "f32", "c128": "f64"}  # the real and the imaginary part
WHOLE = {"f32": "c64", "f64": "c128"}
GRAPH_ATTRIBUTES = ("graph", "body", "cond", "branches", "jvp", "forward", "backward", "transpose", "matvec", "residual", "solve",
                    "transpose_solve", "tangent_solve", "transpose_tangent_solve")


def inexact(dtype):
    return dtype in FLOATS or dtype in COMPLEX


def as_carried(array, dtype):
    """The numbers rounded to dtype, in its carrier."""
    result = np.asarray(array, CARRIER[dtype])
    if dtype != "bf16":
        return result
    bits = np.atleast_1d(result).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    kept = np.where(np.isnan(np.atleast_1d(result)), bits, rounded).astype(np.uint32)
    return kept.view(np.float32).reshape(result.shape)


def number_to_json(x):
    if isinstance(x, complex):
        return [number_to_json(x.real), number_to_json(x.imag)]
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if x != x else "inf" if x > 0 else "-inf"
    return x


def to_json(dtype, array):
    array = np.asarray(array, CARRIER[dtype])
    data = array.ravel().tolist()
    if inexact(dtype):
        data = [number_to_json(x) for x in data]
    return {"dtype": dtype, "shape": list(array.shape), "data": data}


def number_from_json(x):
    return complex(float(x[0]), float(x[1])) if isinstance(x, list) else float(x) if isinstance(x, str) else x


def from_json(tensor):
    data = [number_from_json(x) for x in tensor["data"]] if inexact(tensor["dtype"]) else tensor["data"]
    return np.array(data, CARRIER[tensor["dtype"]]).reshape(tensor["shape"])


# Types of results -----------------------------------------------------------------------------------------------------------------

def reduced(shape, axes):
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def dot_type(attrs, a, b):
    (lc, rc), (lb, rb) = attrs["dimension_numbers"]
    return a[0], tuple(a[1][i] for i in lb) + reduced(a[1], [*lc, *lb]) + reduced(b[1], [*rc, *rb])


def windows(n, window, stride, low, high):
    return max(0, (n + low + high - window) // stride + 1)


def convolution_type(attrs, x, w):
    spec = attrs["dimension_numbers"]
    lhs, rhs, out = spec["lhs_spec"], spec["rhs_spec"], spec["out_spec"]
    shape = [0] * len(lhs)
    shape[out[0]], shape[out[1]] = x[1][lhs[0]], w[1][rhs[0]]
    for i in range(len(lhs) - 2):
        n, k = x[1][lhs[i + 2]], w[1][rhs[i + 2]]
        n = (n - 1) * attrs["lhs_dilation"][i] + 1 if n else 0
        k = (k - 1) * attrs["rhs_dilation"][i] + 1
        shape[out[i + 2]] = windows(n, k, attrs["window_strides"][i], *attrs["padding"][i])
    return x[0], tuple(shape)


def window_type(attrs, x):
    sizes = zip(x[1], attrs["window_dimensions"], attrs["window_strides"], attrs["padding"])
    return x[0], tuple(windows(n, w, s, *p) for n, w, s, p in sizes)


def factor_types(name, x):
    dtype, (*batch, m, n) = x
    batch, k = tuple(batch), min(m, n)
    real = PART.get(dtype, dtype)
    return {"lu": [(dtype, (*batch, m, n)), ("i32", (*batch, k)), ("i32", (*batch, m))],
            "qr": [(dtype, (*batch, m, k)), (dtype, (*batch, k, n))],
            "eigh": [(dtype, (*batch, m, m)), (real, (*batch, m))],
            "svd": [(dtype, (*batch, m, k)), (real, (*batch, k)), (dtype, (*batch, k, n))]}[name]


def padded(attrs, x):
    return x[0], tuple(n + max(n - 1, 0) * i + lo + hi for n, (lo, hi, i) in zip(x[1], attrs["padding_config"]))


def taken(attrs, x, indices):
    return x[0], x[1][:attrs["axis"]] + indices[1] + x[1][attrs["axis"] + 1:]


def expanded(attrs, x):
    shape, sizes = [], iter(x[1])
    for axis in range(len(x[1]) + len(attrs["dimensions"])):
        shape.append(1 if axis in attrs["dimensions"] else next(sizes))
    return x[0], tuple(shape)


def concatenated(attrs, *xs):
    d = attrs["dimension"]
    shape = list(xs[0][1])
    shape[d] = sum(x[1][d] for x in xs)
    return xs[0][0], tuple(shape)


def sliced(attrs, x):
    return x[0], tuple(max(0, -(-(b - a) // s)) for a, b, s in
                       zip(attrs["start_indices"], attrs["limit_indices"], attrs["strides"]))


def outputs_of(graph):
    return [(graph["values"][i]["dtype"], tuple(graph["values"][i]["shape"])) for i in graph["outputs"]]


# Those whose result has not the type of the first operand, by name: attributes and types of operands to the type of the result.
RESULT = {
    **{name: lambda a: (a["dtype"], tuple(a["shape"])) for name in ("iota", "full")},
    "constant": lambda a: (a["value"]["dtype"], tuple(a["value"]["shape"])),
    **{name: lambda a, x, *_: ("bool", x[1]) for name in ("eq", "ne", "lt", "le", "gt", "ge", "is_finite")},
    **{name: lambda a, x: (PART.get(x[0], x[0]), x[1]) for name in ("real", "imag", "abs")},
    "complex": lambda a, x, y: (WHOLE[x[0]], x[1]),
    "select_n": lambda a, which, x, *_: x,
    "clamp": lambda a, lo, x, hi: x,
    "reshape": lambda a, x: (x[0], tuple(a["new_sizes"])),
    "transpose": lambda a, x: (x[0], tuple(x[1][i] for i in a["permutation"])),
    "broadcast_in_dim": lambda a, x: (x[0], tuple(a["shape"])),
    "squeeze": lambda a, x: (x[0], reduced(x[1], a["dimensions"])),
    "expand_dims": expanded,
    "slice": sliced,
    "pad": lambda a, x, value: padded(a, x),
    "concatenate": concatenated,
    "convert_element_type": lambda a, x: (a["new_dtype"], x[1]),
    "dynamic_slice": lambda a, x, *_: (x[0], tuple(a["slice_sizes"])),
    "take": taken,
    "take_along_axis": lambda a, x, indices: (x[0], indices[1]),
    **{name: lambda a, x: (x[0], reduced(x[1], a["axes"])) for name in
       ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "logsumexp")},
    **{name: lambda a, x: (a["index_dtype"], reduced(x[1], [a["axis"]])) for name in ("argmax", "argmin")},
    "dot_general": dot_type,
    "conv_general_dilated": convolution_type,
    "reduce_window_sum": window_type,
    "reduce_window_max": window_type,
    "triangular_solve": lambda a, m, x: x,
    "random_bits": lambda a, key: (a["dtype"], key[1][:-1] + tuple(a["shape"])),
}


def result_types(name, attrs, operands):
    """The types of an operation's results."""
    if name in ("lu", "qr", "eigh", "svd"):
        return factor_types(name, operands[0])
    if name in ("sort", "optimization_barrier"):
        return list(operands)
    if name == "top_k":
        shape = (*operands[0][1][:-1], attrs["k"])
        return [(operands[0][0], shape), ("i32", shape)]
    if "graph" in attrs:
        return outputs_of(attrs["graph"])
    if name in ("custom_linear_solve", "custom_root"):
        return outputs_of(attrs["solve"])
    if name == "scan":
        outputs, carries = outputs_of(attrs["body"]), attrs["num_carry"]
        return outputs[:carries] + [(dtype, (attrs["length"], *shape)) for dtype, shape in outputs[carries:]]
    if name == "cond":
        return outputs_of(attrs["branches"][0])
    if name == "while":
        return outputs_of(attrs["body"])
    return [RESULT[name](attrs, *operands) if name in RESULT else operands[0]]


# Graphs ---------------------------------------------------------------------------------------------------------------------------

class Builder:
    """Adds operations to a graph; values are their ids."""

    def __init__(self, name):
        self.name, self.values, self.inputs, self.operations = name, [], [], []

    def type(self, value):
        return self.values[value]["dtype"], tuple(self.values[value]["shape"])

    def shape(self, value):
        return tuple(self.values[value]["shape"])

    def dtype(self, value):
        return self.values[value]["dtype"]

    def _value(self, type_, **more):
        self.values.append({"id": len(self.values), "dtype": type_[0], "shape": list(type_[1]), **more})
        return len(self.values) - 1

    def input(self, dtype, shape):
        self.inputs.append(self._value((dtype, shape), name=f"x{len(self.inputs)}"))
        return self.inputs[-1]

    def all(self, name, operands, **attrs):
        """The results of an operation."""
        types = result_types(name, attrs, [self.type(v) for v in operands])
        results = [self._value(t) for t in types]
        self.operations.append({"op": name, "inputs": list(operands), "outputs": results})
        if attrs:
            self.operations[-1]["attrs"] = attrs
        return results

    def __call__(self, name, *operands, **attrs):
        """The only result of an operation."""
        return self.all(name, operands, **attrs)[0]

    def full(self, dtype, shape, value):
        value = [value, 0.0] if dtype in COMPLEX else value
        return self("full", value=value, dtype=dtype, shape=list(shape))

    def constant(self, dtype, array):
        return self("constant", value=to_json(dtype, array))

    def graph(self, outputs):
        return live({"format": "tidu.graph", "version": 1, "name": self.name, "values": self.values, "inputs": self.inputs,
                     "operations": self.operations, "outputs": list(outputs)})


def live(graph):
    """The graph without dead operations; inputs stay."""
    needed, operations = set(graph["outputs"]), []
    for operation in reversed(graph["operations"]):
        if needed.intersection(operation["outputs"]):
            operations.append(operation)
            needed.update(operation["inputs"])
    operations.reverse()
    kept = needed.union(graph["inputs"], *(o["outputs"] for o in operations))
    new = {old: i for i, old in enumerate(sorted(kept))}
    renumber = lambda ids: [new[i] for i in ids]
    return {**graph, "values": [{**v, "id": new[v["id"]]} for v in graph["values"] if v["id"] in new],
            "inputs": renumber(graph["inputs"]), "outputs": renumber(graph["outputs"]),
            "operations": [{**{k: v for k, v in o.items() if k not in ("origin", "where")}, "inputs": renumber(o["inputs"]),
                            "outputs": renumber(o["outputs"])} for o in operations]}


def input_names(graph):
    return [graph["values"][i]["name"] for i in graph["inputs"]]


def inner_graphs(graph):
    """The graphs that a graph's operations hold, of any depth."""
    pending, found = [graph], []
    while pending:
        for operation in pending.pop()["operations"]:
            values = [operation.get("attrs", {}).get(name) for name in GRAPH_ATTRIBUTES]
            held = [graph for value in values for graph in (value if isinstance(value, list) else [value])
                    if isinstance(graph, dict)]
            found += held
            pending += held
    return found


def primitives_in(graph):
    return {o["op"] for g in (graph, *inner_graphs(graph)) for o in g["operations"]}


def widened(graph):
    """The same graph in 64 bits."""
    wide = {"f32": "f64", "c64": "c128"}
    graph = copy.deepcopy(graph)
    for part in (graph, *inner_graphs(graph)):
        for value in part["values"]:
            value["dtype"] = wide.get(value["dtype"], value["dtype"])
        for operation in part["operations"]:
            attrs = operation.get("attrs", {})
            for name in ("dtype", "new_dtype"):
                if name in attrs:
                    attrs[name] = wide.get(attrs[name], attrs[name])
            if operation["op"] == "constant":
                attrs["value"]["dtype"] = wide.get(attrs["value"]["dtype"], attrs["value"]["dtype"])
    return graph
