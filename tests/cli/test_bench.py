"""`tilewright bench`: engines interleaved, figures printed and stored."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Command
from tests.onnx_models import make_model, saved
from tilewright.cli.timing import TIMED_CALLS, measure
from tilewright.frontend.onnx.reference.engines import ENGINES
from tilewright.frontend.reference import Engine
from tilewright.runtime.model import Model


def test_rounds_are_interleaved_and_each_turn_begins_untimed() -> None:
    calls: list[str] = []
    times = measure({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, seconds=60.0, rounds=7).times
    turn = 1 + TIMED_CALLS
    assert calls == ["a", "b", *([*["a"] * turn, *["b"] * turn] * 7)]
    assert [len(t) for t in times.values()] == [7 * TIMED_CALLS] * 2


def test_the_time_is_bounded_but_five_rounds_are_run() -> None:
    times = measure({"a": lambda: None}, seconds=0.0, rounds=1000).times
    assert len(times["a"]) == 5 * TIMED_CALLS


def test_figures_beside_onnxruntime(tilewright: Command, model: Path, tmp_path: Path) -> None:
    arguments = ("--compare", "onnxruntime", "--rounds", 5, "--threads", 1, "--json", tmp_path / "times.json")
    outcome = tilewright("bench", model, *arguments)
    assert outcome.status == 0 and outcome.err == ""
    heading, ours, theirs = outcome.out.splitlines()
    assert heading == f"{model}, 1 threads"
    assert ours.startswith("tilewright ") and theirs.startswith("onnxruntime ") and theirs.endswith("x by medians)")
    record = json.loads((tmp_path / "times.json").read_text())
    assert record["threads"] == 1 and [t["engine"] for t in record["timings"]] == ["tilewright", "onnxruntime"]
    assert all(0 < t["minimum_ms"] <= t["median_ms"] <= t["p90_ms"] <= t["p99_ms"] for t in record["timings"])
    assert all(t["calls"] == 5 * TIMED_CALLS and t["per_second"] > 0 for t in record["timings"])


def test_an_artifact_alone(tilewright: Command, artifact: Path) -> None:
    outcome = tilewright("bench", artifact, "--rounds", 5)
    assert outcome.status == 0 and len(outcome.out.splitlines()) == 2


def test_an_engine_that_fails_does_not_end_it(
    tilewright: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(path: str, inputs: object, threads: int) -> Engine:
        raise RuntimeError("no such opset")

    def stops(path: str, inputs: object, threads: int) -> Engine:
        return Engine("stops", "1", lambda: 1 // 0)  # type: ignore[arg-type, return-value]

    monkeypatch.setitem(ENGINES, "refuses", refuses)
    monkeypatch.setitem(ENGINES, "stops", stops)
    record = tmp_path / "times.json"
    outcome = tilewright("bench", model, "--compare", "refuses,onnxruntime,stops", "--rounds", 1, "--json", record)
    assert outcome.status == 0 and [line.split()[0] for line in outcome.out.splitlines()[1:]] == [
        "tilewright",
        "onnxruntime",
    ]
    assert "refuses is left out: refuses does not load" in outcome.err and "no such opset" in outcome.err
    assert "stops is left out: " in outcome.err
    assert set(json.loads(record.read_text())["failures"]) == {"refuses", "stops"}


def test_engines_of_gpus_say_what_they_need(tilewright: Command, model: Path) -> None:
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    outcome = tilewright("bench", model, "--compare", "onnxruntime-gpu", "--rounds", 1)
    assert outcome.status == 0 and len(outcome.out.splitlines()) == 2
    assert "onnxruntime-gpu is left out: onnxruntime-gpu needs an NVIDIA GPU and `pip install" in outcome.err
    outcome = tilewright("bench", model, "--compare", "torch", "--rounds", 1)
    assert outcome.status != 0 and "(torch runs programs of torch.export, .pt2); known: onnxruntime," in outcome.err


def test_each_round_takes_the_next_inputs() -> None:
    seen: list[int] = []
    measure({"a": lambda: None}, 60.0, 6, seen.append)
    assert seen == list(range(6))


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "reference"])
def test_scalars_reach_every_engine(engine: str, tilewright: Command, tmp_path: Path) -> None:
    if engine == "openvino":
        pytest.importorskip("openvino")
    shape = (TensorProto.FLOAT, (4,))
    node = helper.make_node("Mul", ["x", "rate"], ["y"])
    path = saved(make_model([node], {"x": shape, "rate": (TensorProto.FLOAT, ())}, {"y": shape}), tmp_path / "m.onnx")
    outcome = tilewright("bench", path, "--compare", engine, "--input", "rate=3", "--rounds", 1)
    assert outcome.status == 0 and outcome.err == "" and len(outcome.out.splitlines()) == 3
    outcome = tilewright("verify", path, "--against", engine, "--input", "rate=3", "--seed", "0..1")
    assert outcome.status == 0 and outcome.out.count("ok       y") == 2


def test_memory_and_a_report(tilewright: Command, model: Path, tmp_path: Path) -> None:
    arguments = ("--compare", "onnxruntime", "--memory", "--rounds", 1, "--report", tmp_path / "r.html")
    outcome = tilewright("bench", model, *arguments, "--json", tmp_path / "t.json")
    assert outcome.status == 0 and outcome.out.count("MiB") == 2
    memory = json.loads((tmp_path / "t.json").read_text())["memory"]
    assert memory.keys() == {"tilewright", "onnxruntime"} and all(nbytes > 0 for nbytes in memory.values())
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "onnxruntime" in page and "memory, MiB" in page and "src=" not in page and "http" not in page


def test_an_interrupt_prints_what_was_measured(
    tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls = Model.run, list[int]()

    def interrupting(self: Model, *args: object) -> object:
        calls.append(1)
        if len(calls) > 2 + 2 * (1 + TIMED_CALLS):
            raise KeyboardInterrupt
        return run(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Model, "run", interrupting)
    outcome = tilewright("bench", model, "--rounds", 50)
    assert outcome.status == 130 and "interrupted" in outcome.err
    assert f"after {2 * TIMED_CALLS} timed calls" in outcome.err and "minimum" in outcome.out


def test_before_the_first_round_an_interrupt_prints_nothing(
    tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupting(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "run", interrupting)
    outcome = tilewright("bench", model)
    assert outcome.status == 130 and outcome.out == "" and outcome.err.strip() == "interrupted"


def test_a_busy_machine_is_said(tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(0.0, 100.0)
    monkeypatch.setattr("tilewright.support.load._others_seconds", lambda: next(seconds))
    outcome = tilewright("bench", model, "--rounds", 5)
    assert outcome.status == 0 and "note: the machine was busy: other programs took" in outcome.out


def test_symbolic_dimensions_are_kept(tilewright: Command, tmp_path: Path) -> None:
    made = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (TensorProto.FLOAT, ("n", 3))}, {"y": (1, None)})
    saved(made, tmp_path / "open.onnx")
    sizes = ("--input-shapes", "x:[5,3]")
    for verb, more in (("bench", ("--rounds", 5, "--seconds", 0.1, "--specialize", 1)), ("verify", ())):
        outcome = tilewright(verb, tmp_path / "open.onnx", "--open", *sizes, *more)
        assert outcome.status == 0, outcome.err
    assert "fix it" in tilewright("bench", tmp_path / "open.onnx", "--open").err
    assert "add --open" in tilewright("bench", tmp_path / "open.onnx", "--specialize", 1).err
