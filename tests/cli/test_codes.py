"""`tilewright inspect` of a quantized model: codes of its layers, and the instructions that multiply them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Command
from tests.onnx_models import make_model, saved
from tilewright.cli.codes import product_instructions
from tilewright.target import Target


def quantized_layers(layers: int) -> onnx.ModelProto:
    """Products of codes one after the other, the first of weights with a scale a channel."""
    rng = np.random.default_rng(0)
    constants = {"s": np.float32(0.05), "z": np.uint8(113), "zeros": np.zeros(16, np.int8)}
    constants["scales"] = np.linspace(0.01, 0.02, 16).astype(np.float32)
    nodes = []
    for number in range(layers):
        constants[f"w{number}"] = rng.integers(-127, 128, (16, 16)).astype(np.int8)
        nodes += [
            helper.make_node("QuantizeLinear", [f"y{number}", "s", "z"], [f"q{number}"]),
            helper.make_node("DequantizeLinear", [f"q{number}", "s", "z"], [f"d{number}"]),
            helper.make_node("DequantizeLinear", [f"w{number}", "scales", "zeros"], [f"v{number}"], axis=1),
            helper.make_node("MatMul", [f"d{number}", f"v{number}"], [f"y{number + 1}"], name=f"layer{number}"),
        ]
    nodes.append(helper.make_node("QuantizeLinear", [f"y{layers}", "s", "z"], ["out"]))
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    return make_model(nodes, {"y0": (TensorProto.FLOAT, (8, 16))}, {"out": (TensorProto.UINT8, (8, 16))}, arrays)


def test_the_summary_lists_the_codes_of_layers(tilewright: Command, tmp_path: Path) -> None:
    outcome = tilewright("inspect", saved(quantized_layers(14), tmp_path / "many.onnx"))
    line = "layer0: uint8 (scale 0.05, zero point 113) by int8 (16 scales, 0.01 to 0.02)"
    lines = outcome.out.splitlines()
    first = lines.index(f"codes          {line}")
    assert lines[first + 11].strip().startswith("layer11: ") and lines[first + 12].strip() == "and 2 more"


@pytest.mark.parametrize(("processor", "name"), [("icelake-server", "vpdpbusd"), ("haswell", "vpmaddwd")])
def test_the_choice_of_a_kernel_names_its_instruction(
    tilewright: Command, tmp_path: Path, processor: str, name: str
) -> None:
    path = saved(quantized_layers(1), tmp_path / "one.onnx")
    if Target("cpu").architecture != "x86_64":
        pytest.skip("compares instructions of x86")
    outcome = tilewright("inspect", path, "--kernel", "dense_int8", "--target", f"llvm -mcpu={processor}")
    assert f"  products by {name} (" in outcome.out


def test_lookups_are_products_where_nothing_else_is() -> None:
    assert list(product_instructions("vpshufb %zmm1, %zmm2\nvpdpbusd %zmm1 # vpmaddwd")) == ["products by vpdpbusd (1)"]
    assert list(product_instructions("vpshufb %zmm1\nvpshufb %zmm2")) == ["products by vpshufb (2)"]
    assert list(product_instructions("vaddps %zmm1")) == []
