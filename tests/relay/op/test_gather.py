"""Operators that pick by index, against NumPy and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of

X = np.arange(60, dtype="float32").reshape(3, 4, 5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_take_agrees_with_numpy(check, axis, dtype):
    for indices in (np.array([[0, 2], [-1, 1]]), np.array([1]), np.array(2)):
        check(op.take(const(X), const(indices.astype(dtype)), axis, "from_back"), np.take(X, indices, axis))


def test_indices_out_of_range_follow_the_mode(check):
    out_of_range = np.array([7, -9, 2])
    check(op.take(const(X), const(out_of_range), 0), X[[2, 0, 2]])
    check(op.take(const(X), const(np.array([-1, -2, 5])), 0), X[[0, 0, 2]])
    check(op.take(const(X), const(np.array([-1, -9, 5])), 0, "from_back"), X[[2, 0, 2]])
    check(op.take(const(X), const(out_of_range), 0, "wrap"), X[[1, 0, 2]])
    check(op.take(const(X), const(np.array([1, 2])), 0, "fast"), X[[1, 2]])
    check(op.take(const(X), const(np.array([59, 3]))), np.array([59.0, 3.0]))


def test_gather_agrees_with_onnxruntime(check, onnxruntime_node):
    indices = np.random.default_rng(1).integers(-4, 4, (3, 6, 5))
    (expected,) = onnxruntime_node("GatherElements", [X, indices], axis=1)
    check(op.gather(const(X), 1, const(indices)), expected)


@pytest.mark.parametrize(("depth", "batch_dims"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)])
def test_gather_nd_agrees_with_onnxruntime(check, onnxruntime_node, depth, batch_dims):
    rng = np.random.default_rng(depth)
    shape = (*X.shape[:batch_dims], 2, depth)
    limits = X.shape[batch_dims : batch_dims + depth]
    indices = np.stack([rng.integers(-n, n, shape[:-1]) for n in limits], -1)
    (expected,) = onnxruntime_node("GatherND", [X, indices], batch_dims=batch_dims)
    first = np.ascontiguousarray(np.moveaxis(indices, -1, 0))
    check(op.gather_nd(const(X), const(first), batch_dims), expected)


def test_one_hot_agrees_with_onnxruntime(check, onnxruntime_node):
    indices = np.array([[0, 2], [-1, 1]])
    for axis in (-1, 0, 1):
        (expected,) = onnxruntime_node("OneHot", [indices, np.array(4), np.array([0.5, 3.0], "float32")], axis=axis)
        check(op.one_hot(const(indices), 3.0, 0.5, 4, axis), expected)


def test_indices_that_do_not_fit_are_refused():
    with pytest.raises(TypeMismatchError, match="indices must be integers"):
        type_of(op.take(const(X), const(np.array([0.5], "float32")), 0))
    with pytest.raises(TypeMismatchError, match="mode 'nearest'; known: clip, from_back, wrap, fast"):
        type_of(op.take(const(X), const(np.array([0])), 0, "nearest"))
    with pytest.raises(TypeMismatchError, match="too many for data of 3 dimensions"):
        type_of(op.gather_nd(const(X), const(np.zeros((4, 1), "int64"))))
