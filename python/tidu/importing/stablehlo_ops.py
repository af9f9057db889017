"""Operations of StableHLO and CHLO that are one function of jax.lax, or a few; and those with dimension numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import lax as jax_lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from .dtypes import Unsupported
from .stablehlo import attribute, enumerant, op, type_of

ELEMENTWISE = {
    "abs": lax.abs,
    "add": lax.add,
    "and": lax.bitwise_and,
    "atan2": lax.atan2,
    "cbrt": lax.cbrt,
    "ceil": lax.ceil,
    "complex": lax.complex,
    "cosine": lax.cos,
    "count_leading_zeros": lax.clz,
    "divide": lax.div,
    "exponential": lax.exp,
    "exponential_minus_one": lax.expm1,
    "floor": lax.floor,
    "imag": lax.imag,
    "is_finite": lax.is_finite,
    "log": lax.log,
    "log_plus_one": lax.log1p,
    "logistic": lax.logistic,
    "maximum": lax.max,
    "minimum": lax.min,
    "multiply": lax.mul,
    "negate": lax.neg,
    "not": lax.bitwise_not,
    "or": lax.bitwise_or,
    "popcnt": lax.population_count,
    "power": lax.pow,
    "real": lax.real,
    "remainder": lax.rem,
    "round_nearest_afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round_nearest_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "rsqrt": lax.rsqrt,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "sign": lax.sign,
    "sine": lax.sin,
    "sqrt": lax.sqrt,
    "subtract": lax.sub,
    "tan": lax.tan,
    "tanh": lax.tanh,
    "xor": lax.bitwise_xor,
    "clamp": lax.clamp,
    "select": lambda which, x, y: lax.select(jnp.broadcast_to(which, x.shape), x, y),
}
CHLO = {
    "acos": lax.acos,
    "acosh": lax.acosh,
    "asin": lax.asin,
    "asinh": lax.asinh,
    "atan": lax.atan,
    "atanh": lax.atanh,
    "bessel_i1e": lax.bessel_i1e,
    "conj": lambda x: lax.conj(x) if np.issubdtype(x.dtype, np.complexfloating) else x,
    "cosh": lax.cosh,
    "digamma": lax.digamma,
    "erf": lax.erf,
    "erf_inv": lax.erf_inv,
    "erfc": lax.erfc,
    "is_inf": jnp.isinf,
    "is_neg_inf": jnp.isneginf,
    "is_pos_inf": jnp.isposinf,
    "lgamma": lax.lgamma,
    "next_after": lax.nextafter,
    "polygamma": lax.polygamma,
    "sinh": lax.sinh,
    "square": lax.square,
    "tan": lax.tan,
    "zeta": lax.zeta,
}
BROADCASTING = {
    "add",
    "and",
    "atan2",
    "complex",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
}
BROADCASTING |= {"select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor"}


def is_folded(xs):
    return all(isinstance(x, np.ndarray) for x in xs)


def constant_fold(f):
    """Small integers that depend on no argument stay constants: bounds of loops, indices."""

    def evaluate(m, o, xs):
        if is_folded(xs) and all(x.size <= 16 and x.dtype.kind in "iub" for x in xs):
            with jax.ensure_compile_time_eval():
                y = f(*(jnp.asarray(x) for x in xs))
            return np.asarray(y)
        return f(*xs)

    return evaluate


def logical(name, f):
    """Of booleans a sum is `or`, and a product `and`."""
    of_booleans = {"add": lax.bitwise_or, "multiply": lax.bitwise_and, "subtract": lax.bitwise_xor}.get(name)
    return (lambda *xs: (of_booleans if xs[0].dtype == np.bool_ else f)(*xs)) if of_booleans else f


ELEMENTWISE = {name: logical(name, f) for name, f in ELEMENTWISE.items()}
for _name, _f in ELEMENTWISE.items():
    op("stablehlo." + _name)(constant_fold(_f))
    if _name in BROADCASTING:
        op("chlo.broadcast_" + _name)(lambda m, o, xs, f=_f: f(*broadcast(o, xs)))
for _name, _f in CHLO.items():
    op("chlo." + _name)(lambda m, o, xs, f=_f: f(*xs))


def broadcast(o, xs):
    shape, _ = type_of(o.results[0].type)
    return [jnp.broadcast_to(x, shape) for x in xs]


@op("stablehlo.constant", "chlo.constant")
def constant(m, o, xs):
    shape, dtype = type_of(o.results[0].type)
    if dtype == jnp.bfloat16 or np.issubdtype(dtype, np.complexfloating):
        return elements(str(o), shape, dtype)
    value = o.attributes["value"]
    if str(value).startswith("dense_resource"):
        flat = np.frombuffer(memoryview(ir.DenseResourceElementsAttr(value)), dtype)
        return flat.reshape(shape)
    return np.array(value).astype(dtype).reshape(shape)


def elements(text, shape, dtype):
    """Of types that the bindings do not read, by the text of the operation."""
    inner = text[text.index("dense<") + len("dense<") : text.rindex("> : ")]
    if inner.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(inner[3:-1]), dtype).reshape(shape)
    tokens = inner.replace("[", " ").replace("]", " ").replace("(", " ").replace(")", " ").replace(",", " ").split()
    part = np.float32 if dtype != np.complex128 else np.float64
    numbers = [number(t, dtype, part) for t in tokens]
    if np.issubdtype(dtype, np.complexfloating):
        numbers = [complex(a, b) for a, b in zip(numbers[::2], numbers[1::2])]
    flat = np.array(numbers).astype(dtype)
    return np.full(shape, flat[0], dtype) if flat.size == 1 else flat.reshape(shape)


def number(token, dtype, part):
    if not token.startswith("0x"):
        return float(token)
    size = 2 if dtype == jnp.bfloat16 else np.dtype(part).itemsize
    raw = int(token, 16).to_bytes(size, "little")
    return float(np.frombuffer(raw, dtype if size == 2 else part)[0])


@op("chlo.broadcast_compare")
def broadcast_compare(m, o, xs):
    return compare(m, o, broadcast(o, xs))


@op("stablehlo.compare")
def compare(m, o, xs):
    name = enumerant(o, "comparison_direction").lower()
    f = TOTAL[name] if enumerant(o, "compare_type") == "TOTALORDER" else getattr(lax, name)
    return constant_fold(f)(m, o, xs)


TOTAL = {
    "eq": lambda x, y: jax_lax.eq_to_p.bind(x, y),
    "ne": lambda x, y: lax.bitwise_not(jax_lax.eq_to_p.bind(x, y)),
    "lt": lambda x, y: jax_lax.lt_to_p.bind(x, y),
    "le": lambda x, y: jax_lax.le_to_p.bind(x, y),
    "gt": lambda x, y: jax_lax.lt_to_p.bind(y, x),
    "ge": lambda x, y: jax_lax.le_to_p.bind(y, x),
}


@op("stablehlo.convert")
def convert(m, o, xs):
    _, dtype = type_of(o.results[0].type)
    return constant_fold(lambda x: lax.convert_element_type(x, dtype))(m, o, xs)


@op("stablehlo.bitcast_convert")
def bitcast_convert(m, o, xs):
    return lax.bitcast_convert_type(xs[0], type_of(o.results[0].type)[1])


@op("stablehlo.reduce_precision")
def reduce_precision(m, o, xs):
    return lax.reduce_precision(xs[0], attribute(o, "exponent_bits"), attribute(o, "mantissa_bits"))


@op("stablehlo.reshape", "chlo.dynamic_reshape")
def reshape(m, o, xs):
    shape, _ = type_of(o.results[0].type)
    return xs[0].reshape(shape) if is_folded(xs) else lax.reshape(xs[0], shape)


@op("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def broadcast_in_dim(m, o, xs):
    return lax.broadcast_in_dim(xs[0], type_of(o.results[0].type)[0], attribute(o, "broadcast_dimensions"))


@op("stablehlo.broadcast")
def broadcast_lead(m, o, xs):
    return lax.broadcast(xs[0], attribute(o, "broadcast_sizes"))


@op("stablehlo.iota", "stablehlo.dynamic_iota")
def iota(m, o, xs):
    shape, dtype = type_of(o.results[0].type)
    return lax.broadcasted_iota(dtype, shape, attribute(o, "iota_dimension"))


@op("stablehlo.transpose")
def transpose(m, o, xs):
    return lax.transpose(xs[0], attribute(o, "permutation"))


@op("stablehlo.reverse")
def reverse(m, o, xs):
    return lax.rev(xs[0], attribute(o, "dimensions"))


@op("stablehlo.concatenate")
def concatenate(m, o, xs):
    return lax.concatenate(xs, attribute(o, "dimension"))


@op("stablehlo.slice")
def slice_(m, o, xs):
    return lax.slice(xs[0], *(attribute(o, k) for k in ("start_indices", "limit_indices", "strides")))


@op("stablehlo.dynamic_slice")
def dynamic_slice(m, o, xs):
    return lax.dynamic_slice(xs[0], xs[1:], attribute(o, "slice_sizes"))


@op("stablehlo.dynamic_update_slice")
def dynamic_update_slice(m, o, xs):
    return lax.dynamic_update_slice(xs[0], xs[1], xs[2:])


@op("stablehlo.pad")
def pad(m, o, xs):
    config = zip(
        *(attribute(o, "edge_padding_low"), attribute(o, "edge_padding_high"), attribute(o, "interior_padding"))
    )
    return lax.pad(xs[0], xs[1], list(config))


@op("stablehlo.dot_general")
def dot_general(m, o, xs):
    d = dialect.DotDimensionNumbers(o.attributes["dot_dimension_numbers"])
    contracting = list(d.lhs_contracting_dimensions), list(d.rhs_contracting_dimensions)
    batch = list(d.lhs_batching_dimensions), list(d.rhs_batching_dimensions)
    _, dtype = type_of(o.results[0].type)
    return lax.dot_general(*xs, (contracting, batch), preferred_element_type=dtype)


@op("stablehlo.dot")
def dot(m, o, xs):
    return lax.dot(*xs, preferred_element_type=type_of(o.results[0].type)[1])


@op("stablehlo.einsum")
def einsum(m, o, xs):
    return jnp.einsum(attribute(o, "einsum_config"), *xs)


def pairs(array, count):
    return [(0, 0)] * count if array is None else [tuple(int(v) for v in row) for row in np.reshape(array, (-1, 2))]


@op("stablehlo.convolution")
def convolution(m, o, xs):
    d = dialect.ConvDimensionNumbers(o.attributes["dimension_numbers"])
    numbers = lax.ConvDimensionNumbers(
        (d.input_batch_dimension, d.input_feature_dimension, *d.input_spatial_dimensions),
        (d.kernel_output_feature_dimension, d.kernel_input_feature_dimension, *d.kernel_spatial_dimensions),
        (d.output_batch_dimension, d.output_feature_dimension, *d.output_spatial_dimensions),
    )
    x, w = xs
    n = x.ndim - 2
    reversed_axes = attribute(o, "window_reversal") or []
    axes = [numbers.rhs_spec[2 + k] for k, r in enumerate(reversed_axes) if r]
    return lax.conv_general_dilated(
        x,
        lax.rev(w, axes) if axes else w,
        attribute(o, "window_strides") or [1] * n,
        pairs(attribute(o, "padding"), n),
        lhs_dilation=attribute(o, "lhs_dilation") or [1] * n,
        rhs_dilation=attribute(o, "rhs_dilation") or [1] * n,
        dimension_numbers=numbers,
        feature_group_count=attribute(o, "feature_group_count", 1),
        batch_group_count=attribute(o, "batch_group_count", 1),
        preferred_element_type=type_of(o.results[0].type)[1],
    )


def index_vectors_last(indices, axis):
    return lax.expand_dims(indices, [axis]) if axis == indices.ndim else jnp.moveaxis(indices, axis, -1)


@op("stablehlo.gather", "stablehlo.dynamic_gather")
def gather(m, o, xs):
    d = dialect.GatherDimensionNumbers(o.attributes["dimension_numbers"])
    numbers = lax.GatherDimensionNumbers(
        tuple(d.offset_dims),
        tuple(d.collapsed_slice_dims),
        tuple(d.start_index_map),
        tuple(d.operand_batching_dims),
        tuple(d.start_indices_batching_dims),
    )
    indices = index_vectors_last(xs[1], d.index_vector_dim)
    sizes = attribute(o, "slice_sizes") or [int(n) for n in xs[2]]
    return lax.gather(xs[0], indices, numbers, sizes, mode=lax.GatherScatterMode.CLIP)


@op("stablehlo.torch_index_select")
def torch_index_select(m, o, xs):
    if attribute(o, "batch_dims"):
        raise Unsupported("stablehlo.torch_index_select", "with batch_dims")
    return jnp.take(xs[0], xs[1], axis=attribute(o, "dim"), mode="clip")


@op("stablehlo.fft")
def fft(m, o, xs):
    kind = getattr(jax.lax.FftType, enumerant(o, "fft_type"))
    return lax.fft(xs[0], kind, tuple(attribute(o, "fft_length")))


@op("stablehlo.cholesky")
def cholesky(m, o, xs):
    x = xs[0] if attribute(o, "lower", False) else jnp.swapaxes(xs[0], -1, -2).conj()
    x = jnp.tril(x) + jnp.swapaxes(jnp.tril(x, -1), -1, -2).conj()
    y = lax.linalg.cholesky(x, symmetrize_input=False)
    return y if attribute(o, "lower", False) else jnp.swapaxes(y, -1, -2).conj()


@op("stablehlo.triangular_solve")
def triangular_solve(m, o, xs):
    transpose = enumerant(o, "transpose_a", "NO_TRANSPOSE")
    options = {k: attribute(o, k) for k in ("left_side", "lower", "unit_diagonal")}
    return lax.linalg.triangular_solve(
        *xs, **options, transpose_a=transpose != "NO_TRANSPOSE", conjugate_a=transpose == "ADJOINT"
    )


@op("stablehlo.batch_norm_inference")
def batch_norm_inference(m, o, xs):
    x, scale, offset, mean, variance = xs
    axis, epsilon = attribute(o, "feature_index"), attribute(o, "epsilon")
    scale, offset, mean, variance = (lax.broadcast_in_dim(v, x.shape, [axis]) for v in (scale, offset, mean, variance))
    return (x - mean) * lax.rsqrt(variance + np.asarray(epsilon, x.dtype)) * scale + offset


@op("stablehlo.batch_norm_training")
def batch_norm_training(m, o, xs):
    x, scale, offset = xs
    axes = [k for k in range(x.ndim) if k != attribute(o, "feature_index")]
    mean, variance = jnp.mean(x, axes), jnp.var(x, axes)
    return [batch_norm_inference(m, o, [x, scale, offset, mean, variance]), mean, variance]


@op("chlo.top_k")
def top_k(m, o, xs):
    return lax.top_k(xs[0], attribute(o, "k"))


@op("stablehlo.optimization_barrier")
def optimization_barrier(m, o, xs):
    return lax.optimization_barrier(list(xs))


@op("stablehlo.get_dimension_size")
def get_dimension_size(m, o, xs):
    return np.array(xs[0].shape[attribute(o, "dimension")], np.int32)


@op("stablehlo.tuple")
def tuple_(m, o, xs):
    return [tuple(xs)]


@op("stablehlo.get_tuple_element")
def get_tuple_element(m, o, xs):
    return xs[0][attribute(o, "index")]


@op("stablehlo.create_token", "stablehlo.after_all")
def token(m, o, xs):
    return [None]


@op("sdy.sharding_constraint", "sdy.propagation_barrier")
def sharding_constraint(m, o, xs):
    return xs[0]
