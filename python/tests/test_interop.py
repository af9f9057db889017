"""Memory shared with NumPy, by the buffer protocol and DLPack, and its lifetime."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import tidu as td


def address(x):
    return np.asarray(x).__array_interface__["data"][0]


def test_asarray_shares():
    a = np.arange(6.0).reshape(2, 3)
    x = td.asarray(a)
    assert address(x) == a.__array_interface__["data"][0]
    a[0, 0] = 42.0
    assert x[0, 0].item() == 42.0


def test_array_copies():
    a = np.arange(3.0)
    x = td.array(a)
    a[0] = 42.0
    assert x.tolist() == [0, 1, 2]


def test_memory_stays_while_it_is_read():
    a = np.arange(1000.0)
    gone = weakref.ref(a)
    x = td.asarray(a)
    y = x.detach()
    del a, x
    gc.collect()
    assert gone() is not None
    assert td.sum(y).item() == 499500.0
    del y
    gc.collect()
    td.zeros(1)
    assert gone() is None


def test_views_of_arrays_keep_their_memory():
    view = td.arange(1000.0).numpy()
    gc.collect()
    assert view.sum() == 499500.0
    assert not view.flags.writeable
    assert td.ones(3).numpy(copy=True).flags.writeable


def test_dlpack():
    x = td.array([[1.0, 2.0], [3.0, 4.0]])
    a = np.from_dlpack(x)
    assert address(x) == a.__array_interface__["data"][0]
    b = np.arange(4.0)
    y = td.from_dlpack(b)
    assert address(y) == b.__array_interface__["data"][0]
    assert x.__dlpack_device__() == (1, 0)
    del x
    gc.collect()
    assert a.sum() == 10.0


def test_strided_and_unusual_memory_is_copied():
    a = np.arange(12.0).reshape(3, 4)
    for view in (a.T, a[:, ::2], a[::-1], a[1:1], np.asfortranarray(a)):
        np.testing.assert_array_equal(td.asarray(view).numpy(), view)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.uint32):
        assert td.asarray(np.array([0, 100], dtype)).tolist() == [0, 100]
    assert td.asarray(np.array([1, 0], np.uint8).view(bool)).tolist() == [True, False]


def test_readonly_memory_is_not_written_to():
    a = np.arange(3.0)
    a.flags.writeable = False
    with pytest.raises(td.InvalidArgumentError):
        td.asarray(a).assign(td.zeros(3))
    b = np.arange(3.0)
    td.asarray(b).assign(td.zeros(3))
    assert b.tolist() == [0, 0, 0]


def test_numpy_functions_take_arrays():
    x = td.array([1.0, 2.0])
    assert np.sum(np.asarray(x)) == 3.0
    np.testing.assert_array_equal(np.sin(x), np.sin([1.0, 2.0]))
    assert isinstance(np.float64(2.0) * x, td.Array)
    assert isinstance(np.array([1.0, 2.0]) * x, td.Array)
    assert np.array(x, dtype=np.float32).dtype == np.float32


def test_memoryview_and_bytes():
    x = td.array([1.0, 2.0])
    assert memoryview(x).tolist() == [1.0, 2.0]
    assert bytes(memoryview(x)) == np.array([1.0, 2.0]).tobytes()


def test_bfloat16():
    x = td.array([1.0, 2.5], dtype=td.bfloat16)
    assert x.dtype == td.bfloat16 and x.tolist() == [1.0, 2.5]


def test_pickle_and_copy():
    for x in (td.array([[1.0, 2.0]]), td.array(True), td.array([1, 2], dtype=td.int32), td.array([0.5], dtype=td.bfloat16)):
        y = pickle.loads(pickle.dumps(x))
        assert y.dtype == x.dtype and y.shape == x.shape and y.tolist() == x.tolist()
        assert copy.deepcopy(x).tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(td.float32)) is td.float32


def test_refuses():
    with pytest.raises(td.TypeMismatchError):
        td.asarray(object())
    with pytest.raises(td.TypeMismatchError):
        td.array(["a"])
    with pytest.raises(TypeError):
        td.array([1.0]) + "a"
    with pytest.raises(td.InvalidArgumentError):
        td.jit(lambda x: np.asarray(float(x)))(td.array(1.0))
