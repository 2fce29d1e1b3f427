"""Small ONNX models made on the spot: each compiles within a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Dims]],
    outputs: Mapping[str, tuple[int, Dims]],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of `nodes`; `inputs` and `outputs` map a name to (ONNX element type, dims)."""
    graph = helper.make_graph(
        list(nodes),
        "tiny",
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def perceptron(rows: int | str = 1, seed: int = 0) -> onnx.ModelProto:
    """relu(x w + b): x float32 [rows, 8] to y float32 [rows, 4]."""
    generator = np.random.default_rng(seed)
    weights = {
        "w": generator.standard_normal((8, 4), dtype=np.float32),
        "b": generator.uniform(6, 8, 4).astype(np.float32),  # so that most outputs are above zero
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"], name="project"),
        helper.make_node("Add", ["xw", "b"], ["sum"], name="shift"),
        helper.make_node("Relu", ["sum"], ["y"], name="clip"),
    ]
    return make_model(nodes, {"x": (TensorProto.FLOAT, (rows, 8))}, {"y": (TensorProto.FLOAT, (rows, 4))}, weights)


def convolution() -> onnx.ModelProto:
    """Convolution, activation, global pool: image float32 [1, 3, 12, 12] to features float32 [1, 16, 1, 1]."""
    generator = np.random.default_rng(1)
    weights = {"w": generator.standard_normal((16, 3, 3, 3), dtype=np.float32)}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="first_conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="first_relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["features"], name="pool"),
    ]
    inputs, outputs = {"image": (TensorProto.FLOAT, (1, 3, 12, 12))}, {"features": (TensorProto.FLOAT, (1, 16, 1, 1))}
    return make_model(nodes, inputs, outputs, weights)


def unknown_operator() -> onnx.ModelProto:
    """A model whose second node is an operator that does not exist."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="fine"),
        helper.make_node("Frobnicate", ["r"], ["y"], name="the_odd_one"),
    ]
    return make_model(nodes, {"x": (TensorProto.FLOAT, (2,))}, {"y": (TensorProto.FLOAT, (2,))})


def saved(model: onnx.ModelProto, path: Path) -> Path:
    """`path`, with the model written there."""
    path.write_bytes(model.SerializeToString())
    return path
