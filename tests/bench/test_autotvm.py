"""The benches of the tuner: their figures by definition, and recorded points as spaces of their own."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from random import Random
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest

from tests.autotvm.samples import made
from tests.autotvm.tasks import conv_task
from tests.onnx_models import convolution, saved
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.model.cost_model import AnalyticModel
from tilewright.records.file import RecordFile


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
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    figures, replay, task = bench("cost_model"), bench("replay"), conv_task()
    count = min(24, len(task.points.space.ranked))  # narrow vectors leave few
    samples = made(count)
    one = replay.Replay("C", task, tuple(range(count)), np.array(samples.seconds, np.float64))
    informed, misled = (samples.with_prior(sign * np.log(samples.seconds)) for sign in (-1, 1))

    class Told(AnalyticModel):
        """Trained, so that its ranking is what is followed."""

        trained = True

    first = figures.trials_needed(one, informed, 0, Told(), False).tolist()
    assert first == [1, 1, 1]
    late = figures.trials_needed(one, misled, 0, Told(), False).tolist()
    assert late[0] >= late[1] >= late[2] > 4
    assert all(1 <= trials <= count for trials in figures.trials_needed(one, misled, 0, None, True))


def test_recorded_points_are_a_space_of_their_own(bench: Any) -> None:
    curves, task = bench("curves"), conv_task()
    which = list(range(0, len(task.points), 2))
    part = curves.Part(task.points, which, blind=False)
    assert len(part) == len(which)
    assert all(part.find(part.plain(point)) == point == part.at(part.position(point)) for point in range(len(part)))
    assert part.find(task.points.plain(1)) is None and part.find({"no": 1}) is None
    assert part.best_expected(1) == [0] and curves.Part(task.points, which, blind=True).best_expected(1) == []
    assert 0 <= part.random(Random(0)) < len(part)


def test_a_point_is_looked_up_where_it_is_known_and_measured_once_where_not(bench: Any, tmp_path: Path) -> None:
    curves, replay, task = bench("curves"), bench("replay"), conv_task()

    class Machine:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def measure(self, task: Any, points: list[int]) -> list[Trial]:
            self.asked += points
            return [Trial(point, task.points.plain(point), seconds=2.0 * (point + 1)) for point in points]

    known = replay.Replay("C", task, (0, 1), np.array([1.0, 5.0]))
    with RecordFile(tmp_path / "t.jsonl") as file:
        table = curves.Table(known, file, device := Machine(), float("inf"))
        assert table.look([1]) == [5.0] and not device.asked
        assert table.look([1, 3]) == table.look([1, 3]) == [5.0, 4.0]  # twice as slow a clock as in the file
        assert device.asked == [task.default, 3] and table.default() == 1.0
        late = curves.Table(known, file, Machine(), -1.0)
        with pytest.raises(curves.Late):
            late.look([2])
    assert curves.Table(known, None, None, 0.0).look([0, 1]) == [1.0, 5.0]


def test_curves_are_kept_and_drawn(bench: Any, tmp_path: Path) -> None:
    curves = bench("curves")
    kept = curves.Kept(tmp_path / "c.jsonl")
    for seed in range(2):
        kept.add("C1", "random", seed, np.array([4.0, 2.0, 2.0]))
    again = curves.Kept(tmp_path / "c.jsonl")
    runs = {"random": curves.runs_of(again, "C1", "random", 3)}
    assert runs["random"].shape == (2, 3) and not len(curves.runs_of(again, "C1", "random", 4))
    speeds = curves.speeds_of(runs, (6.0, 3.0, 1.0), [2.0])  # a kernel of 3 that was 2 then, 1 beside it, 6 the peer
    assert speeds["random"][0].tolist() == [6 / 7, 1.5, 1.5]
    assert curves.speeds_of(runs, None, None)["random"][0].tolist() == [0.5, 1.0, 1.0]
    picture = minidom.parseString(curves.svg("speed", {"C1": speeds}))
    assert len(picture.getElementsByTagName("polyline")) == len(picture.getElementsByTagName("polygon")) == 1


def test_the_networks_that_had_least_time_are_tuned_first(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned, turns = bench("tuned_networks"), []

    def turn(name: str, args: Any, seconds: float, before: Any) -> dict[str, Any]:
        turns.append(name)
        figures = {"trials": 1, "default_ms": 2.0, "tuned_ms": 1.0, "speedup": 2.0, "kept": 1, "rolled_back": 0}
        return {"seconds": before.get("seconds", 0.0) + seconds, **figures}

    monkeypatch.setattr(tuned, "one_turn", turn)
    out = ["--only", "a,b", "--minutes", "0.02", "--at-once", "1", "--records", str(tmp_path / "r")]
    for _ in range(2):
        tuned.main([str(tmp_path / "o.json"), *out])
    assert turns == ["a", "b", "a", "b"]
    (tmp_path / "o.json").write_text(json.dumps({"a": {"seconds": 1.0, "finished": True, **turn("", None, 0, {})}}))
    turns.clear()
    tuned.main([str(tmp_path / "o.json"), *out])
    assert turns == ["b", "b"]  # nothing is left to do for the other
    assert "Geometric mean of 2: 2.000" in tuned.markdown(json.loads((tmp_path / "o.json").read_text()))


def test_a_time_that_was_tuned_for_is_not_tuned_for_again(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    budgets, model = bench("budgets"), saved(convolution(), tmp_path / "model.onnx")
    monkeypatch.setattr(budgets, "model_file", lambda name, folder: (model, {}))
    for times in range(2):
        budgets.main(["--smoke", "--records", str(tmp_path / "r")])
        out = capsys.readouterr().out
        assert out.count(" trials in ") == (0 if times else 2) and "times what the longest does" in out
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == ["mlp.2.2.jsonl", "mlp.2.3.jsonl"]


def test_the_control_compares_networks_loaded_from_files(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bench("control").main(["--pairs", "1", "--seconds", "0.01", "--busy", "0", "--gain"])
    printed = capsys.readouterr().out
    assert " of 1 faster; medians of the ratio" in printed and printed.endswith("declared faster\n")
