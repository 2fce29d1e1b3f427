"""Operators of onnxruntime-training's graphs beside the gradients of PyTorch, which defines none of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx.conftest import build_model, interpret_model

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(5)
MS = "com.microsoft"


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def gradients(function: Any, g: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    """The gradients of the values, where `g` is that of the function of them."""
    leaves = [torch.tensor(value, requires_grad=True) for value in values]
    function(*leaves).backward(torch.tensor(g))
    return [leaf.grad.numpy() for leaf in leaves]


def of_result(function: Any, x: np.ndarray) -> np.ndarray:
    return function(torch.tensor(x)).numpy()


@pytest.mark.parametrize(
    ("name", "function", "reads_result", "attributes"),
    [
        ("ReluGrad", torch.relu, False, {}),
        ("SigmoidGrad", torch.sigmoid, True, {}),
        ("TanhGrad", torch.tanh, True, {}),
        ("GeluGrad", F.gelu, False, {}),
        ("FastGeluGrad", lambda x: F.gelu(x, approximate="tanh"), False, {}),
        ("SoftmaxGrad_13", lambda x: torch.softmax(x, -1), True, {}),
        ("SoftmaxGrad", lambda x: torch.softmax(x.flatten(1), 1).view(x.shape), True, {}),
        ("LogSoftmaxGrad_13", lambda x: torch.log_softmax(x, 1), True, {"axis": 1}),
        ("LogSoftmaxGrad", lambda x: torch.log_softmax(x.flatten(1), 1).view(x.shape), True, {"axis": 1}),
    ],
)
def test_elementwise_and_softmax(check_node, name, function, reads_result, attributes) -> None:
    x, g = floats(3, 4, 5), floats(3, 4, 5)
    read = of_result(function, x) if reads_result else x
    check_node(name, [g, read], expected=gradients(function, g, x), domain=MS, **attributes)


@pytest.mark.parametrize("name", ["BiasGeluGrad_dX", "BiasFastGeluGrad_dX"])
def test_gelu_of_a_sum(check_node, name) -> None:
    x, bias, g = floats(3, 5), floats(5), floats(3, 5)
    kind = "tanh" if "Fast" in name else "none"
    expected = gradients(lambda v: F.gelu(v + torch.tensor(bias), approximate=kind), g, x)
    check_node(name, [g, x, bias], expected=expected, domain=MS)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(check_node, reduction, weighted) -> None:
    x, labels = floats(6, 4), np.int64([0, 3, 2, 1, 2, 0])
    weights = np.abs(floats(4)) if weighted else None
    given = None if weights is None else torch.tensor(weights)

    def loss(v):
        return F.cross_entropy(v, torch.tensor(labels), given, ignore_index=2, reduction=reduction)

    log = of_result(lambda v: torch.log_softmax(v, 1), x)
    consts = [weights, np.int64(2)]
    kind: dict[str, Any] = {"domain": MS, "reduction": reduction}
    wanted = [of_result(loss, x), log]
    check_node("SoftmaxCrossEntropyLossInternal", [x, labels], consts, outputs=2, expected=wanted, **kind)
    expected = gradients(loss, np.float32(0.5), x)
    for name in ("SoftmaxCrossEntropyLossInternalGrad", "SoftmaxCrossEntropyLossGrad"):
        check_node(name, [np.float32(0.5), log, labels], consts, expected=expected, **kind)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(check_node, groups) -> None:
    x, w, b, g = floats(2, 4, 7, 7), floats(6, 4 // groups, 3, 3), floats(6), floats(2, 6, 4, 4)
    expected = gradients(lambda *v: F.conv2d(*v, stride=2, padding=1, groups=groups), g, x, w, b)
    check_node(
        "ConvGrad", [g, x, w], outputs=3, expected=expected, domain=MS, group=groups, strides=[2, 2], pads=[1] * 4
    )


@pytest.mark.parametrize("name", ["MaxPoolGrad", "AveragePoolGrad"])
def test_pooling(name) -> None:
    x, g = floats(2, 3, 6, 6), floats(2, 3, 3, 3)
    kind = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    _, index = F.max_pool2d(torch.tensor(x), 3, 2, 1, return_indices=True)
    planes = np.arange(6).reshape(2, 3, 1, 1) * 36  # ONNX counts over all images, PyTorch within a channel
    if name == "MaxPoolGrad":
        feeds = {"g": g, "index": index.numpy() + planes}
        (expected,) = gradients(lambda v: F.max_pool2d(v, 3, 2, 1), g, x)
    else:
        feeds = {"g": g}
        (expected,) = gradients(lambda v: F.avg_pool2d(v, 3, 2, 1, count_include_pad=False), g, x)
    model = build_model(
        [helper.make_node(name, list(feeds), ["dx"], domain=MS, **kind)], feeds, ["dx"], 17, None, {MS: 1}
    )
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("dx", TensorProto.FLOAT, x.shape))
    np.testing.assert_allclose(interpret_model(model, feeds)[0], expected, rtol=1e-5, atol=1e-6)


def test_layer_normalization(check_node) -> None:
    x, scale, bias, g = floats(3, 4, 8), floats(8), floats(8), floats(3, 4, 8)
    mean = x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + np.float32(1e-5))
    expected = gradients(lambda *v: F.layer_norm(v[0], (8,), v[1], v[2]), g, x, scale, bias)
    check_node("LayerNormalizationGrad", [g, x, scale, mean, inverse], outputs=3, expected=expected, domain=MS)


def test_batch_normalization(check_node) -> None:
    x, scale, bias, g = floats(5, 3, 4, 4), floats(3), floats(3), floats(5, 3, 4, 4)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    inverse = 1 / np.sqrt(variance + np.float32(1e-5))
    old = np.zeros(3, np.float32), np.ones(3, np.float32)

    def norm(*v):
        return F.batch_norm(v[0], None, None, v[1], v[2], training=True)

    result = norm(*map(torch.tensor, (x, scale, bias))).numpy()
    expected = [result, 0.1 * mean, 0.9 + 0.1 * variance, mean, inverse]
    kind: dict[str, Any] = {"domain": MS, "epsilon": 1e-5}
    given = [x, scale, bias, *old]
    check_node("BatchNormInternal", given, outputs=5, expected=expected, training_mode=1, momentum=0.9, **kind)
    expected = gradients(norm, g, x, scale, bias)
    check_node("BatchNormalizationGrad", [g, x, scale, mean, inverse], outputs=3, expected=expected, **kind)


def test_gather(check_node) -> None:
    table, indices, g = floats(6, 4), np.int64([[1, 5], [1, 0]]), floats(2, 2, 4)
    expected = gradients(lambda v: v[torch.tensor(indices)], g, table)
    shape = np.int64([6, 4])
    nodes = [helper.make_node("GatherGrad", ["shape", "i", "g"], ["o"], domain=MS)]
    feeds = {"i": indices, "g": g}
    model = build_model(nodes, feeds, ["o"], 17, {"shape": shape}, {MS: 1})
    np.testing.assert_allclose(interpret_model(model, feeds)[0], expected[0], rtol=1e-6)


def test_dropout(check_node) -> None:
    g, mask = floats(4, 5), RNG.random((4, 5)) < 0.7
    expected = [np.where(mask, g / np.float32(0.75), 0).astype(np.float32)]
    check_node("DropoutGrad", [g, mask], [np.float32(0.25), np.bool_(True)], expected=expected, domain=MS)


@pytest.mark.parametrize("overwrite", [False, True])
def test_accumulation(check_node, overwrite) -> None:
    total, value = floats(3), floats(3)
    expected = [np.ones(1, bool), value if overwrite else total + value]
    given = [total, value, np.array([overwrite])]
    check_node("InPlaceAccumulatorV2", given, outputs=2, expected=expected, domain=MS)
    check_node("InPlaceAccumulator", [total, value], expected=[total + value], domain=MS)


def test_sums(check_node) -> None:
    x = floats(2, 3, 4)
    check_node("ReduceSumTraining", [x], [np.int64([0, 2])], expected=[x.sum((0, 2))], domain=MS, keepdims=0)
    check_node("ReduceSumTraining", [x], [np.int64([])], expected=[x], domain=MS, noop_with_empty_axes=1)
