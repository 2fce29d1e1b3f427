"""Kernels of networks that no template has choices for: tuned through sketches, and compiled as records say."""

from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import numpy as np
import pytest

import tilewright as tw
from tests.autotvm.tasks import conv_module, outcome
from tilewright import relay
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.network.options import TuneOptions
from tilewright.autotvm.network.scheduler import TaskScheduler
from tilewright.autotvm.network.tune import tune
from tilewright.autotvm.sketch.kernel import OWN, SketchKernel, kernel_explorer, sketch_kernels
from tilewright.autotvm.task.extract import network_calls, task_of_kernels, tasks_of
from tilewright.autotvm.tuner.explorers import make_explorer
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.records.database import Database
from tilewright.records.entry import Entry
from tilewright.records.file import read_records
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target

_QUICK = MeasureOptions(blocks=5, block_seconds=1e-4, builders=2)
_TARGET = Target("cpu -cores=2")
_X = np.random.default_rng(0).standard_normal((12, 96), np.float32)


def softmax() -> IRModule:
    """Of rows: two reductions and two passes in one kernel, two stages of one name among them."""
    x = relay.var("x", shape=_X.shape)
    return IRModule.from_expr(relay.Function([x], relay.nn.softmax(x)))


def expected() -> np.ndarray:
    raised = np.exp(_X - _X.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def kernel() -> SketchKernel:
    (found,) = sketch_kernels(network_calls(softmax(), _TARGET), _TARGET)
    return found


def entry_at(task: SketchKernel, point: int) -> Entry:
    return Entry(task.key, task.processor, task.points.plain(point), 1e-6, accepted=True)


def test_a_kernel_without_choices_has_a_sketch_and_its_own_schedule_for_a_default() -> None:
    task = kernel()
    assert task.calls == 1 and task.points.find(OWN) == task.default == task.points.size
    assert task.points.expected(task.default) > task.roofline > 0
    assert task.key in task_of_kernels(network_calls(softmax(), _TARGET), _TARGET).values()
    found = sketch_kernels(network_calls(conv_module(), _TARGET), _TARGET)
    assert not any("conv2d" in str(one.function) for one in found)  # a change of layout may be among them


def test_what_records_say_of_a_sketch_is_compiled() -> None:
    task, generator = kernel(), Random(0)
    for _ in range(4):
        entry = entry_at(task, task.points.random(generator))
        model = tw.compile(softmax(), target=str(_TARGET), records=Database([entry]), cache=False)
        (choice,) = [row.choice for row in model.profile({"x": _X})]
        assert dict(choice)["template"] == "sketch"
        np.testing.assert_allclose(model(_X), expected(), rtol=1e-5)


@pytest.mark.parametrize("values", [{"T.lanes": [1]}, OWN, None])
def test_what_is_no_configuration_of_the_sketch_changes_nothing(values: dict[str, object] | None) -> None:
    task = kernel()
    odd = Entry(task.key, task.processor, values, 1e-6, accepted=True)
    model = tw.compile(softmax(), target=str(_TARGET), records=Database([odd]), cache=False)
    (choice,) = [row.choice for row in model.profile({"x": _X})]
    assert dict(choice)["template"] == "reduce"


def test_a_task_is_the_same_in_another_process() -> None:
    task = kernel()
    again = pickle.loads(pickle.dumps(task))
    point = task.points.random(Random(1))
    assert again.key == task.key and again.points.plain(point) == task.points.plain(point)
    assert again.arguments == task.arguments and again.calls == task.calls


def test_networks_are_tuned_through_sketches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.autotvm.network.settle._paying", lambda a, b, best, *_: best)
    monkeypatch.setattr("tilewright.autotvm.network.settle.compare", lambda *_: outcome(2e-3, 1e-3))
    monkeypatch.setattr("tilewright.autotvm.sketch.search._FIRST", 16)
    path = tmp_path / "r.jsonl"
    result = tune(softmax(), _TARGET, TuneOptions(trials=4, measure=_QUICK), path)
    (tuner,) = result.tuners
    assert result.trials >= 4 and not result.failures and tuner.default_seconds
    assert {entry.task for entry in read_records(path)} == {kernel().key}
    model = tw.compile(softmax(), target=str(_TARGET), records=path, cache=False)
    np.testing.assert_allclose(model(_X), expected(), rtol=1e-5)


def test_a_task_that_takes_long_to_begin_waits_until_it_is_worth_it() -> None:
    calls = network_calls(conv_module(), _TARGET)
    tasks = [kernel(), *tasks_of(calls, _TARGET)]
    with Measurer(tasks, _QUICK) as measurer:
        explorers = [kernel_explorer(tasks[0], Random(0), measurer), make_explorer("grid", tasks[1].points)]
        tuners = [TaskTuner(task, measurer, explorer) for task, explorer in zip(tasks, explorers, strict=True)]
        scheduler = TaskScheduler(tuners, [1, 1], batch=2)
        assert 0 < scheduler.worth(tuners[0]) < scheduler.worth(tuners[1])
        assert scheduler.step()[0] is tuners[1]
