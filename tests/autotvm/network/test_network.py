"""Whole networks: time goes where it pays, records are kept, the verdict keeps what makes the network faster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.autotvm.tasks import conv_module, conv_task, outcome
from tilewright import relay
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.network import tune as tuning
from tilewright.autotvm.network.scheduler import TaskScheduler
from tilewright.autotvm.network.settle import settle
from tilewright.autotvm.network.tune import TuneOptions, Watcher, tune
from tilewright.autotvm.task.extract import network_calls, task_of_kernels
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.errors import ArtifactError, ShapeError, UnsupportedError
from tilewright.records.database import Database
from tilewright.records.entry import VERDICT, Entry
from tilewright.records.file import read_records
from tilewright.tir.expr import SizeVar

QUICK = MeasureOptions(builders=2, blocks=4, block_seconds=1e-5)


class Seen(Watcher):
    """Remembers what it was told; `interrupts` at the first batch."""

    def __init__(self, interrupts: bool = False) -> None:
        self.interrupts, self.steps, self.notes = interrupts, 0, list[str]()

    def step(self, tuner: TaskTuner, trials: Sequence[Trial], seconds_left: float) -> None:
        self.steps += 1
        if self.interrupts:
            raise KeyboardInterrupt

    def note(self, line: str) -> None:
        self.notes.append(line)


@pytest.fixture
def no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tuned network counts as twice as fast, and so does each of its kernels."""
    monkeypatch.setattr("tilewright.autotvm.network.settle._paying", lambda a, b, best, *_: best)
    monkeypatch.setattr("tilewright.autotvm.network.settle.compare", lambda *_: outcome(2e-3, 1e-3))


def test_tuning_measures_records_and_ends_with_a_verdict(tmp_path: Path, no_comparison: None) -> None:
    path, seen = tmp_path / "r.jsonl", Seen()
    result = tune(conv_module(), "cpu", TuneOptions(trials=6, explorer="droplet", measure=QUICK), path, seen)
    entries = read_records(path)
    trials = [entry for entry in entries if entry.kind != VERDICT]
    assert result.trials == len(trials) >= 6 and seen.steps >= 1
    changed = result.tuners[0].best is not None and result.tuners[0].best.point != result.tuners[0].task.default
    assert len(result.verdict.entries) == len(entries) - len(trials) == int(changed)
    model = tw.compile(conv_module(), records=path, cache=False)
    assert model(np.ones((1, 32, 14, 14), np.float32)).shape == (1, 32, 14, 14)


def test_a_second_run_takes_up_the_records_of_the_first(tmp_path: Path, no_comparison: None) -> None:
    path = tmp_path / "r.jsonl"
    options = TuneOptions(trials=5, explorer="grid", measure=QUICK)
    tune(conv_module(), "cpu", options, path)
    first = {entry.config_text for entry in read_records(path)}
    result = tune(conv_module(), "cpu", options, path)
    again = result.tuners[0].explorer.trials
    assert len({trial.point for trial in again}) > len(first)


def test_an_interrupt_ends_the_search_and_not_the_verdict(tmp_path: Path, no_comparison: None) -> None:
    seen = Seen(interrupts=True)
    result = tune(conv_module(), "cpu", TuneOptions(trials=50, explorer="grid", measure=QUICK), watcher=seen)
    assert result.interrupted and "interrupted" in seen.notes[0]
    assert result.verdict.default_seconds > 0


