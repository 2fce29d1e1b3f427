"""The example: a scheduled matrix product on the machine, with and without virtual threads."""

import importlib.util
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from tests.tir.transform.dae_machine import Machine, at_random, priority

FILE = Path(__file__).resolve().parents[3] / "examples" / "te_latency_hiding.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("te_latency_hiding", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_virtual_threads_raise_utilization(example, capsys):
    figures = example.main()
    assert figures[2][0] < 0.65 * figures[1][0]
    assert figures[2][1]["compute"] > 1.5 * figures[1][1]["compute"]
    assert "2 virtual threads:" in capsys.readouterr().out


@pytest.mark.sample(1)
@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_right_in_every_order(example, threads):
    rng = np.random.default_rng(1)
    a = rng.standard_normal((example.ROWS, example.DEPTH)).astype("float32")
    w = rng.standard_normal((example.DEPTH, example.COLUMNS)).astype("float32")
    func = example.program(threads)
    for order in [*map(priority, permutations((1, 2, 3))), at_random(0), at_random(1)]:
        c = np.full((example.ROWS, example.COLUMNS), np.nan, "float32")
        Machine(func, a, w, c).execute(order)
        np.testing.assert_allclose(c, a @ w, rtol=1e-4, atol=1e-4)
