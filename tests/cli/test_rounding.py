"""Step functions are named where results that follow them differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.cli.conftest import Command
from tests.onnx_models import make_model, saved
from tilewright.cli.rounding import is_step, rounding_note, steps_before
from tilewright.frontend.reference import Node


def node(operator: str, reads: str, writes: str) -> Node:
    return Node(f"the_{operator}", "", operator, tuple(reads.split()), tuple(writes.split()))


@pytest.mark.parametrize("operator", ["Floor", "aten.floor.default", "ARG_MAX", "tf.FloorDiv", "nn.TopK", "LESS_EQUAL"])
def test_step_functions_of_all_formats(operator: str) -> None:
    assert is_step(operator)


@pytest.mark.parametrize("operator", ["Add", "aten.relu.default", "FULLY_CONNECTED", "BroadcastTo", "Softmax"])
def test_functions_without_steps(operator: str) -> None:
    assert not is_step(operator)


def test_only_what_an_output_depends_on_is_named() -> None:
    nodes = [node("Exp", "x", "a"), node("Floor", "a", "b"), node("Ceil", "x", "c"), node("Add", "b a", "y")]
    assert [one.operator for one in steps_before(nodes, "y")] == ["Floor"]
    assert "(Floor the_Floor)" in rounding_note(nodes, ["y"])
    assert "(Floor the_Floor and 1 others)" in rounding_note(nodes, ["y", "c"])
    assert rounding_note(nodes, ["a"]) == ""


def test_verify_says_how_many_elements_differ_and_where_to_go_on(
    tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (TensorProto.FLOAT, (2, 3))
    nodes = [helper.make_node("Mul", ["x", "x"], ["a"]), helper.make_node("Floor", ["a"], ["y"], name="steps")]
    path = saved(make_model(nodes, {"x": shape}, {"y": shape}), tmp_path / "m.onnx")
    run = tw.runtime.model.Model.run

    def beside_a_step(self: tw.runtime.model.Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        (y,) = run(self, inputs)
        y = np.array(y)
        y[1, 2] += 1.0
        return [y]

    monkeypatch.setattr(tw.runtime.model.Model, "run", beside_a_step)
    outcome = tilewright("verify", path)
    assert outcome.status == 1
    assert "DIFFERS  y: 1 of 6 elements, max|ours - ref| 1" in outcome.out and "largest at [1, 2]" in outcome.out
    assert "rounding: what differs depends on step functions (Floor steps)" in outcome.err
    assert f"tilewright bisect {path} --against onnxruntime" in outcome.err
