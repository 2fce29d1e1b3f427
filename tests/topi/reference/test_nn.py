"""References of products, against exact integers."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.topi.reference import nn


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_products_of_integers_wrap(dtype: str) -> None:
    rng = np.random.default_rng(4)
    info = np.iinfo(dtype)
    a, b = (rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True) for shape in ((3, 5), (4, 5)))
    exact = a.astype(object) @ b.T.astype(object)
    wanted = np.array([[int(v) & ((1 << info.bits) - 1) for v in row] for row in exact], f"uint{info.bits}").view(dtype)
    np.testing.assert_array_equal(nn.dense(a, b), wanted)
