"""Convolutions in every layout against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function, Var, const
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.reference.layout import layout_transform


def random_conv(rng, groups_of):
    """A random small case: data, kernel, and the attributes of both Relay's and ONNX's convolution."""
    groups = groups_of(rng)
    c, o = groups * int(rng.integers(1, 3)), groups * int(rng.integers(1, 4))
    kernel, dilation, strides = rng.integers(1, 4, 2), rng.integers(1, 3, 2), rng.integers(1, 4, 2)
    pads = tuple(int(p) for p in rng.integers(0, 3, 4))
    size = [int((k - 1) * d + 1 + rng.integers(0, 5)) for k, d in zip(kernel, dilation)]
    data = rng.standard_normal((int(rng.integers(1, 3)), c, *size)).astype("float32")
    weight = rng.standard_normal((o, c // groups, *kernel)).astype("float32")
    attrs = {"strides": [int(s) for s in strides], "group": groups, "pads": pads}
    return data, weight, {**attrs, "dilations": [int(d) for d in dilation]}


def as_relay(attrs):
    return {
        "strides": attrs["strides"],
        "padding": attrs["pads"],
        "dilation": attrs["dilations"],
        "groups": attrs["group"],
    }


@pytest.mark.parametrize("seed", range(12))
def test_conv2d_agrees_with_onnxruntime(check, onnxruntime_node, seed):
    data, weight, attrs = random_conv(np.random.default_rng(seed), lambda rng: int(rng.integers(1, 4)))
    (expected,) = onnxruntime_node("Conv", [data, weight], **attrs)
    check(op.nn.conv2d(const(data), const(weight), **as_relay(attrs)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_blocked_conv2d_agrees_with_onnxruntime(check, onnxruntime_node, seed):
    data, weight, attrs = random_conv(np.random.default_rng(seed + 100), lambda rng: 1)
    data = np.concatenate([data] * 2, 1)[:, :2]
    weight = np.concatenate([np.concatenate([weight] * 2, 1)[:, :2]] * 4, 0)[:4]
    (expected,) = onnxruntime_node("Conv", [data, weight], **attrs)
    for data_layout, kernel_layout, out_layout in (
        ("NCHW2c", "OIHW2i4o", "NCHW4c"),
        ("NCHW1c", "OIHW1i2o", "NCHW2c"),
        ("NCHW", "OIHW4o", "NCHW4c"),
        ("NHWC", "HWIO", "NHWC"),
        ("NHWC", "OHWI", "NHWC"),
    ):
        call = op.nn.conv2d(
            const(layout_transform(data, "NCHW", data_layout)),
            const(layout_transform(weight, "OIHW", kernel_layout)),
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_layout=out_layout,
            **as_relay(attrs),
        )
        check(call, layout_transform(expected, "NCHW", out_layout), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_depthwise_convolutions_agree_with_onnxruntime(check, onnxruntime_node, seed):
    data, weight, attrs = random_conv(np.random.default_rng(seed + 200), lambda rng: 4)
    data, weight = data[:, :4], weight[:4, :1]
    (expected,) = onnxruntime_node("Conv", [data, weight], **attrs)
    check(op.nn.conv2d(const(data), const(weight), **as_relay(attrs)), expected, rtol=1e-4, atol=1e-4)
    blocked = op.nn.conv2d(
        const(layout_transform(data, "NCHW", "NCHW2c")),
        const(layout_transform(weight, "OIHW", "OIHW1i2o")),
        data_layout="NCHW2c",
        kernel_layout="OIHW1i2o",
        out_layout="NCHW2c",
        **as_relay(attrs),
    )
    check(blocked, layout_transform(expected, "NCHW", "NCHW2c"), rtol=1e-4, atol=1e-4)


def test_depthwise_with_multiplier(check, onnxruntime_node):
    rng = np.random.default_rng(5)
    data, weight = rng.standard_normal((1, 3, 5, 5)), rng.standard_normal((6, 1, 3, 3))
    data, weight = data.astype("float32"), weight.astype("float32")
    (expected,) = onnxruntime_node("Conv", [data, weight], group=3)
    check(op.nn.conv2d(const(data), const(weight), groups=3), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "out_dtype"), [("float64", ""), ("int8", "int32"), ("uint8", "int32"), ("int32", "")]
)
def test_conv2d_sums_in_the_result_type(check, dtype, out_dtype):
    rng = np.random.default_rng(9)
    data, weight = rng.integers(0, 100, (1, 2, 4, 4)).astype(dtype), rng.integers(0, 100, (3, 2, 2, 2)).astype(dtype)
    exact = np.zeros((1, 3, 3, 3))
    for y in range(3):
        for x in range(3):
            window = data[0, :, y : y + 2, x : x + 2].astype(np.float64)
            exact[0, :, y, x] = (window * weight.astype(np.float64)).sum((1, 2, 3))
    check(op.nn.conv2d(const(data), const(weight), out_dtype=out_dtype), exact)


def test_float16_sums_in_float32(check):
    data, weight = np.full((1, 4096, 1, 1), 1.0, "float16"), np.full((1, 4096, 1, 1), 1.0, "float16")
    assert check(op.nn.conv2d(const(data), const(weight))).item() == 4096.0


@pytest.mark.parametrize("seed", range(4))
def test_conv1d_agrees_with_onnxruntime(onnxruntime_node, seed):
    data, weight, attrs = random_conv(np.random.default_rng(seed), lambda rng: int(rng.integers(1, 3)))
    data, weight = np.ascontiguousarray(data[:, :, 0]), np.ascontiguousarray(weight[:, :, 0])
    (_, before, _, after), (_, stride), (_, dilation) = attrs["pads"], attrs["strides"], attrs["dilations"]
    (expected,) = onnxruntime_node(
        "Conv", [data, weight], pads=[before, after], strides=[stride], dilations=[dilation], group=attrs["group"]
    )
    call = op.nn.conv1d(const(data), const(weight), stride, (before, after), dilation, attrs["group"])
    (result,) = interpret(Function([], call), {})
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(16))
def test_transposed_conv2d_agrees_with_onnxruntime(check, onnxruntime_node, seed):
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 3))
    c, o = groups * int(rng.integers(1, 3)), int(rng.integers(1, 3))
    kernel, strides = rng.integers(1, 5, 2).tolist(), rng.integers(1, 4, 2).tolist()
    dilation = rng.integers(1, 3, 2).tolist() if seed % 4 == 0 else [1, 1]
    extra = [int(rng.integers(0, s)) for s in strides]
    pads = [int(rng.integers(0, (k - 1) * d + 1)) for k, d in zip(kernel * 2, dilation * 2)]
    data = rng.standard_normal((1, c, *rng.integers(2, 6, 2))).astype("float32")
    weight = rng.standard_normal((c, o, *kernel)).astype("float32")
    sizes = [
        (data.shape[2 + i] - 1) * strides[i] + (kernel[i] - 1) * dilation[i] + 1 + extra[i] - pads[i] - pads[i + 2]
        for i in range(2)
    ]
    if min(sizes) < 1:
        pytest.skip("the padding leaves nothing of this random case")
    (expected,) = onnxruntime_node(
        "ConvTranspose",
        [data, weight],
        strides=strides,
        pads=pads,
        dilations=dilation,
        group=groups,
        output_padding=extra,
    )
    call = op.nn.conv2d_transpose(const(data), const(weight), strides, pads, dilation, groups, output_padding=extra)
    check(call, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_conv2d_transpose_blocked(check, onnxruntime_node, seed):
    rng = np.random.default_rng(seed)
    kernel, strides = rng.integers(1, 5, 2).tolist(), rng.integers(1, 4, 2).tolist()
    extra, pads = [int(rng.integers(0, s)) for s in strides], [int(rng.integers(0, k)) for k in kernel * 2]
    data = rng.standard_normal((1, 4, *rng.integers(4, 7, 2))).astype("float32")
    weight = rng.standard_normal((4, 6, *kernel)).astype("float32")
    attrs = {"strides": strides, "output_padding": extra}
    (expected,) = onnxruntime_node("ConvTranspose", [data, weight], pads=pads, **attrs)
    call = op.nn.conv2d_transpose(
        const(layout_transform(data, "NCHW", "NCHW2c")),
        const(layout_transform(weight, "IOHW", "OHWI2i3o")),
        padding=pads,
        data_layout="NCHW2c",
        kernel_layout="OHWI2i3o",
        **attrs,
    )
    check(call, layout_transform(expected, "NCHW", "NCHW3c"), rtol=1e-4, atol=1e-4)


def conv(data, kernel, **attrs):
    return op.nn.conv2d(Var("x", TensorType(data)), Var("w", TensorType(kernel)), **attrs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (conv((1, 3, 8, 8), (4, 2, 3, 3)), "takes 2 channels in each of 1 groups, the data has 3"),
        (conv((1, 3, 2, 8), (4, 3, 3, 3)), "the kernel 3x3 is larger than the padded data 2x8"),
        (conv((1, 3, 8, 8), (4, 3, 3, 3), kernel_size=(5, 5)), r"kernel_size \(5, 5\) is not that of the kernel"),
        (conv((1, 3, 8, 8), (4, 3, 3, 3), channels=8), "channels=8, but the kernel makes 4"),
        (conv((1, 4, 8, 8), (5, 2, 3, 3), groups=2), "5 output channels do not divide into 2 groups"),
        (conv((3, 8, 8), (4, 3, 3, 3)), "layout NCHW has 4 dimensions"),
    ],
)
def test_operands_that_do_not_fit_are_refused(call, message):
    with pytest.raises(TypeMismatchError, match=message):
        type_of(call)


def test_groups_of_whole_blocks_are_convolved(check):
    random = np.random.default_rng(3)
    data, weight = (random.random(shape, "float32") for shape in ((1, 2, 4, 4, 2), (2, 1, 1, 1, 2, 2)))
    layouts = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i2o", "out_layout": "NCHW2c"}
    check(op.nn.conv2d(const(data), const(weight), groups=2, **layouts))


def test_a_block_that_reaches_over_groups_is_refused(check):
    data, weight = np.zeros((1, 1, 4, 4, 4), "float32"), np.zeros((1, 1, 1, 1, 2, 4), "float32")
    layouts = {"data_layout": "NCHW4c", "kernel_layout": "OIHW2i4o", "out_layout": "NCHW4c"}
    with pytest.raises(UnsupportedError, match=r"NCHW4c.*2 groups"):
        check(op.nn.conv2d(const(data), const(weight), groups=2, **layouts))
