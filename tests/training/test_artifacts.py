"""Training graphs in the form of onnxruntime-training's `generate_artifacts`, beside PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright
from tests.frontend.onnx.conftest import build_model
from tilewright.errors import InputError, ModelError, UserError
from tilewright.training import SGD, Trainer, artifact_step

MS = "com.microsoft"
BATCH, RATE = 4, 0.1
#: The parameters of a convolution, and of a dense layer behind it.
SHAPES = {"conv.weight": (3, 2, 3, 3), "conv.bias": (3,), "fc.weight": (5, 48), "fc.bias": (5,)}


def training_graph(trained: tuple[str, ...] = tuple(SHAPES)) -> onnx.ModelProto:
    """Forward pass, gradients and accumulation of conv, relu, max pooling, dense and cross entropy on 8×8 images."""
    pads, pool = {"pads": [1] * 4, "kernel_shape": [3, 3]}, {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], **pads),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p", "index"], **pool),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["scores"], transB=1),
        helper.make_node("SoftmaxCrossEntropyLossInternal", ["scores", "labels"], ["loss", "log"], domain=MS),
        helper.make_node("SoftmaxCrossEntropyLossInternalGrad", ["one", "log", "labels"], ["ds"], domain=MS),
        helper.make_node("Gemm", ["ds", "fc.weight"], ["df"]),
        helper.make_node("Gemm", ["ds", "f"], ["fc.weight_grad"], transA=1),
        helper.make_node("ReduceSumTraining", ["ds", "rows"], ["fc.bias_grad"], keepdims=0, domain=MS),
        helper.make_node("Shape", ["p"], ["p_shape"]),
        helper.make_node("Reshape", ["df", "p_shape"], ["dp"]),
        helper.make_node("MaxPoolGrad", ["dp", "index"], ["dr"], domain=MS, **pool),
        helper.make_node("ReluGrad", ["dr", "r"], ["dc"], domain=MS),
        helper.make_node(
            "ConvGrad", ["dc", "x", "conv.weight"], ["", "conv.weight_grad", "conv.bias_grad"], domain=MS, **pads
        ),
    ]
    for name in trained:
        given = [f"{name}_grad.accumulation.buffer", f"{name}_grad", "lazy_reset_grad"]
        nodes.append(helper.make_node("InPlaceAccumulatorV2", given, [f"{name}_grad.accumulation.out"], domain=MS))
    feeds: dict[str, Any] = {"x": np.zeros((BATCH, 2, 8, 8), np.float32), "labels": np.zeros(BATCH, np.int64)}
    feeds |= {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    feeds |= {f"{name}_grad.accumulation.buffer": feeds[name] for name in trained}
    feeds["lazy_reset_grad"] = np.ones(1, bool)
    outputs = ["loss", *[f"{name}_grad.accumulation.out" for name in trained]]
    constants = {"one": np.float32(1), "rows": np.int64([0])}
    model = build_model(nodes, feeds, outputs, 17, constants, {MS: 1})
    model.graph.value_info.append(helper.make_tensor_value_info("dr", TensorProto.FLOAT, (BATCH, 3, 8, 8)))
    return model


def values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) / 4 for name, shape in SHAPES.items()}


def batches(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((BATCH, 2, 8, 8)).astype(np.float32), rng.integers(5, size=BATCH)) for _ in range(count)
    ]


def test_steps_are_those_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    onnx.save(training_graph(), tmp_path / "training_model.onnx")
    step = artifact_step(tmp_path / "training_model.onnx", SGD(RATE))
    assert [p.name for p in step.parameters] == list(SHAPES)
    trainer = Trainer(step, tilewright.compile(step.module, cache=False), values())
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in values().items()}
    optimizer = torch.optim.SGD(theirs.values(), lr=RATE)
    for x, labels in batches(5):
        (loss,) = trainer(x=x, labels=labels)
        hidden = torch.conv2d(torch.tensor(x), theirs["conv.weight"], theirs["conv.bias"], padding=1).relu()
        flat = torch.max_pool2d(hidden, 2).flatten(1)
        scores = torch.nn.functional.linear(flat, theirs["fc.weight"], theirs["fc.bias"])
        expected = torch.nn.functional.cross_entropy(scores, torch.tensor(labels))
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        np.testing.assert_allclose(loss, expected.detach().numpy(), rtol=1e-5)
    for name, value in trainer.parameters.items():
        np.testing.assert_allclose(value, theirs[name].detach().numpy(), rtol=1e-4, atol=1e-6)


def test_what_is_not_trained_is_an_input() -> None:
    step = artifact_step(training_graph(("fc.weight", "fc.bias")), SGD(RATE))
    assert [p.name for p in step.parameters] == ["fc.weight", "fc.bias"]
    assert {v.name for v in step.inputs} == {"x", "labels", "conv.weight", "conv.bias"}


def test_refusals() -> None:
    with pytest.raises(InputError, match="no training graph of onnxruntime-training"):
        artifact_step(training_graph(()), SGD(RATE))
    with pytest.raises(InputError, match="the memory limit is a number of bytes"):
        artifact_step(training_graph(), SGD(RATE), memory_limit=0)
    model = training_graph()
    del model.graph.value_info[:]
    with pytest.raises(UserError, match="'dr', whose shape the model does not declare"):
        artifact_step(model, SGD(RATE))
    node = helper.make_node("AdamWOptimizer", ["rate", "step"], ["done"], domain=MS)
    feeds = {"rate": np.float32([1]), "step": np.int64([1])}
    with pytest.raises(UserError, match="AdamWOptimizer"):
        tilewright.compile(build_model([node], feeds, ["done"], 17, None, {MS: 1}))


def test_a_bad_file_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "training_model.onnx"
    with pytest.raises(ModelError, match=r"training_model\.onnx"):
        artifact_step(path, SGD(RATE))
    path.write_bytes(training_graph().SerializeToString()[:-200])
    with pytest.raises(ModelError, match=r"training_model\.onnx"):
        artifact_step(path, SGD(RATE))
