"""Softmax makes no denormal numbers, and lets NaN through."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import run
from tilewright import topi

TINY = np.finfo("float32").tiny


@pytest.mark.parametrize("columns", [5, 40])
def test_what_is_nothing_beside_the_largest_is_zero(columns):
    rows = np.linspace(0, -110, 23 * columns, dtype=np.float32).reshape(columns, 23).T.copy()
    result = run(lambda x: topi.nn.softmax(x), rows)
    assert ((result == 0) | (result >= TINY / columns)).all()
    weights = np.exp(rows.astype("float64") - rows.max(axis=1, keepdims=True))
    np.testing.assert_allclose(result, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5, atol=TINY)


def test_what_is_no_number_stays_none():
    rows = np.array([[0.0, np.nan, 1.0, 2.0], [0.0, -np.inf, 0.0, -np.inf]], np.float32)
    result = run(lambda x: topi.nn.softmax(x), rows)
    assert np.isnan(result[0]).any()
    np.testing.assert_array_equal(result[1], [0.5, 0.0, 0.5, 0.0])
