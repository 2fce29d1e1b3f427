"""Each polynomial math function against float64 references: error in units in the last place, and special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright import tir
from tilewright.tir import expr as e
from tilewright.tir import math as tmath

X = e.Var("x", "float32")
Y = e.Var("y", "float32")
INF, NAN = math.inf, math.nan
POINTS = 400_000


def error_in_ulp(got, exact):
    """|got - exact| in float32 ulps of the exact value; 0 where both are the same infinity or NaN."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        ulp = np.spacing(np.abs(rounded)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / ulp
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0.0, error)


def any_bits(rng, count=POINTS):
    """Floats with random bits: every exponent alike, both signs, NaN, infinities and denormals among them."""
    return rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)


def uniform(rng, low, high, count=POINTS):
    return rng.uniform(low, high, count).astype(np.float32)


def reference_sigmoid(x):
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z, 1.0) / (1.0 + z)


reference_erf = np.vectorize(math.erf, otypes=[np.float64])

UNARY = [
    # function, reference in float64, bound in ulp, ranges of the random points
    (tmath.lower_exp, np.exp, 1, [(-104.5, 89.5), (-1, 1), (-90, -87)]),
    (tmath.lower_expm1, np.expm1, 2, [(-20, 89.5), (-1, 1), (-1e-3, 1e-3)]),
    (tmath.lower_log1p, np.log1p, 2, [(-1, 1), (-1e-3, 1e-3), (0, 1e9)]),
    (tmath.lower_log, np.log, 2, [(0, 4), (0.6, 1.5), (0, 1e-37), (0, 3e38)]),
    (tmath.lower_tanh, np.tanh, 1.5, [(-10, 10), (-1, 1), (-1e-3, 1e-3)]),
    (tmath.lower_sigmoid, reference_sigmoid, 2, [(-105, 105), (-1, 1)]),
    (tmath.lower_erf, reference_erf, 1.5, [(-4.5, 4.5), (-1e-3, 1e-3)]),
    (tmath.lower_sin, np.sin, 2, [(-10, 10), (-1e7, 1e7), (-1e-3, 1e-3)]),
    (tmath.lower_cos, np.cos, 2, [(-10, 10), (-1e7, 1e7)]),
    (tmath.lower_tan, np.tan, 4, [(-10, 10), (-1e7, 1e7)]),
]
IDS = [row[0].__name__[6:] for row in UNARY]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("lower", "reference", "bound", "ranges"), UNARY, ids=IDS)
def test_errors_stay_within_the_bound_in_ulp(evaluate, lower, reference, bound, ranges):
    rng = np.random.default_rng(7)
    points = [uniform(rng, low, high, POINTS // len(ranges)) for low, high in ranges]
    random = any_bits(rng)
    x = np.concatenate([*points, random])
    x = x[: POINTS // 2] if reference is reference_erf else x
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    assert error_in_ulp(evaluate(lower(X), {X: x}), exact).max() <= bound


SPECIAL = {
    tmath.lower_exp: [(-INF, 0.0), (INF, INF), (0.0, 1.0), (-0.0, 1.0), (89.0, INF), (-103.9, 1e-45), (-104.5, 0.0)],
    tmath.lower_expm1: [(-INF, -1.0), (INF, INF), (0.0, 0.0), (-0.0, -0.0), (89.0, INF), (1e-45, 1e-45), (-30.0, -1.0)],
    tmath.lower_log1p: [(-1.0, -INF), (INF, INF), (-INF, NAN), (-1.5, NAN), (0.0, 0.0), (-0.0, -0.0), (1e-45, 1e-45)],
    tmath.lower_log: [(0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (1.0, 0.0), (1e-45, -103.27893)],
    tmath.lower_tanh: [(-INF, -1.0), (INF, 1.0), (0.0, 0.0), (-0.0, -0.0), (20.0, 1.0), (1e-45, 1e-45)],
    tmath.lower_sigmoid: [(-INF, 0.0), (INF, 1.0), (0.0, 0.5), (-0.0, 0.5), (40.0, 1.0), (-103.9, 1e-45)],
    tmath.lower_erf: [(-INF, -1.0), (INF, 1.0), (0.0, 0.0), (-0.0, -0.0), (5.0, 1.0)],
    tmath.lower_sin: [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    tmath.lower_cos: [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    tmath.lower_tan: [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
}


@pytest.mark.parametrize("lower", list(SPECIAL), ids=[f.__name__[6:] for f in SPECIAL])
def test_special_values_and_signs_of_zero_are_exact(evaluate, lower):
    rows = [*SPECIAL[lower], (NAN, NAN)]
    x, expected = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    got = evaluate(lower(X), {X: x})
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def test_short_powers_of_two(evaluate):
    x = np.linspace(-126, 127, 300_001, dtype=np.float32)
    exact = np.exp2(x.astype(np.float64))
    assert np.abs(evaluate(tmath.lower_exp2_approx(X), {X: x}) / exact - 1).max() < 4e-7
    special = np.array([-INF, -126.5, -1e30, 0.0, -1.0, 10.0, NAN], np.float32)
    expected = np.array([0.0, 0.0, 0.0, 1.0, 0.5, 1024.0, NAN], np.float32)
    np.testing.assert_array_equal(evaluate(tmath.lower_exp2_approx(X), {X: special}), expected)


@pytest.mark.parametrize("lower", [tmath.lower_tanh, tmath.lower_sigmoid, tmath.lower_erf])
def test_saturating_functions_stay_in_range(evaluate, lower):
    got = evaluate(lower(X), {X: np.linspace(-20, 20, 1_000_001, dtype=np.float32)})
    assert np.abs(got).max() == 1.0


def test_pow_error_bound(evaluate):
    rng = np.random.default_rng(8)
    x = np.concatenate([uniform(rng, 0, 10), uniform(rng, -10, 10), any_bits(rng), np.exp(uniform(rng, -80, 80))])
    y = np.concatenate([uniform(rng, -30, 30), np.round(uniform(rng, -30, 30)), any_bits(rng), uniform(rng, -2, 2)])
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert error_in_ulp(evaluate(tmath.lower_pow(X, Y), {X: x, Y: y}), exact).max() <= 2


def test_pow_special_values(evaluate):
    numbers = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, INF, -INF, NAN, 1e-45, -1e-45, 3e38]
    x, y = (a.ravel().astype(np.float32) for a in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    got = evaluate(tmath.lower_pow(X, Y), {X: x, Y: y})
    special = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1)
    np.testing.assert_array_equal(got[special], expected[special])
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("exponent", [1, 2, 3, -1, 0.5])
def test_pow_of_a_constant_exponent_is_short(evaluate, exponent):
    x = np.array([0.0, -0.0, 1.5, -1.5, INF, -INF, NAN, 1e-45], np.float32)
    lowered = tmath.lower_pow(X, tir.op.const(exponent, "float32"))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), np.full(x.shape, exponent)).astype(np.float32)
    np.testing.assert_allclose(evaluate(lowered, {X: x}), expected, rtol=3e-7)


@pytest.mark.parametrize("lower", [tmath.lower_sin, tmath.lower_cos, tmath.lower_tan])
def test_angles_close_to_quarter_turns(evaluate, lower):
    """Floats closest to multiples of a quarter turn, found by their remainders: there most digits cancel."""
    rng = np.random.default_rng(3)
    x = any_bits(rng, 3_000_000)
    x = x[np.abs(x) > 2**20]
    with np.errstate(all="ignore"):
        closest = np.concatenate([np.argsort(np.abs(f(x.astype(np.float64))))[:2000] for f in (np.sin, np.cos)])
    x = x[closest]
    reference = {tmath.lower_sin: np.sin, tmath.lower_cos: np.cos, tmath.lower_tan: np.tan}[lower]
    bound = 4 if lower is tmath.lower_tan else 2
    assert error_in_ulp(evaluate(lower(X), {X: x}), reference(x.astype(np.float64))).max() <= bound


def test_vectors_share_one_graph():
    x = e.Var("v", "float32x16")
    assert tmath.lower_exp(x) is tmath.lower_exp(x)
    assert tmath.lower_exp(x).dtype == "float32x16"
    assert tmath.lower_pow(x, x).dtype == "float32x16"
