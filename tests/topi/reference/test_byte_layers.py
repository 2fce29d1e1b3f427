"""Weights and scales packed for kernels of layers, and scaled sums as TensorFlow Lite rounds them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.topi.reference import byte_layers as ref

RNG = np.random.default_rng(6)


@pytest.mark.parametrize(("channels", "row"), [(4, 16), (10, 27)])
def test_rows_come_back(channels: int, row: int) -> None:
    weights = RNG.integers(-128, 128, (channels, row)).astype(np.int8)
    plain = ref.unpacked_rows(ref.packed_rows(weights))
    np.testing.assert_array_equal(plain[:channels, :row], weights)
    assert not plain[channels:].any() and not plain[:, row:].any()


@pytest.mark.parametrize("channels", [8, 21])
@pytest.mark.parametrize("lanes", [ref.WORDS, ref.LANES])
def test_scales_come_back(lanes: int, channels: int) -> None:
    parts = [RNG.integers(-900, 900, channels) for _ in range(3)]
    for part, back in zip(parts, ref.unpacked_scale(ref.packed_scale(*parts, lanes), channels), strict=True):
        np.testing.assert_array_equal(part, back)


def test_scaled_sums_are_rounded_twice_or_once() -> None:
    """Halves of the second rounding go away from zero, where it drops any; one rounding takes halves up."""
    totals = np.array([-6, -5, -3, 3, 5, 6])
    half = np.asarray(1 << 30)
    assert ref.scaled(totals * 2, half, np.asarray(1), ref.AWAY).tolist() == [-3, -3, -2, 2, 3, 3]
    assert ref.scaled(totals * 2, half, np.asarray(0), ref.AWAY).tolist() == totals.tolist()
    assert ref.scaled(totals, half, np.asarray(0), ref.AWAY).tolist() == [-3, -2, -1, 2, 3, 3]
    assert ref.scaled(totals * 4, half, np.asarray(1), ref.ONCE).tolist() == [-3, -2, -1, 2, 3, 3]
