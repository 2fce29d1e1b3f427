"""Models with products of bytes: where other engines saturate, what `verify` says of it, and the exact evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Command
from tests.onnx_models import make_model, saved
from tilewright.frontend.onnx.reference.engines import ENGINES
from tilewright.frontend.onnx.reference.exact import REFERENCES, _exact, open_reference, values_of
from tilewright.frontend.onnx.reference.saturation import saturates, saturating_nodes
from tilewright.frontend.reference import Engine
from tilewright.target import Target

HASWELL = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
ZEN4 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")
SCALE, SCALES = np.float32(0.1), np.float32([0.01, 0.02, 0.03, 0.04])

#: What the reference of the format asks.
SATURATING = "tilewright.frontend.onnx.reference.saturation.saturating_nodes"


def product(left: Any = np.uint8, right: Any = np.int8) -> onnx.ModelProto:
    """A product of two bytes each: x [3, 2] by the largest weights [2, 4]."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(left))
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"], name="times")]
    weights = {"w": np.full((2, 4), np.iinfo(right).max, right)}
    return make_model(nodes, {"x": (kind, (3, 2))}, {"y": (TensorProto.INT32, (3, 4))}, weights)


def dequantized(opset: int = 17) -> onnx.ModelProto:
    """x float32 [3, 2] as bytes by signed bytes [4, 2], transposed."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["real"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["weights"], axis=0),
        helper.make_node("Transpose", ["weights"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["real", "turned"], ["y"], name="times"),
    ]
    codes = np.int8([[-127, 3], [100, 90], [127, 127], [5, -6]])
    weights = {"s": SCALE, "z": np.uint8(120), "w": codes, "ws": SCALES, "wz": np.zeros(4, np.int8)}
    shapes = {name: (TensorProto.FLOAT, (3, columns)) for name, columns in (("x", 2), ("y", 4))}
    return make_model(nodes, {"x": shapes["x"]}, {"y": shapes["y"]}, weights, opset)


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [("haswell", True), ("skylake-avx512", True), ("x86-64-v2", True), ("cascadelake", False), ("alderlake", False)],
)
def test_processors_without_vnni_saturate(cpu: str, expected: bool) -> None:
    assert saturates(Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")) == expected
    assert not saturates(Target("llvm -mtriple=aarch64-linux-gnu"))


@pytest.mark.parametrize(("left", "right"), [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)])
def test_only_unsigned_by_signed_saturates(tmp_path: Path, left: Any, right: Any) -> None:
    found = saturating_nodes(str(saved(product(left, right), tmp_path / "product.onnx")), HASWELL)
    assert found == (["times (MatMulInteger)"] if (left, right) == (np.uint8, np.int8) else [])


def test_what_the_engines_make_products_of_bytes(tmp_path: Path, model: Path) -> None:
    assert saturating_nodes(str(saved(dequantized(), tmp_path / "dequantized.onnx")), HASWELL) == ["times (MatMul)"]
    node = helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain="com.microsoft")
    shapes = {"x": (TensorProto.FLOAT, (3, 2))}, {"y": (TensorProto.FLOAT, (3, 4))}
    dynamic = make_model([node], *shapes, {"w": np.ones((2, 4), np.int8), "s": SCALE})
    assert saturating_nodes(str(saved(dynamic, tmp_path / "dynamic.onnx")), HASWELL) == ["y (DynamicQuantizeMatMul)"]
    assert saturating_nodes(str(model), HASWELL) == []


def test_a_saturated_result_is_explained(tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs_in_16_bits(path: str, inputs: Any, threads: int) -> Engine:
        sums = inputs["x"].astype(int) @ np.full((2, 4), 127)
        return Engine("narrow", "1", lambda: [np.minimum(sums, 32767).astype(np.int32)])

    monkeypatch.setitem(ENGINES, "narrow", pairs_in_16_bits)
    path = saved(product(), tmp_path / "product.onnx")
    np.save(tmp_path / "x.npy", np.full((3, 2), 255, np.uint8))
    arguments = ("verify", path, "--input", f"x={tmp_path / 'x.npy'}", "--against")
    monkeypatch.setattr(
        SATURATING,
        lambda path, against: saturating_nodes(path, HASWELL, against),
    )
    outcome = tilewright(*arguments, "narrow")
    note = "sums of uint8 x int8 products saturate in narrow; nodes that have them: 1, the first times (MatMulInteger)"
    assert outcome.status == 1 and note in outcome.out and "DIFFERS  y" in outcome.out
    assert "narrow itself may be wrong from times (MatMulInteger) on" in outcome.err
    assert outcome.err.endswith(f"tilewright verify {path} --against reference\n")
    outcome = tilewright(*arguments, "reference")
    assert outcome.status == 0 and outcome.err == "" and "note" not in outcome.out
    assert "against ONNX's evaluator" in outcome.out and "ok       y" in outcome.out
    monkeypatch.setattr(
        SATURATING,
        lambda path, against: saturating_nodes(path, ZEN4, against),
    )
    outcome = tilewright(*arguments, "narrow")
    assert outcome.status == 1 and "note" not in outcome.out and "may be wrong" not in outcome.err


def test_bisect_gives_the_same_advice(tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def saturated(model: Any, inputs: Any, names: list[str], against: str) -> dict[str, Any]:
        sums = inputs["x"].astype(int) @ np.full((2, 4), 127)
        return {name: np.minimum(sums, 32767).astype(np.int32) for name in names}

    monkeypatch.setattr("tilewright.frontend.onnx.reference.graph.values_of", saturated)
    monkeypatch.setattr(
        SATURATING,
        lambda path, against: saturating_nodes(path, HASWELL),
    )
    path, minimal = saved(product(), tmp_path / "product.onnx"), tmp_path / "minimal.onnx"
    np.save(tmp_path / "x.npy", np.full((3, 2), 255, np.uint8))
    outcome = tilewright("bisect", path, "--input", f"x={tmp_path / 'x.npy'}", "-o", minimal)
    assert outcome.status == 1 and "first to differ: node 0" in outcome.out
    assert outcome.err.startswith("onnxruntime itself may be wrong from times (MatMulInteger) on")
    assert outcome.err.endswith(f"tilewright verify {minimal} --against reference\n")


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_the_evaluator_knows_quantized_models(tilewright: Command, tmp_path: Path, opset: int) -> None:
    path = saved(dequantized(opset), tmp_path / "dequantized.onnx")
    assert tilewright("verify", path, "--against", "reference", "--rtol", 1e-6).status == 0


def test_what_the_evaluator_lacks_is_named(tilewright: Command, tmp_path: Path) -> None:
    node = helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")
    shape = (TensorProto.FLOAT, (3,))
    path = saved(make_model([node], {"x": shape}, {"y": shape}), tmp_path / "gelu.onnx")
    outcome = tilewright("verify", path, "--against", "reference")
    assert outcome.status == 2 and "reference does not load" in outcome.err and "com.microsoft" in outcome.err


def test_the_precise_mode_is_asked_for_where_stored_products_saturate(
    tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, real = str(saved(product(), tmp_path / "p.onnx")), str(saved(dequantized(), tmp_path / "d.onnx"))
    assert saturating_nodes(stored, HASWELL, "onnxruntime") == saturating_nodes(real, HASWELL, "onnxruntime") == []
    monkeypatch.setattr("tilewright.frontend.onnx.reference.saturation.saturates", lambda target: True)
    for path, wanted in ((stored, "1"), (real, "")):
        settings = _exact(onnxruntime, onnx.load(path))
        assert settings.graph_optimization_level == (
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
            if wanted
            else onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        )
        if wanted:
            assert settings.get_session_config_entry("session.x64quantprecision") == wanted
        outcome = tilewright("verify", path, "--seed", 1)
        assert outcome.status == 0 and "note" not in outcome.out
    free = helper.make_node("MatMulInteger", ["x", "w"], ["y"], name="both")
    inputs = {"x": (TensorProto.UINT8, (3, 2)), "w": (TensorProto.INT8, (2, 4))}
    path = saved(make_model([free], inputs, {"y": (TensorProto.INT32, (3, 4))}), tmp_path / "free.onnx")
    assert saturating_nodes(str(path), HASWELL, "onnxruntime") == ["both (MatMulInteger)"]


def test_verify_and_bisect_have_one_reference(tmp_path: Path, model: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    for name in REFERENCES:
        engine = open_reference(name, str(model), {"x": x}, 1)
        values = values_of(onnx.load(model), {"x": x}, ["xw", "y"], name)
        np.testing.assert_array_equal(engine.run()[0], values["y"])
        assert set(values) == {"xw", "y"}
