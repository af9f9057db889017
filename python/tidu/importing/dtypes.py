"""Types: which dtype of tidu stands for which of JAX, and tensors as dumps have them.

bool, i32, i64, f16, bf16, f32, f64, c64 and c128 are the same in both. Integers that tidu does not have are kept in
wider ones (8 and 16 bits in i32, u32 in i64), and reduced to their range after each operation; u64 is kept in i64, bit
by bit. A PRNG key is an i32[..., 2].
"""

import math

import jax
import ml_dtypes
import numpy as np

SAME = {
    "bool": "bool",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
# dtype of JAX -> (dtype of tidu, bits, is signed)
EMULATED = {
    "int8": ("i32", 8, True),
    "uint8": ("i32", 8, False),
    "int16": ("i32", 16, True),
    "uint16": ("i32", 16, False),
    "uint32": ("i64", 32, False),
    "uint64": ("i64", 64, False),
}
NUMPY = {
    "bool": np.bool_,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}
REAL = ("f16", "bf16", "f32", "f64")
COMPLEX = ("c64", "c128")
INEXACT = REAL + COMPLEX
PART_OF = {"c64": "f32", "c128": "f64"}
COMPLEX_OF = {"f16": "c64", "bf16": "c64", "f32": "c64", "f64": "c128"}


class Unsupported(Exception):
    """An equation that tidu's primitives cannot express; the translator collects these."""

    def __init__(self, primitive, detail=""):
        self.primitive, self.detail = primitive, detail
        super().__init__(f"{primitive}: {detail}" if detail else primitive)


def is_key(dtype):
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def check_generator(dtype, primitive):
    """Refuses the keys of other generators than Threefry-2x32, whose bits are others."""
    if is_key(dtype) and dtype._impl.name != "threefry2x32":
        raise Unsupported(primitive, f"of the generator {dtype._impl.name}")


def is_float0(dtype):
    return dtype == jax.dtypes.float0


def dtype_of(dtype):
    """The name of tidu's dtype for one of JAX."""
    if is_key(dtype):
        return "i32"
    if is_float0(dtype):  # the type of absent tangents
        return "bool"
    name = np.dtype(dtype).name
    if name in SAME:
        return SAME[name]
    if name in EMULATED:
        return EMULATED[name][0]
    raise Unsupported("dtype " + name)


def shape_of(aval):
    try:
        shape = tuple(int(n) for n in aval.shape)
    except Exception:
        raise Unsupported("shape that is not static") from None
    return shape + ((2,) if is_key(aval.dtype) else ())


def type_of(aval):
    return dtype_of(aval.dtype), shape_of(aval)


def is_inexact(aval):
    """Whether values of this type have derivatives."""
    return not is_key(aval.dtype) and not is_float0(aval.dtype) and dtype_of(aval.dtype) in INEXACT


def width(dtype):
    """(bits, is signed) of a JAX dtype of integers."""
    dtype = np.dtype(dtype)
    return dtype.itemsize * 8, dtype.kind == "i"


def is_u64(aval):
    return not is_key(aval.dtype) and np.dtype(aval.dtype) == np.uint64


def to_numpy(x):
    """The NumPy array that stands for an array of JAX or NumPy, in a dtype of tidu."""
    if hasattr(x, "dtype") and is_key(x.dtype):
        check_generator(x.dtype, "random key")
        x = np.asarray(jax.random.key_data(x)).view(np.int32)
    x = np.asarray(x)
    if is_float0(x.dtype):
        x = np.zeros(x.shape, np.bool_)
    if x.dtype.name in EMULATED:
        wide, bits, _ = EMULATED[x.dtype.name]
        x = x.view(np.int64) if bits == 64 else x.astype(NUMPY[wide])
    if x.dtype.name not in SAME:
        raise Unsupported("dtype " + x.dtype.name)
    return x


def number_to_json(value):
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (complex, np.complexfloating)):
        return [number_to_json(value.real), number_to_json(value.imag)]
    value = float(value)
    if value != value:
        return "nan"
    return value if abs(value) != math.inf else "inf" if value > 0 else "-inf"


def tensor_to_json(x):
    x = to_numpy(x)
    flat = x.reshape(-1)
    is_plain = x.dtype.kind in "biu" or (x.dtype.kind == "f" and np.isfinite(x).all())
    data = flat.tolist() if is_plain else [number_to_json(v) for v in flat]
    return {"dtype": SAME[x.dtype.name], "shape": list(x.shape), "data": data}


def to_json(value):
    """An attribute as JSON has it: tuples are lists, numbers of NumPy are Python's."""
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def ints(values):
    return [ints(v) if isinstance(v, (tuple, list)) else int(v) for v in values]
