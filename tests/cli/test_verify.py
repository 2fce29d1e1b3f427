"""`tilewright verify`: the comparison itself, its bound and its exit status."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Command
from tilewright.cli.engines import Engine
from tilewright.cli.verify import compare

NAN, INF = float("nan"), float("inf")


def verdict(ours: list[float], reference: list[float], rtol: float = 1e-4, atol: float = 0.0) -> bool:
    return compare("y", np.array(ours, np.float32), np.array(reference, np.float32), rtol, atol).passed


def test_the_bound_is_relative_to_the_largest_value() -> None:
    assert verdict([100.0, 0.009], [100.0, 0.0])
    assert not verdict([100.0, 0.011], [100.0, 0.0])
    assert verdict([0.0, 1e-3], [0.0, 0.0], atol=1.1e-3)
    assert not verdict([0.0, 1e-3], [0.0, 0.0])


def test_special_values_must_match() -> None:
    assert verdict([NAN, INF, -INF, 1.0], [NAN, INF, -INF, 1.0])
    assert not verdict([NAN], [1.0]) and not verdict([1.0], [NAN])
    assert not verdict([INF], [1.0]) and not verdict([INF], [-INF]) and not verdict([1.0], [INF])


def test_shape_and_emptiness() -> None:
    assert not compare("y", np.zeros((2, 3)), np.zeros((3, 2)), 1.0, 1.0).passed
    assert compare("y", np.zeros((0, 3)), np.zeros((0, 3)), 0.0, 0.0).passed


def test_the_place_of_the_largest_difference() -> None:
    ours = np.zeros((2, 3), np.float32)
    ours[1, 2] = 5.0
    line = compare("y", ours, np.zeros((2, 3), np.float32), 1e-4, 0.0).line()
    assert line.startswith("DIFFERS") and line.endswith("at [1, 2]")


@pytest.mark.parametrize("name", ["model", "image_model"])
def test_a_model_passes(name: str, tilewright: Command, request: pytest.FixtureRequest) -> None:
    outcome = tilewright("verify", request.getfixturevalue(name))
    assert outcome.status == 0 and outcome.err == ""
    assert re.search(r"against onnxruntime [\d.]+, inputs from seed \d+\nok ", outcome.out)


def test_a_difference_fails_with_status_1(tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(path: str, inputs: object, threads: int) -> Engine:
        return Engine("other", "1", lambda: [np.full((1, 4), 3.0, np.float32)])

    monkeypatch.setitem(__import__("tilewright.cli.engines", fromlist=["ENGINES"]).ENGINES, "other", other)
    outcome = tilewright("verify", model, "--against", "other", "--seed", 1)
    assert outcome.status == 1 and "DIFFERS  y" in outcome.out
    assert outcome.err == "the bound is 0.0001 x max|ref| + 0\n"
