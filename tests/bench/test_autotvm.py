"""The benches of the tuner: their figures by definition, and recorded points as spaces of their own."""

from __future__ import annotations

import importlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.autotvm.samples import made
from tests.autotvm.tasks import conv_task
from tilewright.autotvm.model.cost_model import AnalyticModel


@pytest.fixture
def bench(bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(bench_folder / "autotvm"))
    return importlib.import_module


def test_a_model_that_knows_the_times_has_full_marks(bench: Any) -> None:
    figures, samples = bench("cost_model"), [made(20), made(30, seed=1)]
    best = figures.tenset(samples, [-one.seconds for one in samples])
    assert best == {"top1": 1.0, "top5": 1.0, "pairs": 1.0}
    worst = figures.tenset(samples, [one.seconds for one in samples])
    assert worst["top1"] < worst["top5"] < 1 and worst["pairs"] == 0.0


def test_trials_needed_are_counted_to_the_first_good_one(bench: Any) -> None:
    figures, samples = bench("cost_model"), made(24)
    informed = samples.with_prior(-np.log(samples.seconds))
    assert figures.trials_needed(informed, AnalyticModel(), 0) == 1
    assert figures.trials_needed(samples.with_prior(np.log(samples.seconds)), AnalyticModel(), 0) > 12


def test_recorded_points_are_a_space_of_their_own(bench: Any) -> None:
    curves, task = bench("curves"), conv_task()
    which = list(range(0, len(task.points), 2))
    part = curves.Part(task.points, which, blind=False)
    assert len(part) == len(which)
    assert all(part.find(part.plain(point)) == point == part.at(part.position(point)) for point in range(len(part)))
    assert part.find(task.points.plain(1)) is None and part.find({"no": 1}) is None
    assert part.best_expected(1) == [0] and curves.Part(task.points, which, blind=True).best_expected(1) == []
    assert 0 <= part.random(Random(0)) < len(part)
