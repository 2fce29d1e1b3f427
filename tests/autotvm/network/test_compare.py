"""Comparing two networks: intervals hold the median, and equal networks are not told apart on a busy machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.autotvm.tasks import outcome
from tilewright.autotvm.network import compare as comparing
from tilewright.autotvm.network.compare import Comparison, Interval, compare, median_interval
from tilewright.runtime.profile import KernelTime


class Disturbed:
    """A network of so many seconds a run on a machine whose speed drifts, with bursts of other work."""

    def __init__(self, seconds: float, machine: np.random.Generator, drift: list[float]) -> None:
        self.seconds, self.machine, self.drift = seconds, machine, drift

    def time(self, inputs: Mapping[str, Any], repeat: int = 10, warmup: int = 1) -> list[float]:
        self.drift[0] = min(10.0, max(1.0, self.drift[0] * float(self.machine.lognormal(0.0, 0.1))))
        noise = self.machine.pareto(3.0, repeat)
        return list(self.seconds * self.drift[0] * (1 + noise))

    def profile(self, inputs: Mapping[str, Any], repeat: int = 1) -> Sequence[KernelTime]:
        return []


def disturbed(first: float, second: float, seed: int) -> Comparison:
    machine, drift = np.random.default_rng(seed), [1.0]
    a, b, copy = (Disturbed(seconds, machine, drift) for seconds in (first, second, first))
    return compare(a, b, copy, {}, 1.0)


def test_equal_networks_on_a_busy_machine_are_not_told_apart() -> None:
    assert sum(disturbed(1e-3, 1e-3, seed).faster for seed in range(200)) <= 2


def test_a_faster_network_is_told_from_an_equal_one_even_so() -> None:
    assert sum(disturbed(2e-3, 1e-3, seed).faster for seed in range(50)) >= 45
    assert not any(disturbed(1e-3, 2e-3, seed).faster for seed in range(50))


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [12, 24, 100, 400])
def test_an_interval_holds_the_median_in_99_of_100_cases(count: int) -> None:
    generator = np.random.default_rng(0)
    missed = 0
    for _ in range(2000):
        found = median_interval(np.exp(generator.normal(0.0, 0.2, count)))
        missed += not found.low <= 1.0 <= found.high
        assert found.low <= found.median <= found.high
    assert missed <= 2 * 0.01 * 2000


def test_a_ratio_within_that_of_the_control_is_no_gain() -> None:
    ahead, unsure = Interval(1.05, 1.1, 1.2), Interval(0.9, 1.0, 1.06)
    assert not Comparison(1.1, 1.0, ahead, unsure).faster
    assert Comparison(1.1, 1.0, ahead, Interval(0.99, 1.0, 1.01)).faster
    assert not outcome(1.0, 1.0).faster and not outcome(1.0, 1.1).faster


def test_the_busy_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 1000.0])
    monkeypatch.setattr("tilewright.support.load._others_seconds", lambda: next(seconds))
    assert "other programs took" in disturbed(1e-3, 1e-3, 0).load


def test_a_comparison_that_others_slow_down_ends_with_the_fewest_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))  # ten seconds go by from one look at the clock to the next
    monkeypatch.setattr(comparing.time, "monotonic", lambda: float(next(clock)))
    assert len(list(comparing.rounds(1e-6, 3, 1.0))) == comparing.FEWEST
    monkeypatch.setattr(comparing.time, "monotonic", lambda: 0.0)
    assert len(list(comparing.rounds(1e-6, 3, 1.0))) == comparing.ROUNDS


def test_a_network_of_seconds_has_the_fewest_rounds() -> None:
    assert comparing.round_count(3.0, 3, 5.0) == comparing.FEWEST
    assert comparing.round_count(1e-6, 3, 5.0) == comparing.ROUNDS
