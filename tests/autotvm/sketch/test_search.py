"""The search through sketches: it finds what is right and faster, learns, and takes up what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from tests.autotvm.samples import made
from tests.autotvm.sketch.computations import product, softmax
from tilewright.autotvm.feature.samples import Features, Samples
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.model.cost_model import AnalyticModel
from tilewright.autotvm.sketch.search import SketchExplorer, search
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.autotvm.tuner.features import features_of
from tilewright.errors import TargetError, UnsupportedError
from tilewright.records.entry import Entry

_QUICK = MeasureOptions(blocks=5, block_seconds=1e-4, builders=2)


def test_a_search_gives_a_configuration_that_works() -> None:
    entries: list[Entry] = []
    found = search(SketchTask(softmax()[0], "cpu"), trials=6, options=_QUICK, batch=3, record=entries.append)
    assert found.config is not None and found.seconds < 1 and not found.failures
    assert len(found.trials) == len(entries) == 6
    assert len({trial.point for trial in found.trials}) == 6
    again = search(SketchTask(softmax()[0], "cpu"), trials=3, options=_QUICK, batch=3, known=entries)
    assert again.seconds < 1


def test_a_search_at_random_needs_no_model() -> None:
    found = search(SketchTask(product()[0], "cpu"), trials=4, options=_QUICK, batch=4, learned=False)
    assert found.config is not None and len(found.trials) == 4


def test_evolution_finds_what_the_model_prefers() -> None:
    task = SketchTask(product(64, 64, 64)[0], "cpu")
    points = task.points

    def samples(which: Sequence[int]) -> Samples:
        """A prior that wants one value of one knob, and the others small."""
        wanted = [-sum(points.position(point)) for point in which]
        return made(len(which)).with_prior(np.array(wanted, np.float32))

    explorer = SketchExplorer(points, Random(0), samples, AnalyticModel())
    found = explorer.propose(8)
    generator = Random(0)
    anywhere = [sum(points.position(points.random(generator))) for _ in range(200)]
    assert max(sum(points.position(point)) for point in found) < np.quantile(anywhere, 0.05)
    explorer.learn([Trial(point, {}, 1e-3) for point in found])
    assert not set(explorer.propose(8)) & set(found)


def test_builders_read_the_same_features_as_one_does_here() -> None:
    task = SketchTask(product()[0], "cpu")
    generator = Random(5)
    which = [task.points.random(generator) for _ in range(20)]
    with Measurer([task], _QUICK) as measurer:
        there = features_of(task, measurer, guess=True).of(which)
    here = Features(task, guess=True).of(which)
    np.testing.assert_array_equal(there.rows, here.rows)
    np.testing.assert_array_equal(there.prior, here.prior)
    assert len(set(here.prior.tolist())) > 5


def test_a_target_that_does_not_run_here_is_refused() -> None:
    with pytest.raises(TargetError, match="cannot be run on this machine; search for 'llvm'"):
        search(SketchTask(product()[0], "llvm -mtriple=riscv64-linux-gnu"), trials=1)
    with pytest.raises(UnsupportedError, match="sketches are for processors"):
        SketchTask(product()[0], "cuda")
