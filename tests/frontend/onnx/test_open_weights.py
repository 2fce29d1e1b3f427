"""Operators whose weights, or images, have sizes that only a run can tell: the host computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx.test_open_sizes import built

onnxruntime = pytest.importorskip("onnxruntime", reason="the results are compared with onnxruntime's")

Attributes = dict[str, Any]


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compare(
    operator: str,
    inputs: list[np.ndarray | None],
    outputs: int = 1,
    opset: int = 20,
    domain: str = "",
    **attributes: Any,
) -> None:
    """Ours beside onnxruntime, where every size of every input is open and has a name of its own."""
    names = ["" if value is None else f"x{index}" for index, value in enumerate(inputs)]
    feeds = {name: value for name, value in zip(names, inputs) if value is not None}
    results = [f"y{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(operator, names, results, domain=domain, **attributes)],
        "open",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), [f"{name}_{axis}" for axis in range(value.ndim)]
            )
            for name, value in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in results],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 3)] if domain else [])]
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    for found, expected in zip(built(model).run(feeds), wanted, strict=True):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def layer(kind: str, directions: int = 1, hidden: int = 3, batch: int = 2, width: int = 5) -> list[np.ndarray]:
    """X, W, R and B of a recurrent layer of four steps."""
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind] * hidden
    shapes = ((4, batch, width), (directions, rows, width), (directions, rows, hidden), (directions, 2 * rows))
    return [numbers(seed, *shape) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_recurrent_layer(kind: str, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    outputs, lengths = 3 if kind == "LSTM" else 2, np.array([4, 2], np.int32)
    first = [numbers(7, count, 2, 3)] * (2 if kind == "LSTM" else 1)
    compare(kind, [*layer(kind, count)[:3]], outputs, hidden_size=3, direction=direction)
    compare(kind, [*layer(kind, count), lengths, *first], outputs, hidden_size=3, direction=direction)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LSTM", {"clip": 0.5, "input_forget": 1}),
        ("LSTM", {"activations": ["HardSigmoid", "Softsign", "Relu"], "activation_alpha": [0.3]}),
        ("GRU", {"linear_before_reset": 1}),
        (
            "GRU",
            {"activations": ["HardSigmoid", "Affine"], "activation_alpha": [0.3, 0.9], "activation_beta": [0.4, 0.2]},
        ),
        ("RNN", {"activations": ["ScaledTanh"], "activation_alpha": [0.9], "activation_beta": [0.8]}),
    ],
)
def test_options_of_a_recurrent_layer(kind: str, attributes: Attributes) -> None:
    compare(kind, [*layer(kind)], 3 if kind == "LSTM" else 2, hidden_size=3, **attributes)


def test_a_memory_that_gates_look_at() -> None:
    states = [None, numbers(8, 1, 2, 3), numbers(9, 1, 2, 3), numbers(10, 1, 9)]
    compare("LSTM", [*layer("LSTM"), *states], 3, hidden_size=3)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_samples_of_images_of_any_size(mode: str, padding: str, corners: int) -> None:
    grid = np.random.default_rng(0).uniform(-1.4, 1.4, (2, 4, 6, 2)).astype(np.float32)
    compare("GridSample", [numbers(1, 2, 3, 5, 4), grid], mode=mode, padding_mode=padding, align_corners=corners)


CONVOLUTIONS: list[tuple[str, tuple[int, ...], tuple[int, ...], Attributes]] = [
    ("Conv", (2, 4, 7, 6), (6, 4, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
    ("Conv", (1, 4, 9), (6, 2, 3), {"group": 2, "auto_pad": "SAME_LOWER", "strides": [2]}),
    ("Conv", (1, 2, 4, 5, 3), (3, 2, 2, 2, 1), {}),
    ("ConvTranspose", (2, 4, 5, 3), (4, 3, 3, 2), {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]}),
    ("ConvTranspose", (1, 4, 5), (4, 2, 3), {"group": 2, "strides": [2], "output_shape": [10]}),
    ("ConvTranspose", (1, 2, 3, 4), (2, 1, 2, 2), {"dilations": [2, 1]}),
]


@pytest.mark.parametrize(("operator", "data", "weight", "attributes"), CONVOLUTIONS)
def test_a_convolution_takes_weights_of_symbolic_sizes(
    operator: str, data: tuple[int, ...], weight: tuple[int, ...], attributes: Attributes
) -> None:
    groups = attributes.get("group", 1)
    channels = weight[1] * groups if operator == "ConvTranspose" else weight[0]
    compare(operator, [numbers(1, *data), numbers(2, *weight)], **attributes)
    compare(operator, [numbers(1, *data), numbers(2, *weight), numbers(3, channels)], **attributes)


def test_a_convolution_of_codes() -> None:
    rng = np.random.default_rng(0)
    data, weight = rng.integers(0, 255, (1, 3, 6, 5), np.uint8), rng.integers(-127, 127, (4, 3, 3, 2), np.int8)
    compare("ConvInteger", [data, weight, np.array(3, np.uint8)], pads=[1, 1, 1, 1])
    scales = [np.array(value, np.float32) for value in (0.02, 0.03, 0.4)]
    zeros = [np.array(3, np.uint8), np.array(0, np.int8), np.array(9, np.uint8)]
    bias = np.array([1, -300, 20, 7], np.int32)
    compare("QLinearConv", [data, scales[0], zeros[0], weight, scales[1], zeros[1], scales[2], zeros[2], bias])


def test_a_convolution_whose_taps_are_moved() -> None:
    data, weight = numbers(1, 2, 4, 5, 6), numbers(2, 6, 2, 3, 2)
    offset, mask = numbers(3, 2, 2 * 2 * 6, 5, 5), np.abs(numbers(4, 2, 2 * 6, 5, 5))
    attributes: Attributes = {"group": 2, "offset_group": 2, "pads": [1, 0, 1, 0]}
    try:
        compare("DeformConv", [data, weight, offset, numbers(5, 6), mask], opset=22, **attributes)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        pytest.skip("this onnxruntime has no DeformConv")


@pytest.mark.parametrize("widths", [(3, 2), (5, 2), (2, 4)])
def test_features_side_by_side(widths: tuple[int, int]) -> None:
    compare("FeatureVectorizer", [numbers(0, 4, 3), numbers(1, 4, 2)], domain="ai.onnx.ml", inputdimensions=widths)


def test_features_by_index() -> None:
    compare("ArrayFeatureExtractor", [numbers(0, 4, 3), np.array([[2, 0, 1]])], domain="ai.onnx.ml")


@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_a_scale_of_each_channel(operator: str) -> None:
    data = numbers(0, 2, 3, 4) if operator == "QuantizeLinear" else np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    compare(operator, [data, np.abs(numbers(1, 3)), np.array([1, 9, 3], np.uint8)], axis=1)


def test_a_first_state_of_open_sizes() -> None:
    """Weights of fixed sizes say how many units it has, and the layer is compiled."""
    x, w, r, _ = layer("RNN")
    text = """<ir_version: 8, opset_import: ["" : 20]>
    g (float[4,2,5] x, float[d,n,u] h, float[1,3,5] w, float[1,3,3] r) => (float[?,?,?,?] y) {
        y = RNN <hidden_size=3> (x, w, r, , , h) }"""
    model, feeds = onnx.parser.parse_model(text), {"x": x, "h": numbers(7, 1, 2, 3), "w": w, "r": r}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(built(model).run(feeds)[0], session.run(None, feeds)[0], rtol=1e-4, atol=1e-5)
