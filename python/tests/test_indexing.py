"""NumPy as oracle for x[key], and for x.at[key]."""

import numpy as np
import pytest
import tidu as td
from hypothesis import given, settings
from hypothesis import strategies as st

X = np.arange(60.0).reshape(3, 4, 5)
MASK = X[:, :, 0] % 2 == 0

KEYS = [
    0,
    -1,
    np.int64(1),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(-10, 10),
    slice(2, 0, -1),
    Ellipsis,
    None,
    (0, 1),
    (0, slice(1, 3), -1),
    (Ellipsis, 2),
    (slice(None), None, Ellipsis),
    (1, Ellipsis, slice(None, None, 2)),
    [0, 2],
    np.array([[0, 1], [2, 0]]),
    (slice(None), [3, 0]),
    ([0, 1], [2, 3]),
    ([0, 1], slice(None), [2, 3]),
    (0, [2, 3]),
    [],
    MASK,
    np.array([True, False, True]),
    (slice(None), np.array([True, False, True, False])),
    (Ellipsis, np.array([True, False, True, False, True])),
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_reads_as_numpy(key):
    got = td.array(X)[key]
    expected = X[key]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_gradient_goes_back(key):
    expected = np.zeros_like(X)
    np.add.at(expected, key, 2.0)
    got = td.grad(lambda x: td.sum(2.0 * x[key]))(td.array(X))
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("key", [0, slice(1, 3), (0, 1), (Ellipsis, 2), [0, 2], ([0, 1], [2, 3]), MASK], ids=repr)
def test_set(key):
    expected = X.copy()
    expected[key] = -1.0
    np.testing.assert_array_equal(td.array(X).at[key].set(-1.0).numpy(), expected)


def test_at():
    x = td.array([1.0, 2.0, 3.0])
    assert x.at[1].add(5.0).tolist() == [1, 7, 3]
    assert x.at[[0, 0]].add(1.0).tolist() == [3, 2, 3]
    assert x.at[1:].multiply(2.0).tolist() == [1, 4, 6]
    assert x.at[0].divide(2.0).tolist() == [0.5, 2, 3]
    assert x.at[0].max(9.0).tolist() == [9, 2, 3]
    assert x.at[1:].get().tolist() == [2, 3]
    assert x.tolist() == [1, 2, 3]


def test_indices_that_are_arrays():
    i = td.array(1)
    assert td.array([1.0, 2.0, 3.0])[i].item() == 2.0
    assert td.jit(lambda x, i: x[i])(td.array([1.0, 2.0, 3.0]), i).item() == 2.0


def test_refuses():
    x = td.array(X)
    with pytest.raises(IndexError):
        x[3]
    with pytest.raises(IndexError):
        x[0, -5]
    with pytest.raises(td.InvalidArgumentError):
        x[0, 0, 0, 0]
    with pytest.raises(TypeError, match="at"):
        x[0] = 1.0
    with pytest.raises(td.Error):
        x["a"]


parts = st.one_of(
    st.slices(6),
    st.integers(-3, 2),
    st.none(),
    st.just(Ellipsis),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(parts, max_size=4))
def test_any_basic_key(items):
    key = tuple(items)
    try:
        expected = X[key]
    except IndexError:
        with pytest.raises((IndexError, td.Error)):
            td.array(X)[key]
        return
    np.testing.assert_array_equal(td.array(X)[key].numpy(), expected)
