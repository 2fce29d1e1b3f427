"""Convolutions, products, pooling, normalization and resizing against the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw

Check = Callable[..., list[np.ndarray]]
RNG = np.random.default_rng(9)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1], "pads": [1, 0, 2, 1]},
        {"dilations": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID"},
        {"group": 2},
        {"group": 4},
    ],
)
def test_convolutions_agree_over_their_attributes(check_node: Check, attributes: dict[str, Any]) -> None:
    groups = attributes.get("group", 1)
    check_node("Conv", [floats(2, 4, 7, 8)], [floats(8, 4 // groups, 3, 3), floats(8)], **attributes)


def test_conv_over_one_and_three_axes(check_node: Check) -> None:
    check_node("Conv", [floats(1, 4, 9)], [floats(6, 2, 3), floats(6)], group=2, strides=[2], pads=[1, 0])
    check_node(
        "Conv", [floats(1, 4, 5, 6, 7)], [floats(6, 2, 3, 2, 3), floats(6)],
        group=2, strides=[2, 1, 1], pads=[1, 0, 1, 1, 0, 1], dilations=[1, 2, 1],
    )  # fmt: skip


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"strides": [3, 2], "output_padding": [1, 1]},
        {"strides": [2, 2], "output_shape": [10, 12]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"dilations": [2, 2]},
        {"group": 2},
    ],
)
def test_transposed_convolutions_agree(check_node: Check, attributes: dict[str, Any]) -> None:
    check_node("ConvTranspose", [floats(1, 4, 5, 6)], [floats(4, 3, 3, 3)], **attributes)


def test_conv_transpose_over_one_axis(check_node: Check) -> None:
    check_node("ConvTranspose", [floats(2, 3, 6)], [floats(3, 4, 3), floats(4)], strides=[2], pads=[1, 1])


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("bias", [None, (5,), (1, 5), (3, 1), ()])
def test_gemm_agrees_transposed_and_with_bias(
    check_node: Check, transposed: tuple[int, int], bias: tuple[int, ...] | None
) -> None:
    left = floats(4, 3) if transposed[0] else floats(3, 4)
    right = floats(5, 4) if transposed[1] else floats(4, 5)
    consts = [right] if bias is None else [right, floats(*bias)]
    check_node("Gemm", [left], consts, transA=transposed[0], transB=transposed[1], alpha=0.5, beta=2.0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((6, 1, 3, 4), (2, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((4,), (4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (4,)),
    ],
)
def test_matmul_agrees_with_constant_weights_and_without(
    check_node: Check, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    check_node("MatMul", [floats(*left), floats(*right)])
    check_node("MatMul", [floats(*left)], [floats(*right)])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("ij->ji", [(2, 3)]),
        ("ij->i", [(2, 3)]),
        ("i,j,k->kij", [(2,), (3,), (4,)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("bii->bi", [(2, 3, 3)]),
        ("ii->", [(4, 4)]),
    ],
)
def test_einsum_agrees_with_numpy(check_node: Check, equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [floats(*shape) for shape in shapes]
    check_node("Einsum", operands, equation=equation, expected=[np.einsum(equation, *operands)])


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
]


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("extents", [(7, 8), (6, 6)])
def test_pooling_agrees_over_its_attributes(
    check_node: Check, attributes: dict[str, Any], extents: tuple[int, int]
) -> None:
    x = floats(2, 3, *extents)
    check_node("MaxPool", [x], **attributes)
    check_node("AveragePool", [x], **attributes)
    if "ceil_mode" not in attributes:
        check_node("AveragePool", [x], count_include_pad=1, **attributes)


def test_counted_padding_excludes_what_ceil_mode_adds(check_node: Check) -> None:
    x = np.ones((1, 1, 4, 4), np.float32)
    out = check_node(
        "AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 0, 0], ceil_mode=1, count_include_pad=1,
        opset=19, expected=[np.ones((1, 1, 2, 2), np.float32)],
    )  # fmt: skip
    assert out[0].shape == (1, 1, 2, 2)


def test_pool_over_one_and_three_axes(check_node: Check) -> None:
    check_node("MaxPool", [floats(1, 3, 9)], kernel_shape=[3], strides=[2], pads=[1, 1], dilations=[2])
    check_node("MaxPool", [floats(1, 2, 5, 6, 7)], kernel_shape=[2, 3, 2], strides=[2, 1, 2], pads=[1, 1, 0, 0, 1, 1])
    check_node("AveragePool", [floats(1, 2, 5, 6, 7)], kernel_shape=[2, 3, 2], pads=[1, 1, 0, 0, 1, 1])
    check_node("LpPool", [floats(1, 2, 5, 6)], kernel_shape=[2, 3], p=2)
    check_node("LpPool", [floats(1, 2, 5, 6)], kernel_shape=[2, 3], p=3, strides=[2, 2])


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_global_pooling_agrees_over_any_rank(check_node: Check, shape: tuple[int, ...]) -> None:
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        check_node(name, [floats(*shape)])


def test_batch_normalization_agrees_in_both_versions(check_node: Check) -> None:
    consts = [floats(3), floats(3), floats(3), abs(floats(3)) + 0.1]
    check_node("BatchNormalization", [floats(2, 3, 4, 5)], consts, epsilon=1e-3)
    check_node("BatchNormalization", [floats(2, 3)], consts, opset=9)


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_layer_normalization_agrees_along_any_axis(check_node: Check, axis: int) -> None:
    x = floats(2, 3, 4)
    check_node("LayerNormalization", [x], [floats(*x.shape[axis:]), floats(*x.shape[axis:])], axis=axis, outputs=2)
    check_node("LayerNormalization", [x], [floats(*x.shape[axis:])], axis=axis)


def test_other_normalizations_agree(check_node: Check) -> None:
    x = floats(2, 4, 3, 5)
    check_node("InstanceNormalization", [x], [floats(4), floats(4)])
    check_node("GroupNormalization", [x], [floats(2), floats(2)], num_groups=2, opset=18)
    check_node("GroupNormalization", [x], [floats(4), floats(4)], num_groups=2, opset=21)
    check_node("LpNormalization", [x], axis=1, p=1)
    check_node("LpNormalization", [x], axis=2, p=2)
    check_node("LRN", [floats(1, 7, 3, 3)], size=5, alpha=0.01, beta=0.6, bias=1.5)
    check_node("MeanVarianceNormalization", [x], opset=13)
    check_node("RMSNormalization", [x], [floats(5)], opset=23)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("scale", [2.0, 0.6])
def test_resizing_agrees_over_modes_and_scales(check_node: Check, mode: str, coordinates: str, scale: float) -> None:
    scales = np.array([1, 1, scale, scale], np.float32)
    check_node(
        "Resize", [floats(1, 2, 5, 6)], [np.zeros(0, np.float32), scales],
        mode=mode, coordinate_transformation_mode=coordinates, nearest_mode="floor", opset=13,
    )  # fmt: skip


@pytest.mark.parametrize("rounding", ["round_prefer_ceil", "round_prefer_floor"])
@pytest.mark.parametrize(("size", "out"), [(7, 4), (14, 4), (21, 6), (22, 12)])
def test_resize_to_the_middle_of_two_elements(size: int, out: int, rounding: str) -> None:
    """14 / 4 is the middle of 3 and 4; in float32, by way of a scale, it is 3.4999998."""
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], mode="nearest", nearest_mode=rounding,
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    data, sizes = np.arange(size, dtype=np.float32).reshape(1, 1, 1, size), np.array([1, 1, 1, out])
    positions = [Fraction(i * size, out) for i in range(out)]
    half = Fraction(1, 2)
    expected = [math.floor(x + half) if rounding == "round_prefer_ceil" else math.ceil(x - half) for x in positions]
    assert any(x.denominator == 2 for x in positions)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, data.shape)]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(sizes, "s")]
    given = [*inputs, helper.make_tensor_value_info("s", TensorProto.INT64, [4])]
    for graph, arguments in (
        (helper.make_graph([node], "fixed", inputs, result, held), (data,)),
        (helper.make_graph([node], "of_a_run", given, result), (data, sizes)),
    ):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        found = tw.compile(model, cache=False)(*arguments)
        assert np.asarray(found[0] if isinstance(found, list | tuple) else found).ravel().tolist() == expected


def test_resize_fine_print(check_node: Check) -> None:
    x, roi, none = floats(1, 1, 4, 5), np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 1.3], np.float32), None
    sizes = np.array([1, 1, 7, 3])
    check_node("Resize", [x], [none, none, sizes], opset=13, nearest_mode="ceil")
    check_node("Resize", [x], [none, none, sizes], opset=13, mode="cubic", exclude_outside=1)
    check_node("Resize", [x], [none, none, np.array([3, 3])], opset=18, mode="linear", antialias=1, axes=[2, 3])
    scales = np.array(
        [1, 1, 2, 2], np.float32
    )  # an aspect ratio is a matter of sizes; exporters write it beside scales
    check_node("Resize", [x], [none, scales], opset=18, mode="linear", keep_aspect_ratio_policy="stretch")
    check_node(
        "Resize", [x], [roi, none, sizes], opset=13, mode="linear", extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    check_node(
        "Resize", [x], [none, none, np.array([9, 9])], opset=18, axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    )
    check_node("Resize", [floats(2, 5)], [none, np.array([1.5, 2], np.float32)], opset=13, mode="linear")


def test_upsample_agrees_in_all_versions(check_node: Check) -> None:
    x = floats(1, 2, 3, 4)
    check_node("Upsample", [x], opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")
    check_node("Upsample", [x], [np.array([1, 1, 2, 2], np.float32)], opset=9, mode="linear")
    check_node("Resize", [x], [np.array([1, 1, 2, 2], np.float32)], opset=10, mode="nearest")


@pytest.mark.parametrize(
    "name",
    ["ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
     "ReduceLogSum", "ReduceLogSumExp"],
)  # fmt: skip
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_agree_in_both_forms_of_axes(check_node: Check, name: str, keepdims: int) -> None:
    x = abs(floats(2, 3, 4)) + 0.1
    check_node(name, [x], opset=11, axes=[0, -1], keepdims=keepdims)
    check_node(name, [x], opset=11, keepdims=keepdims)
    check_node(name, [x], [np.array([1, 2])], opset=18, keepdims=keepdims)
    check_node(name, [x], opset=18, keepdims=keepdims)


def test_reduce_over_nothing(check_node: Check) -> None:
    check_node("ReduceSum", [floats(2, 3)], opset=13, noop_with_empty_axes=1)


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_position_of_extremum(check_node: Check, name: str) -> None:
    x = RNG.integers(0, 3, (4, 5)).astype(np.float32)
    check_node(name, [x], axis=1, keepdims=0)
    check_node(name, [x], axis=0, keepdims=1, opset=12, select_last_index=1)


def test_dropout_at_inference(check_node: Check) -> None:
    x = floats(3, 4)
    check_node("Dropout", [x], opset=11, ratio=0.5)
    check_node("Dropout", [x], opset=13, outputs=2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_statistics_of_layer_normalization(check_node: Check, dtype: str) -> None:
    x, scale = (RNG.standard_normal(shape).astype(dtype) for shape in ((3, 8), (8,)))
    wide = x.astype(np.float64)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    wanted = [(wide - mean) / np.sqrt(variance + 1e-5) * scale, mean, 1 / np.sqrt(variance + 1e-5)]
    expected = [value.astype("float32" if index else dtype) for index, value in enumerate(wanted)]
    check_node("LayerNormalization", [x, scale], outputs=3, expected=expected, rtol=2e-3, atol=2e-3)


def test_depthwise_convolutions_with_several_kernels_a_channel(make_model: Callable[..., Any]) -> None:
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], group=3, strides=[3, 2])
    x, w = RNG.integers(-9, 9, (2, 3, 4, 8)).astype(np.int8), RNG.integers(-9, 9, (6, 1, 2, 3)).astype(np.int8)
    wanted = np.zeros((2, 6, 1, 3), np.int32)
    for channel, row, column in np.ndindex(6, 1, 3):
        part = x[:, channel // 2, 3 * row : 3 * row + 2, 2 * column : 2 * column + 3].astype(np.int32)
        wanted[:, channel, row, column] = (part * w[channel, 0]).sum((1, 2))
    model = make_model([node], {"x": x, "w": w}, ["y"], 10)
    np.testing.assert_array_equal(tw.compile(model, cache=False, threads=1)(x, w), wanted)


def test_convolutions_whose_result_has_no_elements(make_model: Callable[..., Any]) -> None:
    attributes: dict[str, Any] = {"pads": [1, 0, 1, 1, 1, 1], "strides": [2, 1, 2]}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    x, w = floats(2, 1, 1, 2, 2), floats(1, 1, 2, 2, 3)
    model = make_model([node], {"x": x, "w": w}, ["y"], 16)
    assert tw.compile(model, cache=False, threads=1)(x, w).shape == (2, 1, 0, 2, 3)


def test_padding_wins_no_position_of_unsigned_maxima(check_node: Check) -> None:
    x = RNG.integers(0, 2, (1, 2, 5, 4)).astype(np.uint8)
    check_node("MaxPool", [x], outputs=2, opset=12, kernel_shape=[2, 1], pads=[1, 0, 1, 0], strides=[1, 2])
    check_node("MaxPool", [-x.astype(np.float32)], outputs=2, opset=12, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


@pytest.mark.parametrize(
    ("operator", "shape"), [("Conv", (1, 8, 2, 1)), ("Conv", (2, 2, 3, 3)), ("ConvTranspose", (2, 2, 3, 3))]
)
def test_one_tensor_is_image_and_filters(check_node: Check, operator: str, shape: tuple[int, ...]) -> None:
    node = helper.make_node(operator, ["x", "x"], ["y"])
    data = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", data, result)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = floats(*shape)
    found = tw.compile(model, cache=False)(x)
    (expected,) = check_node(operator, [x], [x.copy()], opset=17)
    np.testing.assert_allclose(found[0] if isinstance(found, list | tuple) else found, expected, rtol=1e-4, atol=1e-5)
