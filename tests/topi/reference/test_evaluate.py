"""The evaluator of tensor expressions, on which the operators' tests stand."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.errors import InternalError
from tilewright.topi.reference.evaluate import evaluate

X = np.arange(12, dtype="float32").reshape(3, 4)


def value(tensor, x):
    return evaluate([tensor], {x: X})[0]


def test_stages_and_reductions():
    x = te.placeholder((3, 4), name="x")
    k = te.reduce_axis((1, 4), "k")
    doubled = te.compute((3, 4), lambda i, j: x[i, j] * 2.0)
    partial = te.compute((3,), lambda i: te.sum(doubled[i, k], axis=k))
    np.testing.assert_array_equal(value(partial, x), 2 * X[:, 1:].sum(1))
    k = te.reduce_axis((0, 4), "k")
    odd = te.compute((3,), lambda i: te.max(x[i, k], axis=k, where=k % 2 < 1))
    np.testing.assert_array_equal(value(odd, x), X[:, 2])


def test_guarded_reads_may_leave_the_array():
    x = te.placeholder((3, 4), name="x")
    shifted = te.compute((3, 4), lambda i, j: tir.if_then_else(j < 3, x[i, j + 1], tir.const(-1.0)))
    np.testing.assert_array_equal(value(shifted, x), np.pad(X[:, 1:], ((0, 0), (0, 1)), constant_values=-1))


def test_unguarded_reads_may_not():
    x = te.placeholder((3, 4), name="x")
    with pytest.raises(InternalError, match=r"x of shape .* is read out of bounds in axis 1"):
        value(te.compute((3, 4), lambda i, j: x[i, j + 1]), x)
