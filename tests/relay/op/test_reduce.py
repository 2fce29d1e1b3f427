"""Reductions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of

RNG = np.random.default_rng(7)
AXES = [None, 0, -1, (0, 2), (1,), ()]


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
def test_reductions_agree_with_numpy(check, name, dtype):
    x = (RNG.integers(-3, 4, (2, 3, 4)) + (0.25 if "f" in dtype else 0)).astype(dtype)
    for axis in AXES:
        for keepdims in (False, True):
            expected = x if axis == () else getattr(np, name)(x.astype(np.float64), axis=axis, keepdims=keepdims)
            expected = np.trunc(expected) if "int" in dtype else expected
            tolerance = 5e-3 if dtype == "float16" else 1e-6
            check(getattr(op, name)(const(x), axis, keepdims), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_reductions_of_nothing_return_the_neutral_element(check, dtype):
    """The number that every other replaces."""
    x = np.zeros((0, 3), dtype)
    ends = (-np.inf, np.inf) if "f" in dtype else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for name, end in zip(("max", "min"), ends):
        check(getattr(op, name)(const(x), 0), np.full(3, end, dtype))


def test_exclude_reduces_over_the_other_axes(check):
    x = RNG.standard_normal((2, 3, 4)).astype("float32")
    check(op.sum(const(x), axis=1, exclude=True), x.sum((0, 2)))


def test_all_and_any_agree_with_numpy(check):
    x = RNG.random((3, 4)) < 0.7
    for axis in (None, 0, 1):
        check(op.all(const(x), axis), np.all(x, axis))
        check(op.any(const(x), axis, keepdims=True), np.any(x, axis, keepdims=True))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_positions_of_extrema_agree_with_numpy_in_ties(check, name, dtype):
    x = RNG.integers(0, 3, (3, 4, 5)).astype(dtype)  # many ties
    function = getattr(np, name)
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            check(getattr(op, name)(const(x), axis, keepdims), function(x, axis, keepdims=keepdims))
    last = 4 - function(x[..., ::-1], axis=-1)
    check(getattr(op, name)(const(x), -1, select_last_index=True, dtype="int64"), last)


def test_arg_of_worst_values_is_a_valid_index(check):
    x = np.full((2, 3), -np.inf, "float32")
    check(op.argmax(const(x), 1), np.zeros(2))
    check(op.argmax(const(x), 1, select_last_index=True), np.full(2, 2))


def test_bad_axes_and_types_are_refused():
    with pytest.raises(TypeMismatchError, match="axis 3 is out of range for 2 dimensions"):
        type_of(op.sum(const(np.zeros((2, 2), "float32")), axis=3))
    with pytest.raises(TypeMismatchError, match="not bool"):
        type_of(op.sum(const(np.zeros((2, 2), bool))))
