"""Quantized operators of onnxruntime's domain beside products, and layouts with channels last, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

RNG = np.random.default_rng(3)
MS = "com.microsoft"
SCALE, ZERO = np.float32(0.05), np.uint8(120)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def codes(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def named(value: Any) -> str:
    return value if isinstance(value, str) else ""


POOL = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 0, 1]}
BY_CHANNEL = [codes(4, 3, 3, 3, dtype=np.int8), np.abs(floats(4)) * np.float32(0.02), np.int8([0] * 4)]
INTEGERS: list[tuple[str, list[Any], list[Any], dict[str, Any]]] = [
    ("QLinearAveragePool", [codes(1, 3, 6, 6)], [SCALE, ZERO, SCALE, np.uint8(110)], POOL),
    ("QLinearAveragePool", [codes(1, 6, 6, 3)], [SCALE, ZERO, SCALE, ZERO], {**POOL, "channels_last": 1}),
    ("NhwcMaxPool", [codes(1, 6, 6, 3)], [], POOL),
    ("NhwcMaxPool", [codes(1, 6, 6, 3, dtype=np.int8)], [], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    (
        "QLinearWhere",
        [RNG.random((2, 3)) < 0.5, codes(2, 3)],
        [SCALE, ZERO, codes(3), np.float32(0.1), np.uint8(5), np.float32(0.08), np.uint8(60)],
        {},
    ),
    (
        "QLinearConcat",
        [],
        [np.float32(0.1), np.uint8(3), codes(2, 3), SCALE, ZERO, codes(2, 4), SCALE, ZERO],
        {"axis": 1},
    ),
]


@pytest.mark.parametrize(("name", "inputs", "consts", "attributes"), INTEGERS, ids=named)
def test_integers_agree_with_onnxruntime_within_a_unit(
    check_node: Any, name: str, inputs: list[Any], consts: list[Any], attributes: dict[str, Any]
) -> None:
    """Within one unit: where onnxruntime takes a fixed-point factor, ours rounds the real one."""
    check_node(name, inputs, consts, opset=17, domain=MS, rtol=0, atol=1, **attributes)


@pytest.mark.parametrize(
    ("shape", "attributes"), [((1, 6, 6, 3), {"channels_last": 1}), ((1, 3, 6, 6), {"pads": [1] * 4})]
)
def test_quantized_convolutions_agree_within_a_unit(
    check_node: Any, shape: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    consts = [SCALE, ZERO, *BY_CHANNEL, np.float32(0.2), ZERO]
    check_node("QLinearConv", [codes(*shape)], consts, opset=17, domain=MS, of_bytes=True, rtol=0, atol=1, **attributes)


@pytest.mark.parametrize(("axis", "dtype", "zero"), [(1, np.uint8, 0), (-1, np.int8, -128)])
def test_quantized_softmax_equals_onnxruntime(
    make_model: Any, run_model: Any, run_reference: Any, axis: int, dtype: Any, zero: int
) -> None:
    x = codes(3, 7, dtype=dtype)
    node = helper.make_node("QLinearSoftmax", ["x", "xs", "xz", "ys", "yz"], ["y"], domain=MS, axis=axis, opset=13)
    consts = {"xs": SCALE, "xz": dtype(3), "ys": np.float32(1 / 256), "yz": dtype(zero)}
    model = make_model([node], {"x": x}, ["y"], 15, {key: np.asarray(value) for key, value in consts.items()}, {MS: 1})
    np.testing.assert_array_equal(run_model(model, {"x": x})[0], run_reference(model, {"x": x})[0])


def test_quantized_embeddings_agree_with_onnxruntime(check_node: Any) -> None:
    ids, segments = RNG.integers(0, 9, (2, 4)).astype(np.int32), RNG.integers(0, 2, (2, 4)).astype(np.int32)
    tables = [codes(9, 8), codes(6, 8), codes(2, 8), codes(8), codes(8)]
    mask = np.int32([[1, 1, 1, 0], [1, 1, 1, 1]])
    consts = [*tables, mask, *[SCALE] * 5, *[ZERO] * 5]
    check_node(
        "QEmbedLayerNormalization", [ids, segments], consts, opset=17, domain=MS, outputs=2, epsilon=1e-6, atol=1e-4
    )


PACKED: list[tuple[str, list[Any], list[Any], dict[str, Any]]] = [
    (
        "GatherBlockQuantized",
        [],
        [codes(8, 16), np.array([[1, 5], [2, 7]]), floats(8, 2)],
        {"bits": 4, "block_size": 16, "quantize_axis": 1},
    ),
    (
        "GatherBlockQuantized",
        [],
        [codes(8, 16), np.array([1, 5, 2]), floats(8, 2), codes(8, 1)],
        {"bits": 4, "block_size": 16, "quantize_axis": 1},
    ),
    ("MatMulBnb4", [floats(3, 32)], [codes(80), floats(10)], {"K": 32, "N": 5, "block_size": 16, "quant_type": 1}),
    ("MatMulBnb4", [floats(3, 32)], [codes(80), floats(10)], {"K": 32, "N": 5, "block_size": 16, "quant_type": 0}),
    (
        "MatMulNBits",
        [floats(3, 32)],
        [codes(5, 2, 8), floats(10), None, np.repeat(np.int32([1, 0]), 16)],
        {"K": 32, "N": 5, "bits": 4, "block_size": 16},
    ),
    ("MatMulNBits", [floats(3, 32)], [codes(5, 2, 16), floats(10)], {"K": 32, "N": 5, "bits": 8, "block_size": 16}),
]


@pytest.mark.parametrize(("name", "inputs", "consts", "attributes"), PACKED, ids=named)
def test_packed_tables_agree_with_onnxruntime(
    check_node: Any, name: str, inputs: list[Any], consts: list[Any], attributes: Any
) -> None:
    check_node(name, inputs, consts, opset=17, domain=MS, rtol=1e-4, atol=1e-4, **attributes)
