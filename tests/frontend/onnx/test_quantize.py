"""Quantized operators, compiled: integer results are those of exact arithmetic to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright as tw
from tests.frontend.onnx.conftest import build_model
from tests.oracles import product_outputs

RNG = np.random.default_rng(7)


def numbers(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(
    nodes: list[Any], feeds: dict[str, np.ndarray], consts: dict[str, Any], opset: int = 21, slack: int = 0
) -> None:
    """The output "y" of the compiled model is the exact one, or for integers at most `slack` beside it."""
    model = build_model(nodes, feeds, ["y"], opset, {name: np.asarray(value) for name, value in consts.items()})
    ours = tw.compile(model, cache=False).run(feeds)[0]
    for theirs, *_ in product_outputs(model, feeds):
        assert ours.dtype == theirs.dtype
        if theirs.dtype.kind in "iu":
            assert np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max() <= slack
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16])
@pytest.mark.parametrize("axis", [None, 1])
def test_to_integers_and_back(dtype: Any, axis: int | None) -> None:
    x = 3 * floats(4, 3, 5)
    scale = np.float32(0.05) if axis is None else np.float32([0.02, 0.05, 0.1])
    zero = np.asarray(3 if axis is None else [3, 0, 7], dtype)
    attributes = {} if axis is None else {"axis": axis}
    to = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attributes)
    back = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes)
    check([to, back], {"x": x}, {"s": scale, "z": zero})


def test_ties_go_to_the_even_number() -> None:
    x = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 300, -3])
    check(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x}, {"s": np.float32(1), "z": np.uint8(0)}
    )


def test_blocks_of_four_bit_weights() -> None:
    import ml_dtypes

    codes = RNG.integers(-8, 8, (6, 8)).astype(ml_dtypes.int4)
    scales = np.abs(floats(3, 8)) + 0.1
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["real"], axis=0, block_size=2),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    x = floats(4, 6)
    model = build_model(nodes, {"x": x}, ["y"], 21, {"w": codes, "s": scales})
    expected = x @ (codes.astype(np.float32) * np.repeat(scales, 2, axis=0))
    np.testing.assert_allclose(tw.compile(model, cache=False).run({"x": x})[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weights", [np.uint8, np.int8])
def test_integer_products_are_exact(weights: Any) -> None:
    consts = {"b": numbers(8, 5, dtype=weights), "az": np.uint8(120), "bz": weights(3)}
    check([helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])], {"a": numbers(6, 8)}, consts)


def test_an_integer_convolution_is_exact() -> None:
    consts = {"w": numbers(4, 3, 3, 3), "xz": np.uint8(120), "wz": np.uint8(7)}
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
    check([node], {"x": numbers(1, 3, 9, 9)}, consts)


@pytest.mark.parametrize("groups", [1, 4])
def test_quantized_convolution_per_channel(groups: int) -> None:
    scales = np.float32(np.linspace(0.01, 0.05, 8))
    consts = {
        "xs": np.float32(0.1), "xz": np.uint8(128), "w": numbers(8, 8 // groups, 3, 3, dtype=np.int8), "ws": scales,
        "wz": np.zeros(8, np.int8), "ys": np.float32(1.5), "yz": np.uint8(100),
        "b": RNG.integers(-500, 500, 8).astype(np.int32),
    }  # fmt: skip
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1], group=groups)
    check([node], {"x": numbers(1, 8, 7, 7)}, consts, slack=1)


def test_a_quantized_product_is_exact_within_a_unit() -> None:
    consts = {
        "as": np.float32(0.1), "az": np.uint8(120), "b": numbers(8, 5), "bs": np.float32(0.02), "bz": np.uint8(99),
        "ys": np.float32(0.8), "yz": np.uint8(110),
    }  # fmt: skip
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    check([helper.make_node("QLinearMatMul", names, ["y"])], {"a": numbers(6, 8)}, consts, slack=1)


def test_quantized_by_its_own_range() -> None:
    for data in (3 * floats(4, 6), np.zeros((4, 6), np.float32)):
        check([helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": data}, {})
