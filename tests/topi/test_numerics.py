"""The functions of docs/numerics.md, as importers build them: within the bounds of its table, on any processor."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mpmath", reason="needs mpmath for exact results")

from bench import ulp

BOUNDS = ulp.read_table()
#: Most points of one function and type; `python bench/ulp.py` tries all.
MOST = 600


def some_points(name: str, dtype: str) -> list[np.ndarray]:
    """A part of the points, the ends of the types among them; the same at each run."""
    generator = np.random.default_rng(26)
    operands = ulp.points(name, dtype, generator, 1)
    count = operands[0].size
    chosen = np.sort(generator.choice(count, min(MOST, count), replace=False))
    ends = np.flatnonzero(np.any([~np.isfinite(side.astype("f8")) | (side == 0) for side in operands], axis=0))
    taken = np.concatenate([chosen, ends[:40], ends[-40:]])
    return [side[taken] for side in operands]


def test_the_page_bounds_every_function() -> None:
    assert list(BOUNDS) == list(ulp.FUNCTIONS)


@pytest.mark.sample(60)
@pytest.mark.parametrize("dtype", ulp.TYPES)
@pytest.mark.parametrize("name", ulp.FUNCTIONS)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_within_its_bound(name: str, dtype: str) -> None:
    operands = some_points(name, dtype)
    exact = ulp.exact_values(ulp.FUNCTIONS[name], operands)
    found, where = ulp.worst(name, dtype, operands, exact, None)
    # Functions of float64 are those of the C library at hand.
    bound = BOUNDS[name][dtype] * (2 if dtype == "float64" else 1)
    assert found <= bound, where


def test_a_wrong_result_is_seen() -> None:
    """Of what the other tests rely on: an infinity, a NaN, the sign of a zero and a last position count."""
    exact = ulp.exact_values(ulp.FUNCTIONS["exp"], [np.array([1.0, 100.0, np.nan, -np.inf], np.float32)])
    right = np.array([np.e, np.inf, np.nan, 0.0], np.float32)
    assert ulp.errors(right, exact).max() < 0.5
    for at, wrong in enumerate([np.nextafter(right[0], np.float32(3)), np.nan, 1.0, 1e-45]):
        changed = right.copy()
        changed[at] = wrong
        assert ulp.errors(changed, exact)[at] > 0.5
