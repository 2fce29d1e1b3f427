"""Quantized graphs as onnxruntime's tools write them: dot products of bytes, within one quantum of exact sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

import tilewright as tw
from tests.frontend.onnx.conftest import build_model
from tests.oracles import product_outputs
from tests.relay.helpers import op_names
from tilewright.driver.optimize import optimize_stages
from tilewright.frontend.formats.import_model import import_model
from tilewright.target import Target

RNG = np.random.default_rng(11)
VNNI = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")


class Graph:
    """Nodes with values in between, quantized and dequantized around each operator."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.consts: dict[str, np.ndarray] = {}

    def const(self, value: Any) -> str:
        name = f"c{len(self.consts)}"
        self.consts[name] = np.asarray(value)
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def quantized(self, value: str, scale: float, zero: int) -> str:
        parameters = (self.const(np.float32(scale)), self.const(np.uint8(zero)))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, *parameters), *parameters)

    def weight(self, *shape: int) -> str:
        scale = RNG.uniform(0.005, 0.02, shape[0]).astype(np.float32)
        zero = np.zeros(shape[0], np.int8)
        values = RNG.integers(-127, 128, shape).astype(np.int8)
        return self.node("DequantizeLinear", self.const(values), self.const(scale), self.const(zero), axis=0)

    def bias(self, units: int, scale: float) -> str:
        values = RNG.integers(-3000, 3000, units).astype(np.int32)
        zero = self.const(np.zeros((), np.int32))
        return self.node("DequantizeLinear", self.const(values), self.const(np.float32(scale)), zero)

    def model(self, feeds: dict[str, np.ndarray], output: str) -> ModelProto:
        return build_model(self.nodes, feeds, [output], 17, self.consts)


def _names(model: ModelProto) -> list[str]:
    """The operators that a processor with AVX-512 VNNI computes."""
    stages = dict(optimize_stages(import_model(model, None), VNNI))
    return op_names(stages["dead_code"])


def _results(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The first output of the compiled model beside that of each oracle."""
    ours = tw.compile(model, cache=False).run(feeds)[0]
    return [(ours, theirs) for theirs, *_ in product_outputs(model, feeds)]


def _residual_block(channels: int, outputs: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A convolution with bias and relu, another, a residual addition, pooling and a classifier."""
    g, window = Graph(), {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    x = g.quantized("x", 0.03, 120)
    first = g.node("Relu", g.node("Conv", x, g.weight(16, channels, 3, 3), g.bias(16, 0.0004), **window))
    first = g.quantized(first, 0.05, 0)
    second = g.quantized(g.node("Conv", first, g.weight(16, 16, 3, 3), **window), 0.1, 131)
    joined = g.quantized(g.node("Add", first, second), 0.12, 90)
    pooled = g.quantized(g.node("MaxPool", joined, kernel_shape=[2, 2], strides=[2, 2]), 0.12, 90)
    mean = g.quantized(g.node("GlobalAveragePool", pooled), 0.05, 60)
    flat = g.node("Flatten", mean)
    result = g.quantized(g.node("Gemm", flat, g.weight(outputs, 16), g.bias(outputs, 0.0005), transB=1), 0.4, 100)
    feeds = {"x": RNG.standard_normal((1, channels, 12, 10)).astype(np.float32)}
    return g.model(feeds, result), feeds


def test_a_convolutional_block() -> None:
    for channels in (3, 16):
        model, feeds = _residual_block(channels, 10)
        names = _names(model)
        assert names.count("nn.contrib_conv2d_int8") == 2 and names.count("nn.contrib_dense_int8") == 1
        assert "nn.conv2d" not in names and "nn.dense" not in names
        for ours, theirs in _results(model, feeds):
            assert len(np.unique(theirs)) > 3
            assert np.abs(np.round((ours - theirs) / 0.4)).max() <= 1


def test_an_attention_of_bytes() -> None:
    g = Graph()
    x = g.quantized("x", 0.03, 128)
    shape, axes = g.const(np.array([1, 20, 2, 16], np.int64)), [0, 2, 1, 3]
    query, key, value = (
        g.quantized(g.node("MatMul", x, g.node("Transpose", g.weight(32, 24), perm=[1, 0])), 0.04, 130)
        for _ in range(3)
    )
    heads = [g.node("Transpose", g.node("Reshape", v, shape), perm=axes) for v in (query, value)]
    keys = g.node("Transpose", g.node("Reshape", key, shape), perm=[0, 2, 3, 1])
    scores = g.quantized(g.node("MatMul", heads[0], keys), 0.6, 128)
    weights = g.quantized(g.node("Softmax", scores, axis=3), 1 / 255, 0)
    result = g.quantized(g.node("MatMul", weights, heads[1]), 0.04, 128)
    feeds = {"x": RNG.standard_normal((1, 20, 24)).astype(np.float32)}
    model = g.model(feeds, result)
    names = _names(model)
    assert names.count("nn.contrib_dense_int8") == 3 and names.count("nn.contrib_batch_matmul_int8") == 2
    for ours, theirs in _results(model, feeds):
        quanta = np.abs(np.round((ours - theirs) / 0.04))
        # A score that falls between two codes moves its row of weights.
        assert len(np.unique(theirs)) > 20 and quanta.max() <= 3 and quanta.mean() <= 0.2


def test_dynamic_quantization_agrees_with_exact_sums() -> None:
    """The nodes that `quantize_dynamic` writes for Conv and MatMul: sums and zero points of both operands are exact."""
    g = Graph()
    nodes = ["q", "scale", "zero"]
    g.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], nodes, name="dynamic"))
    kernel = g.const(RNG.integers(0, 256, (8, 4, 3, 3)).astype(np.uint8))
    sums = g.node("ConvInteger", "q", kernel, "zero", g.const(np.uint8(117)), pads=[1, 1, 1, 1])
    scale = g.node("Mul", "scale", g.const(np.float32(0.01)))
    conv = g.node("Relu", g.node("Mul", g.node("Cast", sums, to=1), scale))
    flat = g.node("Flatten", conv)
    g.nodes.append(helper.make_node("DynamicQuantizeLinear", [flat], ["q2", "scale2", "zero2"], name="dynamic2"))
    weight = g.const(RNG.integers(-128, 128, (8 * 30, 16)).astype(np.int8))
    product = g.node("Cast", g.node("MatMulInteger", "q2", weight, "zero2"), to=1)
    result = g.node("Mul", product, g.node("Mul", "scale2", g.const(np.float32(0.02))))
    feeds = {"x": RNG.standard_normal((1, 4, 6, 5)).astype(np.float32)}
    model = g.model(feeds, result)
    assert {"nn.contrib_conv2d_int8", "nn.contrib_dense_int8"} <= set(_names(model))
    for ours, theirs in _results(model, feeds):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
