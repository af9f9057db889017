"""Methods of Array that are functions of the same name, and functions that take their arguments in several forms."""

from . import _core

Array = _core.Array


def reshape(self, *shape):
    """The same elements in another shape, of which one extent may be -1."""
    return _core.reshape(self, shape[0] if len(shape) == 1 else shape)


def transpose(self, *axes):
    """Axes permuted, or in reverse order."""
    return _core.transpose(self, None if not axes else axes[0] if len(axes) == 1 else axes)


def _method(name):
    function = getattr(_core, name)

    def method(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = function.__doc__
    return method


for _name in (
    "sum prod max min all any mean var std argmax argmin cumsum cumprod sort argsort ravel flatten squeeze swapaxes "
    "repeat clip dot conj round diagonal take"
).split():
    setattr(Array, _name, _method(_name))
Array.reshape = reshape
Array.transpose = transpose


def _dtype_named(name):
    return _core.dtype(name)


def _array_of_bytes(data, dtype, shape):
    return _core._from_bytes(data, dtype, shape)


def _reduce_array(self):
    x = self.detach()
    data = bytes(memoryview(x.astype(_core.float32) if x.dtype == _core.bfloat16 else x))
    if x.dtype == _core.bfloat16:
        return _narrowed, (data, x.shape)
    return _array_of_bytes, (data, x.dtype, x.shape)


def _narrowed(data, shape):
    return _core._from_bytes(data, _core.float32, shape).astype(_core.bfloat16)


def _graph_of_json(text):
    return _core.Graph.from_json(text)


Array.__reduce__ = _reduce_array
_core.DType.__reduce__ = lambda self: (_dtype_named, (self.name,))
_core.Graph.__reduce__ = lambda self: (_graph_of_json, (self.to_json(),))
Array.real = property(lambda self: _core.real(self))
Array.imag = property(lambda self: _core.imag(self))


def meshgrid(*axes, indexing="xy"):
    """Coordinates of a grid whose axes are these vectors: for each an Array of the grid's shape."""
    return _core._meshgrid(axes, indexing)


def pad(x, pad_width, constant_values=0):
    """One value around x: pad_width is an int, (low, high) for all axes, or a list of such for each axis."""
    x = _core.asarray(x)
    if isinstance(pad_width, int):
        widths = [[pad_width, pad_width]] * x.ndim
    elif pad_width and isinstance(pad_width[0], int):
        widths = [list(pad_width)] * x.ndim
    else:
        widths = [list(w) for w in pad_width]
        if len(widths) == 1:
            widths = widths * x.ndim
    return _core._pad(x, widths, constant_values)


def shape(x):
    """The extents of the axes."""
    return _core.asarray(x).shape


def ndim(x):
    """How many axes there are."""
    return _core.asarray(x).ndim
