"""Ranges and codes against NumPy: each method keeps what it promises on values whose distribution is known."""

import numpy as np
import pytest

from tests.quantize.models import add
from tilewright.errors import InputError
from tilewright.quantize.ranges import (
    CODES,
    METHODS,
    Codes,
    Histogram,
    as_floats,
    bias_codes,
    codes_of,
    range_of,
    weight_codes,
    weight_scales,
)


def histogram_of(*parts):
    found = Histogram()
    for part in parts:
        add(found, np.asarray(part, np.float32))
    return found


def test_a_histogram_counts_all_values_while_its_range_grows():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal(1000) * scale for scale in (0.001, 1.0, 300.0, 0.5)]
    found = histogram_of(*parts)
    values = np.concatenate(parts).astype(np.float32)
    assert found.counts.sum() == values.size
    assert (found.least, found.largest) == (values.min(), values.max())
    # a bin never holds a value that is not within it, one rounding of its edge apart
    again = np.histogram(values, bins=len(found.counts), range=(-found.limit, found.limit))[0]
    assert np.abs(np.cumsum(again) - np.cumsum(found.counts)).max() <= 2


def test_zero_has_a_code_of_its_own_in_every_range():
    for dtype, (least, most) in CODES.items():
        for low, high in ((0.5, 3.0), (-3.0, -0.5), (-1.0, 2.0), (-1e-3, 900.0)):
            codes = codes_of(low, high, dtype)
            assert as_floats(np.zeros(1), codes)[0] == 0.0
            assert least <= codes.zero_point <= most
            ends = np.array([min(low, 0), max(high, 0)])
            assert np.abs(as_floats(ends, codes) - ends).max() <= codes.scale * 0.51


def test_constant_zeros_have_codes():
    for method in METHODS:
        assert codes_of(*range_of(histogram_of(np.zeros(5)), method, "uint8"), "uint8") == Codes(1.0, 0, "uint8")


def test_minmax_holds_every_value_and_percentile_cuts_one_in_ten_thousand():
    values = np.random.default_rng(1).standard_normal(200_000).astype(np.float32)
    values[0] = 60.0
    found = histogram_of(values)
    assert range_of(found, "minmax", "uint8") == (values.min(), 60.0)
    low, high = range_of(found, "percentile", "uint8")
    assert 5 <= np.sum(values > high) <= 25
    assert 5 <= np.sum(values < low) <= 25


@pytest.mark.parametrize("dtype", CODES)
def test_mse_is_no_worse_than_any_other_method(dtype):
    rng = np.random.default_rng(2)
    for values in (rng.standard_normal(50_000), np.maximum(rng.standard_cauchy(50_000), 0), rng.uniform(-1, 5, 50_000)):
        found = histogram_of(values)
        errors = {
            method: np.mean((as_floats(values, codes_of(*range_of(found, method, dtype), dtype)) - values) ** 2)
            for method in METHODS
        }
        assert errors["mse"] <= 1.01 * min(errors.values()), errors


def test_entropy_cuts_off_an_outlier():
    values = np.append(np.random.default_rng(3).laplace(size=100_000), 400.0)
    low, high = range_of(histogram_of(values), "entropy", "int8")
    assert 2.0 < high < 200.0
    assert low < -2.0


def test_an_unknown_method_is_named():
    with pytest.raises(InputError, match=r"no method 'best'.*minmax"):
        range_of(histogram_of([1.0]), "best", "uint8")


def test_scales_of_weights_are_by_channel():
    weight = (
        np.random.default_rng(4).standard_normal((5, 3, 2, 2)).astype(np.float32)
        * 10.0 ** np.arange(-2, 3)[:, None, None, None]
    )
    weight[2] = 0.0
    scales = weight_scales(weight, "minmax")
    codes = weight_codes(weight, scales)
    assert codes.dtype == np.int8
    assert [int(np.abs(one).max()) for one in codes] == [127, 127, 0, 127, 127]
    assert np.all(np.abs(codes * scales[:, None, None, None] - weight) <= 0.501 * scales[:, None, None, None])

    def error(scales):
        column = scales[:, None, None, None]
        return ((weight_codes(weight, scales) * column - weight) ** 2).sum(axis=(1, 2, 3))

    assert np.all(error(weight_scales(weight, "mse")) <= error(scales) * 1.0001)


def test_biases_saturate():
    found = bias_codes(
        np.array([1.0, -1e30, 0.26], np.float32), (0.0, 0.0, 0.24), np.array([0.5, 0.5, 0.5], np.float32)
    )
    assert found.tolist() == [2, -(2**31), 1]