def test_an_interrupt_while_layouts_are_chosen_goes_on_to_the_verdict(
    monkeypatch: pytest.MonkeyPatch, no_comparison: None
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.autotvm.network.session.choose_layouts", interrupted)
    seen = Seen()
    result = tune(conv_module(), "cpu", TuneOptions(400.0, explorer="grid", measure=QUICK), watcher=seen)
    assert result.interrupted and result.trials == 0 and seen.steps == 0
    assert result.verdict.default_seconds > 0 and "comparing" in seen.notes[-1]


def pieces() -> tuple[Any, dict[Any, Entry], dict[str, Any], dict[str, Any]]:
    """A default network, a best entry for its one task, which task its kernels are, and inputs."""
    task = conv_task()
    entry = Entry(task.key, task.processor, task.points.plain(len(task.points) - 1), 1e-6, accepted=True)
    kernels = task_of_kernels(network_calls(conv_module(), task.target), task.target)
    default = tw.compile(conv_module(), cache=False)
    return default, {task.key: entry}, dict(kernels), {"x": np.ones((1, 32, 14, 14), np.float32)}


def build(records: Database) -> Any:
    return tw.compile(conv_module(), records=records, cache=False)


@pytest.mark.parametrize(("times", "kept"), [((2e-3, 1e-3), 1), ((1e-3, 1e-3), 0), ((1e-3, 2e-3), 0)])
def test_a_network_that_is_not_faster_keeps_its_default(
    monkeypatch: pytest.MonkeyPatch, times: tuple[float, float], kept: int
) -> None:
    default, best, kernels, inputs = pieces()
    monkeypatch.setattr("tilewright.autotvm.network.settle._paying", lambda a, b, best, *_: best)
    monkeypatch.setattr("tilewright.autotvm.network.settle.compare", lambda *_: outcome(*times))
    verdict = settle(default, build, best, kernels, inputs, 0.1)
    assert len(verdict.kept) == kept and len(verdict.rolled_back) == 1 - kept
    (entry,) = verdict.entries
    assert (entry.config is None) == (not kept) and entry.kind == VERDICT
    assert verdict.speedup >= 1.0


def test_a_kernel_that_is_slower_in_the_network_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    default, best, kernels, inputs = pieces()
    (key,) = best
    taken = {id(default): 1e-3}
    monkeypatch.setattr(
        "tilewright.autotvm.network.settle._by_task", lambda model, *_: {key: taken.get(id(model), 1.2e-3)}
    )
    verdict = settle(default, build, best, kernels, inputs, 0.1)
    assert verdict.rolled_back == (key,) and not verdict.kept


def test_the_comparison_runs_for_real() -> None:
    default, best, kernels, inputs = pieces()
    verdict = settle(default, build, best, kernels, inputs, 0.05)
    assert verdict.tuned_seconds <= verdict.default_seconds and len(verdict.entries) == 1


def test_every_task_has_its_turn_before_any_has_a_second_one() -> None:
    tasks = [conv_task(), conv_task()]
    with Measurer(tasks, QUICK) as measurer:
        from tilewright.autotvm.tuner.explorers import make_explorer

        tuners = [TaskTuner(task, measurer, make_explorer("grid", task.points)) for task in tasks]
        scheduler = TaskScheduler(tuners, [1, 5], batch=2)
        assert scheduler.step()[0] is tuners[1] and scheduler.step()[0] is tuners[0]
        worth = {id(tuner): scheduler.worth(tuner) for tuner in tuners}
        following, _ = scheduler.step()
        assert worth[id(following)] == max(worth.values())
        assert scheduler.seconds() == pytest.approx(tuners[0].seconds + 5 * tuners[1].seconds)


def test_what_takes_more_of_the_network_may_bring_nothing_for_longer() -> None:
    def tuner(seconds: float) -> Any:
        return SimpleNamespace(
            seconds=seconds, history=[seconds], patience=4, finished="", idle_steps=0, left=seconds, step=lambda _: []
        )

    tuners = [tuner(1e-3), tuner(2e-5), tuner(1e-6)]
    scheduler = TaskScheduler(tuners, [1, 1, 1])
    for one in tuners:
        scheduler._spent[id(one)].bests.append(one.seconds)
        scheduler._spent[id(one)].seconds = 1.0
    scheduler.step()
    assert [one.patience for one in tuners] == [16, 8, 4]  # of 0.98, 0.02 and 0.001


def test_in_one_call_only_a_few_are_measured(no_comparison: None) -> None:
    model = tw.compile(conv_module(), tune_seconds=4.0, cache=False)
    assert model(np.ones((1, 32, 14, 14), np.float32)).shape == (1, 32, 14, 14)


def test_a_model_without_search_spaces_is_refused_or_left_alone() -> None:
    x = relay.var("x", shape=(4, 4))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    with pytest.raises(UnsupportedError, match="no kernel with a search space"):
        tune(mod, options=TuneOptions(sketches=False))
    assert not tuning.tuned_records(mod, tw.Target("cpu"), 1.0).entries


def test_open_sizes_are_refused() -> None:
    rows = SizeVar("n", "int32", 4)
    x = relay.var("x", shape=(1, 32, 14, 14))
    y = relay.var("y", shape=(rows, 4))
    weight = relay.const(np.ones((32, 32, 1, 1), "float32"))
    body = relay.Tuple([relay.nn.conv2d(x, weight), relay.exp(y)])
    with pytest.raises(ShapeError, match="has symbolic dimensions: fix them, as by --input-shapes"):
        tune(relay.IRModule.from_expr(relay.Function([x, y], body)), options=TuneOptions(trials=1, measure=QUICK))


def test_a_file_that_is_none_of_records_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk\n")
    with pytest.raises(ArtifactError, match=r"notes.txt, line 1 is not JSON"):
        tune(conv_module(), records=path)
