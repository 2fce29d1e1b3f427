"""Measuring: times, typed failures, acceptance by comparison, and weights that are cold."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.autotvm.tasks import OddTask, conv_task
from tilewright.autotvm.measure.loop import reference_loop
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.stand import Stand, WrongResult
from tilewright.autotvm.measure.timing import is_hopeless, timing_of
from tilewright.autotvm.task.task import WEIGHT, Argument
from tilewright.backend import backend_of
from tilewright.errors import EnvironmentError_

QUICK = MeasureOptions(build_seconds=5.0, run_seconds=3.0, builders=2, blocks=4, block_seconds=1e-5)


def test_the_first_that_works_is_the_incumbent_and_has_its_time() -> None:
    task = conv_task()
    with Measurer([task], QUICK) as measurer:
        first, second = measurer.measure(task, [task.default or 0, 1])
    assert first.accepted and first.seconds is not None and first.seconds > 0 and first.blocks == QUICK.blocks
    ratio = second.ratio if second.accepted else max(1.0, second.ratio)  # not shown to be faster is not recorded so
    assert second.seconds == pytest.approx(first.seconds * ratio)
    assert measurer.incumbents[task].point in (first.point, second.point)


def test_every_failure_has_its_type_and_the_rest_goes_on() -> None:
    task, lines = OddTask(), list[str]()
    with Measurer([task], QUICK, lines.append) as measurer:
        trials = measurer.measure(task, range(len(task.points)))
        measurer.measure(task, [3, 3])
    kinds = {task.BEHAVIOURS[t.config["behaviour"]]: t.failure for t in trials}
    assert kinds == {
        "well": "", "again": "", "wrong": "wrong result", "unbuildable": "build", "crash": "crash", "hang": "timeout",
        "slow build": "timeout", "greedy": "build",
    }  # fmt: skip
    reasons = {t.failure: t.reason for t in trials}
    assert "64 of 64 results differ; at [0]" in reasons["wrong result"]
    assert {t.reason for t in trials if t.failure == "build"} == {"ScheduleError: no such tile", "out of memory"}
    assert "SIGSEGV" in reasons["crash"] or "SIGBUS" in reasons["crash"]
    assert measurer.failures["build", "ScheduleError: no such tile"] == 3
    assert lines == ["odd: build again and again: ScheduleError: no such tile"]


def test_the_failures_are_counted() -> None:
    task = OddTask()
    with Measurer([task], QUICK) as measurer:
        trials = measurer.measure(task, [0, 2, 3])
    assert Counter(t.failure for t in trials if t.failure) == Counter(kind for kind, _ in measurer.failures)


def test_a_task_whose_reference_cannot_be_built_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    task = OddTask()
    monkeypatch.setattr(task, "lower_reference", lambda: task._function("unbuildable"))
    with Measurer([task], QUICK) as measurer, pytest.raises(EnvironmentError_, match="its reference cannot be built"):
        measurer.measure(task, [0])


def stand(task: OddTask, **options: int) -> Stand:
    reference, loop = (
        backend_of(task.target).compiled([func]) for func in (task.lower_reference(), reference_loop(task.target))
    )
    return Stand(task.arguments, reference, loop, 1, MeasureOptions(block_seconds=1e-5, **options))


def test_results_are_compared_with_the_references() -> None:
    task = OddTask()
    position = stand(task)
    position.check(backend_of(task.target).compiled([task.lower({"behaviour": 1})]))
    with pytest.raises(WrongResult, match="64 of 64"):
        position.check(backend_of(task.target).compiled([task.lower({"behaviour": 2})]))


def test_a_comparison_has_as_many_blocks_as_are_asked_for() -> None:
    task = OddTask()
    position, code = stand(task), backend_of(task.target).compiled([task.lower({"behaviour": 1})])
    timing = position.compare(code, code, 5, patient=True)
    assert timing.blocks == 5
    assert timing.candidate > 0 and timing.incumbent > 0 and timing.loop > 0 and 0 <= timing.wins <= 1


def test_of_few_blocks_the_least_counts() -> None:
    """A candidate that is given up is slower than the incumbent, whatever disturbed the latter's other blocks."""
    candidate, incumbent = [1.4e-3, 1.5e-3, 1.4e-3], [1e-3, 9e-3, 9e-3]
    assert is_hopeless(candidate, incumbent)
    assert timing_of(candidate, incumbent, [1e-3] * 3).ratio == pytest.approx(1.4)


def test_cold_weights_take_turns() -> None:
    task = OddTask()
    task.arguments = (Argument((64,), "float32", WEIGHT), task.arguments[1])
    position = stand(task, cold_bytes=1000)
    (copies,) = position.turns.values()
    assert len(copies) == 4
    assert all(np.array_equal(copy, copies[0]) for copy in copies)
    assert len({copy.__array_interface__["data"][0] for copy in copies}) == 4
