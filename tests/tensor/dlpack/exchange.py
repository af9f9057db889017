#!/usr/bin/env python3
"""Hands tensors of tidu to NumPy and PyTorch and takes theirs, by their own DLPack: values, addresses, writes seen on both sides, who
keeps the memory alive, and what is refused.

usage: exchange.py MODULE    MODULE: the shared library of module.cpp. Exit status 77 when neither NumPy nor PyTorch is there to
                             exchange with (a failure where the environment says CI=true); what is left out is said.
"""
import ctypes
import gc
import os
import sys
import weakref

DEBIAN_PYTHON = "/usr/bin/python3"
DTYPES = {"bool": "bool", "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64",
          "c64": "complex64", "c128": "complex128"}
# Python keeps the pointers to these names, so they have to stay.
NAMES = {False: (b"dltensor", b"used_dltensor"), True: (b"dltensor_versioned", b"used_dltensor_versioned")}

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


def load(path):
    module, pointer, text = ctypes.CDLL(path), ctypes.c_void_p, ctypes.c_char_p
    signatures = {"last_error": (text,), "make": (pointer, text, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), text),
                  "drop": (None, pointer), "address": (pointer, pointer), "writable": (ctypes.c_bool, pointer),
                  "exclusive": (ctypes.c_bool, pointer), "type_of": (text, pointer),
                  "put": (None, pointer, ctypes.c_int64, ctypes.c_double),
                  "give": (pointer, pointer, ctypes.c_bool), "give_legacy": (pointer, pointer),
                  "take": (pointer, pointer, ctypes.c_bool), "take_legacy": (pointer, pointer, ctypes.c_bool)}
    for name, (result, *arguments) in signatures.items():
        function = getattr(module, name)
        function.restype, function.argtypes = result, arguments
    return module


class Tensor:
    """A tensor of tidu, with Python's protocol as a binding of tidu would write it."""

    def __init__(self, handle):
        if not handle:
            raise ValueError(tidu.last_error().decode())
        self.handle = handle

    def __del__(self):
        if getattr(self, "handle", None):
            tidu.drop(self.handle)

    @classmethod
    def of(cls, dtype, shape, data):
        return cls(tidu.make(dtype.encode(), len(shape), (ctypes.c_int64 * len(shape))(*shape), data))

    @classmethod
    def take(cls, array, copy=False, **protocol):
        capsule = array.__dlpack__(**protocol)
        versioned = bool(python.PyCapsule_IsValid(capsule, NAMES[True][0]))
        name, used = NAMES[versioned]
        pointer = python.PyCapsule_GetPointer(capsule, name)
        python.PyCapsule_SetName(capsule, used)
        return cls((tidu.take if versioned else tidu.take_legacy)(pointer, copy))

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert not copy and dl_device in (None, (1, 0))
        versioned = max_version is not None and max_version[0] >= 1 and not self.legacy
        pointer = tidu.give(self.handle, self.to_write) if versioned else tidu.give_legacy(self.handle)
        if not pointer:
            raise BufferError(tidu.last_error().decode())
        self.given.append(versioned)
        return python.PyCapsule_New(pointer, NAMES[versioned][0], None)

    legacy, to_write, given = False, True, []
    address = property(lambda self: tidu.address(self.handle))
    type = property(lambda self: tidu.type_of(self.handle).decode())
    writable = property(lambda self: tidu.writable(self.handle))
    exclusive = property(lambda self: tidu.exclusive(self.handle))

    def write(self, index, value):
        tidu.put(self.handle, index, value)


def refused(kind, body):
    try:
        body()
    except kind as error:
        return str(error)
    raise AssertionError(f"expected {kind.__name__}")


def to_others(library, address_of):
    """From tidu: values and memory of every dtype, lifetime, writes."""
    for dtype, name in DTYPES.items():
        for shape in ((), (5,), (2, 1, 3), (2, 0)):
            data = numbers(dtype, shape)
            tensor = Tensor.of(dtype, shape, data.tobytes())
            array = library.from_dlpack(tensor)
            assert str(array.dtype).endswith(name) and tuple(array.shape) == shape, (dtype, shape)
            assert numpy.asarray(array).tolist() == data.tolist(), (dtype, shape)
            assert data.size == 0 or address_of(array) == tensor.address
    tensor = Tensor.of("f64", (3,), numbers("f64", (3,)).tobytes())
    array = library.from_dlpack(tensor)
    assert not tensor.exclusive
    tensor.write(1, 7.5)
    assert array[1] == 7.5
    before = array[2].item()
    del tensor
    gc.collect()
    noise = [Tensor.of("f64", (3,), bytes(24)) for _ in range(1000)]  # would take the memory, were it free
    assert array[1] == 7.5 and array[2] == before
    del noise
    tensor = Tensor.of("f64", (3,), bytes(24))
    array = library.from_dlpack(tensor)
    del array
    gc.collect()
    assert tensor.exclusive  # given back


