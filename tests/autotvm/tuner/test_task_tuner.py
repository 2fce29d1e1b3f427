"""Tuning one task: batches, records, stopping, and going on from records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.autotvm.tasks import OddTask, conv_task
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.tuner.explorers import make_explorer
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.records.entry import VERDICT, Entry

QUICK = MeasureOptions(builders=2, blocks=4, block_seconds=1e-5, build_seconds=5.0, run_seconds=3.0)


def test_every_trial_is_recorded_and_the_default_is_the_first() -> None:
    task, entries = conv_task(), list[Entry]()
    with Measurer([task], QUICK) as measurer:
        tuner = TaskTuner(task, measurer, make_explorer("droplet", task.points), entries.append)
        trials = tuner.step(4)
        assert len(trials) == len(entries) == len(tuner.history) >= 4
        assert trials[0].point == task.default and tuner.default_seconds == trials[0].seconds
        assert tuner.best is not None and tuner.seconds <= tuner.default_seconds
    assert [entry.config for entry in entries] == [trial.config for trial in trials]
    assert tuner.history == sorted(tuner.history, reverse=True)


def test_what_records_know_is_not_measured_again() -> None:
    task, entries = conv_task(), list[Entry]()
    with Measurer([task], QUICK) as measurer:
        TaskTuner(task, measurer, make_explorer("grid", task.points), entries.append).step(4)
    with Measurer([task], QUICK) as measurer:
        known = [*entries, replace(entries[0], kind=VERDICT), replace(entries[0], config={"gone": 1})]
        tuner = TaskTuner(task, measurer, make_explorer("grid", task.points), known=known)
        first = tuner.begin()
        measured = {task.points.find(entry.config) for entry in entries}
        assert {trial.point for trial in first} <= measured
        assert not {trial.point for trial in tuner.step(3)} & measured
        assert len(tuner.explorer.trials) >= 4


def test_tuning_ends_when_all_is_tried_or_batches_bring_nothing() -> None:
    task = OddTask()
    with Measurer([task], QUICK) as measurer:
        tuner = TaskTuner(task, measurer, make_explorer("grid", task.points), patience=2)
        assert tuner.finished == ""
        tuner.step(2)
        tuner.idle_steps = 2
        assert tuner.finished == "2 batches without gain"
        tuner.idle_steps = 0
        tuner.explorer.seen |= set(range(len(task.points)))
        tuner.step(2)
        assert tuner.finished == "all configurations tried"


def test_a_task_at_its_roofline_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    task = OddTask()
    with Measurer([task], QUICK) as measurer:
        tuner = TaskTuner(task, measurer, make_explorer("grid", task.points))
        tuner.step(1)
        monkeypatch.setattr(OddTask, "roofline", tuner.seconds)
        assert tuner.share == 1.0 and tuner.finished == "at the roofline"


def test_what_is_faster_than_its_roofline_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    task = OddTask()
    with Measurer([task], QUICK) as measurer:
        tuner = TaskTuner(task, measurer, make_explorer("grid", task.points))
        tuner.step(1)
        monkeypatch.setattr(OddTask, "roofline", 1.5 * tuner.seconds)
        assert tuner.share == 1.0 and not tuner.finished
        assert 0 < tuner.left < 0.1 * tuner.seconds
        monkeypatch.setattr(OddTask, "roofline", 0.5 * tuner.seconds)
        assert tuner.left == pytest.approx(0.5 * tuner.seconds)
