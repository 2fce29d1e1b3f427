"""Random quantized graphs beside exact arithmetic: the arithmetic against NumPy, and some graphs of fixed seeds."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bench.fuzz.exact import Bounded, difference, known, product, quantized, real
from bench.fuzz.exact_nodes import evaluate
from bench.fuzz.quantized_graphs import RIGHT, TARGETS, draw, run
from tilewright.target import Target


def test_codes_are_exact_where_scales_are_powers_of_two() -> None:
    data = known(np.array([0.25, 0.75, 1.25, -0.25, 900.0], np.float32))
    found = quantized(data, np.float64(0.5), np.float64(3), "uint8")
    assert found.exact and found.value.tolist() == [3, 5, 5, 3, 255]


def test_a_code_beside_a_tie_may_be_either_of_two() -> None:
    near = Bounded(np.array([0.5, 0.7]), np.array([1e-6, 1e-6]), "float32")
    found = quantized(near, np.float64(1.0), np.float64(0), "int8")
    assert found.value.tolist() == [0.5, 1.0] and found.error.tolist() == [0.5, 0.0]
    assert not difference(np.array([1, 1], np.int8), found) and difference(np.array([1, 0], np.int8), found)


def test_bounds_hold_for_sums_in_float32() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 300), (300, 7)))
    found = product(known(a), known(b), np.matmul, 300)
    assert not difference((a @ b), found) and difference((a @ b) * np.float32(1.001), found)
    whole = product(known(np.rint(a * 9)), known(np.rint(b * 9)), np.matmul, 300)
    assert whole.exact and real(whole.value).exact


def test_a_seed_is_one_valid_graph() -> None:
    first, again = draw(5), draw(5)
    assert first.model == again.model
    onnx.checker.check_model(first.model, full_check=True)
    values = evaluate(first.model, first.feeds)
    for name, wanted in first.wanted.items():
        np.testing.assert_array_equal(values[name].value, wanted.value)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.sample(5)
def test_a_graph_is_right(seed: int) -> None:
    runs = [target for target in TARGETS if target == "cpu" or Target(target).is_host]
    target = runs[seed % len(runs)]
    assert run(draw(seed), target, 0 if seed % 5 == 4 else 3) == (RIGHT, "")