def from_others(make, address_of, **protocol):
    """To tidu: values and memory of every dtype, lifetime, writes, layouts."""
    for dtype, name in DTYPES.items():
        for shape in ((), (5,), (2, 1, 3), (2, 0)):
            data = numbers(dtype, shape)
            array = make(data)
            tensor = Tensor.take(array, **protocol)
            assert tensor.type == f"{dtype}[{','.join(map(str, shape))}]", tensor.type
            assert ctypes.string_at(tensor.address, data.nbytes) == data.tobytes()
            assert data.size == 0 or address_of(array) == tensor.address
    array = make(numpy.zeros((2, 3)))
    tensor = Tensor.take(array, **protocol)
    assert tensor.writable and not tensor.exclusive
    array[1, 2] = 4.5
    assert ctypes.c_double.from_address(tensor.address + 40).value == 4.5
    tensor.write(0, -1)
    assert array[0, 0] == -1.0
    alive = weakref.ref(array)
    del array
    gc.collect()
    noise = [make(numpy.full((2, 3), 9.0)) for _ in range(1000)]
    assert ctypes.c_double.from_address(tensor.address + 40).value == 4.5
    del noise, tensor
    gc.collect()
    assert alive() is None
    array = make(numpy.arange(6.0).reshape(2, 3))
    assert "strides [1,3]" in refused(ValueError, lambda: Tensor.take(array.T, **protocol))
    copied = Tensor.take(array.T, copy=True, **protocol)
    assert copied.type == "f64[3,2]" and copied.exclusive
    assert list((ctypes.c_double * 6).from_address(copied.address)) == [0, 3, 1, 4, 2, 5]
    second = Tensor.take(array[1:], **protocol)
    assert second.address == address_of(array) + 24
    assert "got uint8" in refused(ValueError, lambda: Tensor.take(make(numpy.zeros(3, "uint8")), **protocol))


def numbers(dtype, shape):
    values = numpy.arange(1, 1 + int(numpy.prod(shape))).reshape(shape)
    values = (values % 2) if dtype == "bool" else values * (1 + 0.5j) if dtype[0] == "c" else values
    return numpy.asarray(values, dtype=DTYPES[dtype])


def knows_bool():
    try:
        numpy.zeros(1, "bool").__dlpack__()
    except (TypeError, BufferError):
        return False
    return True


def knows_versions(array):
    try:
        array.__dlpack__(max_version=(1, 0))
    except TypeError:
        return False
    return True


def with_numpy():
    address_of = lambda array: array.ctypes.data
    versions = knows_versions(numpy.zeros(1))
    if not knows_bool():
        print(f"NumPy {numpy.__version__}: bool LEFT OUT, which it does not exchange")
        del DTYPES["bool"]
    Tensor.legacy = True
    to_others(numpy, address_of)
    from_others(lambda data: data, address_of)
    array = numpy.zeros(3)
    alive, tensor = weakref.ref(array), Tensor.take(array)
    del array
    gc.collect()
    assert alive() is not None  # the tensor has it
    del tensor
    gc.collect()
    assert alive() is None
    Tensor.legacy = False
    if not versions:
        print(f"NumPy {numpy.__version__}: the older struct works both ways; DLPack 1 LEFT OUT, which it does not know")
        return
    Tensor.given.clear()
    to_others(numpy, address_of)
    assert all(Tensor.given)
    from_others(lambda data: data, address_of, max_version=(1, 2))
    Tensor.to_write = False
    array = numpy.from_dlpack(Tensor.of("f64", (3,), bytes(24)))
    assert not array.flags.writeable
    taken = Tensor.take(array, max_version=(1, 0))
    assert not taken.writable and taken.address == address_of(array)
    assert "read-only" in refused(BufferError, lambda: taken.__dlpack__())
    Tensor.to_write = True
    print(f"NumPy {numpy.__version__}: DLPack 1 and the older struct work both ways")


def with_torch(torch):
    address_of = lambda array: array.data_ptr()
    make = lambda data: torch.from_numpy(data.copy())
    versions = knows_versions(torch.zeros(1))
    for legacy in (True, False) if versions else (True,):
        Tensor.legacy = legacy
        to_others(torch, address_of)
        from_others(make, address_of, **({} if legacy else {"max_version": (1, 2)}))
    bf16 = Tensor.take(torch.full((2,), 1.5, dtype=torch.bfloat16))
    assert bf16.type == "bf16[2]"
    assert torch.from_dlpack(bf16).tolist() == [1.5, 1.5]
    what = "DLPack 1 and the older struct work both ways"
    if not versions:
        what = "the older struct works both ways; DLPack 1 LEFT OUT, which it does not know"
    print(f"PyTorch {torch.__version__}: {what}")


def main(path):
    global numpy, tidu
    try:
        import numpy
    except ImportError:
        if os.path.exists(DEBIAN_PYTHON) and not os.environ.get("EXCHANGE_LOOKED"):  # where Debian's NumPy is
            os.environ["EXCHANGE_LOOKED"] = "1"
            os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, "-B", __file__, path])
        print("NumPy is not here (python3-numpy): the exchange with NumPy and PyTorch is LEFT OUT")
        return 1 if os.environ.get("CI") == "true" else 77
    tidu = load(path)
    with_numpy()
    try:
        import torch
    except ImportError:
        print("PyTorch is not here: the exchange with it is LEFT OUT")
        return 0
    with_torch(torch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
