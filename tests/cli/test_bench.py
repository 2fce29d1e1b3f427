"""`tilewright bench`: engines interleaved, figures printed and stored."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command
from tilewright.cli.bench import TIMED_CALLS, measure


def test_rounds_are_interleaved_and_each_turn_begins_untimed() -> None:
    calls: list[str] = []
    times = measure({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, seconds=60.0, rounds=7)
    turn = 1 + TIMED_CALLS
    assert calls == ["a", "b", *([*["a"] * turn, *["b"] * turn] * 7)]
    assert [len(t) for t in times.values()] == [7 * TIMED_CALLS] * 2


def test_the_time_is_bounded_but_five_rounds_are_run() -> None:
    times = measure({"a": lambda: None}, seconds=0.0, rounds=1000)
    assert len(times["a"]) == 5 * TIMED_CALLS


def test_figures_beside_onnxruntime(tilewright: Command, model: Path, tmp_path: Path) -> None:
    arguments = ("--compare", "onnxruntime", "--rounds", 5, "--threads", 1, "--json", tmp_path / "times.json")
    outcome = tilewright("bench", model, *arguments)
    assert outcome.status == 0 and outcome.err == ""
    heading, ours, theirs = outcome.out.splitlines()
    assert heading == f"{model}, 1 threads"
    assert ours.startswith("tilewright ") and theirs.startswith("onnxruntime ") and theirs.endswith("x of ours")
    record = json.loads((tmp_path / "times.json").read_text())
    assert record["threads"] == 1 and [t["engine"] for t in record["timings"]] == ["tilewright", "onnxruntime"]
    assert all(0 < t["minimum_ms"] <= t["median_ms"] for t in record["timings"])


def test_an_artifact_alone(tilewright: Command, artifact: Path) -> None:
    outcome = tilewright("bench", artifact, "--rounds", 5)
    assert outcome.status == 0 and len(outcome.out.splitlines()) == 2
