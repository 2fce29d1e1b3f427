"""Sums of operators that run on the host: those of NumPy across an axis are one chain, in float32 1 % off after 10⁶."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.runtime.host_ops.classic import segment_sum
from tilewright.runtime.host_ops.dynamic import cumsum
from tilewright.runtime.host_ops.products import einsum

COUNT = 200_000
TENTHS = np.full((COUNT, 2), 0.1, np.float32)
EXACT = COUNT * float(np.float32(0.1))


@pytest.mark.parametrize(
    "total",
    [
        lambda: cumsum({}, TENTHS, np.array(0))[-1],
        lambda: cumsum({"reverse": 1}, TENTHS, np.array(0))[0],
        lambda: einsum({"equation": "kj->j"}, TENTHS),
        lambda: segment_sum({"num_segments": 1}, TENTHS, np.zeros(COUNT, np.int64))[0],
    ],
    ids=["cumsum", "reversed", "einsum", "segments"],
)
def test_a_million_tenths_sum_to_float32_precision(total: Any) -> None:
    made = total()
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, EXACT, rtol=1e-7)
