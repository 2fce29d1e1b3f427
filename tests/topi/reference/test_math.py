"""The reference functions that NumPy lacks."""

from __future__ import annotations

import math

import numpy as np

from tilewright.topi.reference.math import cast, erf, sigmoid, trunc_divide, trunc_mod


def test_erf_is_accurate_everywhere():
    x = np.concatenate([np.linspace(-7, 7, 4001), 10.0 ** -np.arange(1, 300, 7)])
    expected = np.array([math.erf(v) for v in x])
    assert np.max(np.abs(erf(x) - expected) / np.maximum(np.abs(expected), 1e-300)) < 1e-15
    special = erf(np.array([np.nan, np.inf, -np.inf, -0.0]))
    assert np.isnan(special[0]) and special[1:3].tolist() == [1, -1] and np.signbit(special[3])
    assert erf(np.float32([0.5])).dtype == np.float32


def test_sigmoid_does_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        assert sigmoid(np.array([-1000.0, 0.0, 1000.0])).tolist() == [0.0, 0.5, 1.0]


def test_division_rounds_towards_zero():
    a, b = np.array([7, -7, 7, -7, 5]), np.array([2, 2, -2, -2, 0])
    assert trunc_divide(a, b).tolist() == [3, -3, -3, 3, 0]
    assert trunc_mod(a[:4], b[:4]).tolist() == [1, -1, 1, -1]
    assert trunc_divide(np.array([250], "uint8"), np.array([7], "uint8")).tolist() == [35]


def test_casts_truncate_towards_zero():
    assert cast(np.array([-1.7, 1.7]), "int32").tolist() == [-1, 1]
    assert cast(np.array([0.0, 0.3]), "bool").tolist() == [False, True]
