"""`tilewright profile`: every kernel under the names of the model's nodes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.mark.parametrize("name", ["model", "image_model", "artifact"])
def test_kernels_are_listed_with_times_and_sources(
    name: str, tilewright: Command, request: pytest.FixtureRequest
) -> None:
    outcome = tilewright("profile", request.getfixturevalue(name), "--repeat", 3)
    assert outcome.status == 0 and outcome.err == ""
    heading, peak, columns, *rows = outcome.out.splitlines()
    assert re.fullmatch(rf"{len(rows)} kernel calls, \d+\.\d+ ms in all, predicted \d+\.\d+ ms, \d+ threads", heading)
    assert re.fullmatch(r"measured multiply-add peak: \d+\.\d GFLOP/s", peak) and columns.endswith("source nodes")
    figures = r" +\d+\.\d+ ms +\d+\.\d+ ms +\d+\.\d % +\d+\.\d +\d+\.\d %  [a-z0-9 ]+ +"
    assert all(re.fullmatch(figures + r"fused_\w+  \(\w[^()]*\)  \S.*", row) for row in rows)
    assert ("project" if name != "image_model" else "first_conv") in outcome.out


def test_only_the_slowest(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("profile", image_model, "--top", 1, "--repeat", 1)
    assert len(outcome.out.splitlines()) == 4


def test_a_trace_for_chrome(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    outcome = tilewright("profile", image_model, "--repeat", 1, "--trace", tmp_path / "trace.json")
    assert outcome.status == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert events and all(event["ph"] == "X" and event["dur"] > 0 and event["args"]["source"] for event in events)
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)


def test_a_trace_that_cannot_be_written(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    outcome = tilewright("profile", image_model, "--trace", tmp_path)
    assert outcome.status == 2 and "is a directory" in outcome.err
