"""`tilewright run --dump`: every operator's results as files, on straight models and on those with loops."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.cli.conftest import Command
from tests.onnx_models import convolution, make_model, saved
from tilewright.relay.ir import registry
from tilewright.relay.ir.registry import get

Refused = Callable[..., str]


def steps_of(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "steps.json").read_text())


def looping(path: Path) -> Path:
    """x doubled in a loop of so many rounds, then the positions of what is above 20."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["doubled"], name="double"),
            helper.make_node("Identity", ["on"], ["still"], name="go_on"),
        ],
        "body",
        [value("i", TensorProto.INT64, []), value("on", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, [4])],
        [value("still", TensorProto.BOOL, []), value("doubled", TensorProto.FLOAT, [4])],
    )
    nodes = [
        helper.make_node("Loop", ["rounds", "", "x"], ["looped"], name="rounds", body=body),
        helper.make_node("Greater", ["looped", "bound"], ["above"], name="compare"),
        helper.make_node("NonZero", ["above"], ["y"], name="places"),
    ]
    inputs = {"x": (TensorProto.FLOAT, (4,)), "rounds": (TensorProto.INT64, ())}
    outputs = {"y": (TensorProto.INT64, (1, "n"))}
    return saved(make_model(nodes, inputs, outputs, {"bound": np.float32(20)}), path)


def test_every_value_of_a_straight_model(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((1, 3, 12, 12), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    folder = tmp_path / "values"
    outcome = tilewright(
        "run", image_model, "--dump", folder, "--against", "onnxruntime", "--input", f"image={tmp_path / 'x.npy'}"
    )
    assert outcome.status == 0, outcome.err
    assert f"{folder}: 3 values of 3 operators\n3 of them compared with onnxruntime, 0 differ\n" in outcome.out
    steps = steps_of(folder)
    assert [step["source"] for step in steps] == ["first_conv", "first_relu", "pool"]
    assert all(step["seconds"] > 0 and step["onnxruntime"]["ok"] for step in steps)
    model = convolution()
    model.graph.output.extend([helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "cr"])
    reference = onnxruntime.InferenceSession(model.SerializeToString()).run(["c", "r", "features"], {"image": x})
    for step, wanted in zip(steps, reference, strict=True):
        np.testing.assert_allclose(np.load(folder / step["values"][0]["file"]), wanted, rtol=1e-4, atol=1e-4)
    files = {value["file"] for step in steps for value in step["values"]}
    assert {path.name for path in folder.iterdir()} == files | {"steps.json"}


def test_operators_in_a_loop_come_as_often_as_they_run(tilewright: Command, tmp_path: Path) -> None:
    path = looping(tmp_path / "loop.onnx")
    np.save(tmp_path / "x.npy", np.array([1, 2, 3, 4], np.float32))
    folder = tmp_path / "values"
    np.save(tmp_path / "rounds.npy", np.int64(3))
    inputs = [word for name in ("x", "rounds") for word in ("--input", f"{name}={tmp_path / name}.npy")]
    outcome = tilewright("run", path, "--dump", folder, "--against", "onnxruntime", *inputs)
    assert outcome.status == 0, outcome.err
    doubled = [step for step in steps_of(folder) if step["source"].endswith("double")]
    values = [np.load(folder / step["values"][0]["file"]).tolist() for step in doubled]
    assert values == [[2, 4, 6, 8], [4, 8, 12, 16], [8, 16, 24, 32]]
    (positions,) = [step for step in steps_of(folder) if step["source"] == "places"]
    assert np.load(folder / positions["values"][0]["file"]).tolist() == [[2, 3]] and positions["onnxruntime"]["ok"]


def test_a_fault_is_named(
    tilewright: Command, image_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = get("nn.relu")
    monkeypatch.setitem(registry._OPS, "nn.relu", dataclasses.replace(right, compute=get("exp").compute))
    outcome = tilewright("run", image_model, "--dump", tmp_path / "values", "--against", "onnxruntime", "--no-cache")
    assert outcome.status == 1
    assert "DIFFERS  first_relu (nn.relu, step 1)" in outcome.out


def test_steps_from_python() -> None:
    exe = tw.compile(convolution(), executor="debug")
    x = np.random.default_rng(2).standard_normal((1, 3, 12, 12), dtype=np.float32)
    steps = exe.steps({"image": x})  # type: ignore[attr-defined]
    assert [step.operator for step in steps] == ["nn.conv2d", "nn.relu", "nn.global_avg_pool2d"]
    np.testing.assert_array_equal(steps[-1].values[0], exe(x))
    np.testing.assert_allclose(exe(x), tw.compile(convolution())(x), rtol=1e-5)


def test_a_trace_of_a_model_with_a_loop(tilewright: Command, tmp_path: Path) -> None:
    path = looping(tmp_path / "loop.onnx")
    assert tilewright("profile", path, "--trace", tmp_path / "t.json", "--repeat", 2).status == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert len(kernels) >= 5 and all(event["ph"] == "X" and event["dur"] >= 0 for event in kernels)
    assert any("places" in event["args"]["source"] for event in kernels)


def test_where_nothing_can_be_written(refused: Refused, image_model: Path, artifact: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "there is something there already" in refused("run", image_model, "--dump", tmp_path / "full")
    assert "No such file or directory" in refused("run", image_model, "--dump", tmp_path / "absent" / "values")
    assert "name the ONNX model to run --dump" in refused("run", artifact, "--dump", tmp_path / "values")
    assert "add --dump DIR" in refused("run", image_model, "--against", "onnxruntime")


def test_a_failed_run_leaves_no_folder(
    tilewright: Command, image_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", refuse)
    outcome = tilewright("run", image_model, "--dump", tmp_path / "values")
    assert outcome.status == 2 and outcome.err.endswith("values: No space left on device\n")
    assert [path.name for path in tmp_path.iterdir()] == [image_model.name]
