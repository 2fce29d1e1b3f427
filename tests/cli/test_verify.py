"""`tilewright verify`: the comparison itself, its bound and its exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.cli.conftest import Command
from tests.onnx_models import make_model, perceptron, saved
from tilewright.cli.reference import reference_of
from tilewright.frontend.bounds import EXACT, STEP, Bound, Bounds, bounds_of
from tilewright.frontend.comparison import compare, compare_values
from tilewright.frontend.onnx.reference.engines import ENGINES
from tilewright.frontend.reference import Engine

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


def test_two_zeros_are_no_comparison() -> None:
    zeros = np.zeros((2, 2), np.float32)
    found = compare("y", zeros, zeros, 1e-4, 1e-6)
    assert found.passed and not found.compared and "nothing compared" in found.line()
    for ours, reference, compared in (
        (zeros + 1e-7, zeros, False),  # below the floor in both
        (zeros + 1, zeros, False),
        (zeros, zeros + 2e-6, True),
        (np.full(2, NAN), np.full(2, NAN), False),
        (np.full(2, INF), np.full(2, INF), True),
        (np.zeros((0, 3)), np.zeros((0, 3)), False),
    ):
        assert compare("y", ours, reference, 1e-4, 1e-6).compared == compared
    assert not compare("y", zeros + 1, zeros, 1e-4, 1e-6).passed
    assert not compare("y", zeros, zeros, 0.0, 0.0).compared and compare("y", zeros, zeros + 1, 1.0, 0.0).compared


def test_bounds_by_data_type() -> None:
    usual = Bounds()
    order = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
    bounds = [usual.of(np.dtype(kind)) for kind in order]
    assert bounds == sorted(bounds, key=lambda bound: bound.rtol) and len(set(bounds)) == len(order)
    assert all(bound.rtol > np.finfo(kind).eps for kind, bound in zip(order[:3], bounds))
    assert usual.of(np.dtype(np.int8)) == usual.of(np.dtype(bool)) == Bound(0.0, 0.0)
    assert Bounds("float16").of(np.dtype(np.float32)) == usual.of(np.dtype(np.float16))
    assert Bounds("float16").of(np.dtype(np.float64)) == usual.of(np.dtype(np.float16))
    assert Bounds("float32").of(np.dtype(ml_dtypes.bfloat16)) == usual.of(np.dtype(ml_dtypes.bfloat16))
    assert Bounds("float16").of(np.dtype(np.int64)) == Bound(0.0, 0.0)
    assert Bounds("float16", rtol=0.5, atol=0.0).of(np.dtype(np.int64)) == Bound(0.5, 0.0)


def test_the_coarsest_type_that_a_model_computes_in(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Exp", ["h"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT),
    ]
    shape = (TensorProto.FLOAT, (100,))
    path = saved(make_model(nodes, {"x": shape}, {"y": shape}), tmp_path / "half.onnx")
    assert bounds_of(reference_of(path), None, None).coarsest == "float16"
    assert bounds_of(reference_of(saved(perceptron(), tmp_path / "p.onnx")), None, None).coarsest == "float32"
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    weights = {"s": np.float32(0.1), "z": np.uint8(0)}
    codes = make_model([node], {"x": shape}, {"y": (TensorProto.UINT8, (100,))}, weights)
    bounds = bounds_of(reference_of(saved(codes, tmp_path / "codes.onnx")), None, None)
    assert bounds.of(np.dtype(np.uint8)) == STEP and bounds.of(np.dtype(np.int64)) == EXACT
    assert Bounds("float32").of(np.dtype(np.float32)).rtol < bounds.of(np.dtype(np.float32)).rtol < 0.05


def test_texts_sequences_and_nothing() -> None:
    def passed(ours: object, reference: object) -> bool:
        return all(one.passed for one in compare_values("y", ours, reference, Bounds()))

    one, two = np.float32([1]), np.float32([2])
    assert passed(np.array(["a", "b"], object), np.array(["a", "b"])) and not passed(np.array(["a"]), np.array(["b"]))
    assert passed([one, two], [one, two]) and not passed([one, two], [one, one]) and not passed([one], [one, two])
    assert passed({"a": 1.0}, {"a": 1.0}) and not passed({"a": 1.0}, {"b": 1.0}) and not passed({"a": 1.0}, {"a": 2.0})
    assert passed(None, None) and not passed(None, one) and not passed([one], one)


def test_nothing_compared_is_no_success(tilewright: Command, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    shape = (TensorProto.FLOAT, (3,))
    path = saved(make_model([node], {"x": shape}, {"y": shape}), tmp_path / "relu.onnx")
    outcome = tilewright("verify", path, "--input", "x=-1", "--json", tmp_path / "outcome.json")
    written = json.loads((tmp_path / "outcome.json").read_text())
    assert written["passed"] is False and [one["name"] for one in written["outputs"]] == ["y"]
    assert outcome.status == 1 and "nothing  y: nothing above 1e-06 in both, nothing compared" in outcome.out
    assert "nothing was compared" in outcome.err
    assert tilewright("verify", path, "--input", "x=1").status == 0


def test_the_position_of_the_largest_difference() -> None:
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

    monkeypatch.setitem(ENGINES, "other", other)
    outcome = tilewright("verify", model, "--against", "other", "--seed", 1)
    assert outcome.status == 1 and "DIFFERS  y" in outcome.out
    assert outcome.err == "the bound is 0.0001 x max|ref| + 1e-06\n"


def test_a_budget_in_place_of_bounds(tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("--seed", 1, "--seed", 2, "--max-loss", "1%", "--loss", "relative")
    outcome = tilewright("verify", model, *arguments)
    assert outcome.status == 0 and re.search(r"^ok +relative loss 0\.0\d\d%, budget 1\.000%$", outcome.out, re.M)
    ours, fed = tw.compile(model), list[dict[str, np.ndarray]]()
    engine = Engine(
        "other", "1", lambda: [1.02 * value for value in ours.run(fed[-1])], lambda one: fed.append({**one})
    )
    monkeypatch.setitem(ENGINES, "other", lambda *_: engine)
    arguments = (*arguments, "--against", "other")
    outcome = tilewright("verify", model, *arguments)
    assert outcome.status == 1 and re.search(r"^DIFFERS +relative loss 1\.9\d\d%", outcome.out, re.M)
    assert tilewright("verify", model, "--max-loss", "1%", "--loss", "argmax").status == 0  # the order is the same


def test_the_engine_runs_the_model_that_was_quantized(tilewright: Command, model: Path, tmp_path: Path) -> None:
    scaled = onnx.load(model)
    for weight in scaled.graph.initializer:
        array = onnx.numpy_helper.to_array(weight)
        if array.dtype == np.float32:
            weight.CopyFrom(onnx.numpy_helper.from_array(array * np.float32(1.001), weight.name))
    other = tmp_path / "scaled.onnx"
    onnx.save(scaled, other)
    loss = ("--loss", "relative", "--original", model)
    assert tilewright("verify", other, "--seed", 1, "--max-loss", "2%", *loss).status == 0
    outcome = tilewright("verify", other, "--seed", 1, "--max-loss", "0.001%", *loss)
    assert outcome.status == 1 and f"of {model}" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss", "argmax"], "add --max-loss"),
        (["--max-loss", "1%", "--loss", "other"], "none of relative, argmax"),
        (["--max-loss", "1%", "--original", "x.onnx", "--at", "h"], "leave one out"),
        (["--max-loss", "200%"], "is no share"),
    ],
)
def test_budgets_that_do_not_hold_together(
    tilewright: Command, model: Path, arguments: list[str], message: str
) -> None:
    outcome = tilewright("verify", model, *arguments)
    assert outcome.status == 2 and message in outcome.err
