"""Codes of weights in blocks: errors against plain rounding, shapes of any kind, rounding by data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.quantize.weight_codes import BLOCKS, block_for, coded_weights, noise


def rounded(weight, bits, block):
    """The weights by plain rounding: the largest element of each block has the largest code."""
    count, depth = weight.shape
    blocks = np.pad(weight, ((0, 0), (0, -depth % block))).reshape(count, -1, block).astype(np.float64)
    scales = np.maximum(np.abs(blocks).max(axis=-1, keepdims=True) / ((1 << (bits - 1)) - 1), 1e-30)
    return (np.rint(blocks / scales) * scales).reshape(count, -1)[:, :depth]


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 5), depth=st.integers(1, 70), block=st.sampled_from(BLOCKS), bits=st.sampled_from((2, 4, 8)),
    symmetric=st.booleans(), seed=st.integers(0, 99), scale=st.sampled_from((1e-20, 1.0, 1e20)),
)  # fmt: skip
def test_codes_of_any_shape_lose_no_more_than_plain_rounding(count, depth, block, bits, symmetric, seed, scale):
    weight = (np.random.default_rng(seed).standard_normal((count, depth)) * scale).astype(np.float32)
    coded = coded_weights(weight, bits, block, symmetric)
    used = block_for(depth, block)
    assert coded.codes.shape == (count, -(-depth // used), used)
    assert coded.codes.max() < 1 << bits
    assert coded.scales.shape == coded.codes.shape[:2]
    assert (coded.zeros is None) == symmetric
    error = np.sum((weight - coded.floats()).astype(np.float64) ** 2)
    assert error <= np.sum((weight - rounded(weight, bits, used)).astype(np.float64) ** 2) * 1.0001


@pytest.mark.parametrize("bits", [2, 4])
def test_the_search_loses_less_than_plain_rounding(bits):
    weight = np.random.default_rng(0).standard_normal((64, 128)).astype(np.float32)
    plain = np.sum((weight - rounded(weight, bits, 32)) ** 2)
    for symmetric in (True, False):
        exact, error = noise(weight, coded_weights(weight, bits, 32, symmetric))
        assert error < 0.8 * plain
        assert exact == pytest.approx(np.sum(weight.astype(np.float64) ** 2))


def test_zeros_and_constants_are_exact():
    for symmetric in (True, False):
        for value in (0.0, 0.5, -3.0):
            weight = np.full((2, 40), value, np.float32)
            assert np.array_equal(coded_weights(weight, 4, 32, symmetric).floats(), weight)


@pytest.mark.parametrize("symmetric", [True, False])
def test_data_lowers_the_error_of_products(symmetric):
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((24, 72)).astype(np.float32)
    data = rng.standard_normal((300, 72)) @ rng.standard_normal((72, 72))
    nearest = coded_weights(weight, 4, 32, symmetric)
    ours = coded_weights(weight, 4, 32, symmetric, data.T @ data)
    errors = [np.sum((data @ (weight - one.floats()).T) ** 2) for one in (ours, nearest)]
    assert errors[0] < 0.6 * errors[1]
    assert noise(weight, ours, data.T @ data)[1] == pytest.approx(errors[0], rel=1e-6)


def test_data_with_channels_that_are_always_zero():
    weight = np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32)
    moments = np.diag([1.0] * 8 + [0.0] * 24)
    assert np.isfinite(coded_weights(weight, 4, 16, True, moments).floats()).all()
    assert np.isfinite(coded_weights(weight, 4, 16, True, np.zeros((32, 32))).floats()).all()
