"""Fake quantization and its grids: codes, gradients of data and ranges against NumPy, ranges that fit."""

import numpy as np
import pytest

from tests.quantize.models import add
from tilewright import relay
from tilewright.errors import InputError
from tilewright.quantize.fake import FakeQuantized
from tilewright.quantize.grid import Grid
from tilewright.quantize.ranges import Histogram
from tilewright.relay.interpreter.interpreter import interpret

GRIDS = [Grid(bits, "symmetric") for bits in (2, 3, 8)]
GRIDS += [Grid(bits, kind) for kind in ("asymmetric", "bipolar") for bits in (1, 2, 3, 8)]


def evaluated(fake, x, given):
    """(values on the grid, gradients of x and of the parameters in order) of the sum of squares of the values."""
    variables = fake.variables()
    data = relay.var("x", shape=x.shape)
    relay.transform.infer_type(relay.IRModule.from_expr(relay.Function([data], data)))
    codes, scale = fake.codes(data, variables)
    func = relay.Function([data, *variables.values()], codes * scale)
    results = interpret(relay.transform.gradient(func), [x, *(given[name] for name in variables)])
    return results[0], results[1], dict(zip(variables, results[2:], strict=True))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_values_and_gradients_are_those_of_learned_step_sizes(grid):
    """Against the formulas of the paper, for each of three channels with a scale of its own."""
    rng = np.random.default_rng(grid.bits)
    x = (rng.standard_normal((3, 50)) * [[1.0], [3.0], [0.2]]).astype(np.float32)
    first, zero = grid.range_of(x.min(axis=1, keepdims=True) * 0.6, x.max(axis=1, keepdims=True) * 0.6)
    fake = FakeQuantized("w", grid, first, zero, learned=True)
    share = rng.uniform(0.7, 1.3, (3, 1)).astype(np.float32)
    given = {"w:scale": share, "w:shift": np.full((3, 1), 0.11, np.float32)}
    values, of_x, of_parameters = evaluated(fake, x, given)
    scale, moved = share * first, zero
    if grid.kind == "asymmetric":
        moved = np.clip(np.rint(zero + np.float32(0.11) * np.float32(grid.most)), 0, grid.most)
    np.testing.assert_array_equal(fake.trained(given)[0], scale)
    np.testing.assert_array_equal(fake.trained(given)[1], moved)
    low, high = grid.least - moved, grid.most - moved
    ratio = x / scale
    inside = (ratio >= low) & (ratio <= high)
    codes = np.rint(np.clip(ratio, low, high))
    if grid.kind == "bipolar":  # the nearest odd number
        codes = 2 * np.rint((np.clip(ratio, low, high) + grid.most) / 2) - grid.most
    np.testing.assert_array_equal(values, codes * scale)
    signs = (grid.kind, grid.bits) == ("bipolar", 1)
    np.testing.assert_allclose(of_x, (np.abs(x) <= 5 * first) * scale / first if signs else inside, rtol=1e-6)
    of_scale = codes if signs else np.where(inside, codes - ratio, codes)
    damped = of_scale.sum(axis=1, keepdims=True) * first / np.sqrt(50 * grid.most)
    np.testing.assert_allclose(of_parameters["w:scale"], damped, rtol=1e-3, atol=1e-5)
    if grid.kind == "asymmetric":
        held = (zero + 0.11 * grid.most >= 0) & (zero + 0.11 * grid.most <= grid.most)
        of_shift = (~inside * -scale).sum(axis=1, keepdims=True) * grid.most * held
        np.testing.assert_allclose(of_parameters["w:shift"], of_shift, rtol=1e-4, atol=1e-5)


def test_ranges_that_are_not_learned_are_inputs():
    fake = FakeQuantized("d", Grid(4, "asymmetric"), np.float32(0.5), np.float32(3), learned=False)
    x = np.array([-9.0, -1.1, 0.3, 4.0, 9.0], np.float32)
    values, of_x, _ = evaluated(fake, x, fake.of_range(np.float32(0.25), np.float32(5)))
    np.testing.assert_array_equal(values, np.clip(np.rint(x / 0.25), -5, 10) * 0.25)
    np.testing.assert_array_equal(of_x, [0, 1, 1, 0, 0])


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_fitted_ranges_beat_those_of_extreme_values(grid):
    x = np.random.default_rng(0).laplace(size=(1, 4000)).astype(np.float32)

    def error(found):
        scale, zero = found
        return np.mean((grid.codes(x, scale, zero) * scale - x) ** 2)

    histogram = Histogram()
    add(histogram, x)
    extremes, fitted, counted = grid.range_of(x.min(), x.max()), grid.fitted(x), grid.fitted_to(histogram)
    assert error(fitted) <= error(extremes) * (1 + 1e-6)
    assert error(counted) <= error(fitted) * 1.05
    if grid.bits < 4:
        assert error(fitted) < 0.9 * error(extremes)


def test_data_that_is_never_negative_has_no_zero_point():
    histogram = Histogram()
    add(histogram, np.random.default_rng(0).uniform(0, 2, 1000).astype(np.float32))
    scale, zero = Grid(2, "asymmetric").fitted_to(histogram)
    assert zero == 0
    assert 0.5 < scale < 0.7
    assert not FakeQuantized("d", Grid(2, "asymmetric"), scale, zero, learned=True).shifts


def test_grids_that_there_are_not():
    with pytest.raises(InputError, match="codes have 1 to 8 bits; got 9"):
        Grid(9, "symmetric")
    with pytest.raises(InputError, match="codes are symmetric, asymmetric, bipolar; got 'ternary'"):
        Grid(2, "ternary")
    with pytest.raises(InputError, match="symmetric codes of 1 bit are zero only"):
        Grid(1, "symmetric")
