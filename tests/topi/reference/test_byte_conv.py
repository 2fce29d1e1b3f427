"""Weights packed for kernels of bytes, and the sums that pairs of them make."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.topi.reference import byte_conv as ref
from tilewright.topi.reference.byte_conv import BYTES, PAIRS, SCALE, WIDE_PAIRS

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("form", [BYTES, PAIRS, WIDE_PAIRS])
@pytest.mark.parametrize("row", [4, 9])
def test_weights_come_back(form: str, row: int) -> None:
    weights = RNG.integers(-127, 128, (8, 3, row)).astype(np.int8)
    bias = RNG.integers(-9000, 9000, 8)
    plain = ref.unpacked(ref.packed(weights, 4, form), form)
    rows = plain.reshape(8, 3, -1)
    np.testing.assert_array_equal(rows[:, :, :row], weights)
    assert not rows[:, :, row:].any()
    np.testing.assert_array_equal(ref.unpacked_bias(plain, ref.packed_bias(weights, bias, form), form), bias)


def test_pairs_sum_to_products_of_bytes() -> None:
    """The identity that the kernels rest on, for all pairs of the rarest bytes."""
    ends = np.array([-128, -127, -1, 0, 1, 126, 127], np.int64)
    x0, x1, w0, w1 = np.meshgrid(ends, ends, ends[1:], ends[1:])
    word = (w0 & 0xFF) + 256 * (w1 - (w0 < 0))
    mixed = 256 * x0 - x1 + 127
    assert word.min() >= -(1 << 15) and mixed.min() >= -(1 << 15) and max(word.max(), mixed.max()) < 1 << 15
    np.testing.assert_array_equal(word * x1 + w0 * mixed, ((w0 * x0 + w1 * x1) << SCALE) + 127 * w0)
