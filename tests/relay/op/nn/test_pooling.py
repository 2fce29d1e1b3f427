"""Pooling against onnxruntime, in plain and blocked layouts."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.shapes import adaptive_window

LAYOUTS = ("NCHW", "NCHW2c", "NHWC")


def in_layout(x, layout):
    return const(layout_transform(x, "NCHW", layout))


def random_window(rng):
    kernel, strides = rng.integers(1, 4, 2).tolist(), rng.integers(1, 4, 2).tolist()
    dilation = rng.integers(1, 3, 2).tolist()
    pads = [int(rng.integers(0, k)) for k in kernel * 2]
    size = [int((k - 1) * d + 1 + rng.integers(0, 6)) for k, d in zip(kernel, dilation)]
    return kernel, strides, dilation, pads, size


@pytest.mark.parametrize("seed", range(16))
def test_max_pool_agrees_with_onnxruntime_in_every_layout(check, onnxruntime_node, seed):
    rng = np.random.default_rng(seed)
    kernel, strides, dilation, pads, size = random_window(rng)
    x = -np.abs(rng.standard_normal((2, 4, *size))).astype("float32")
    (expected,) = onnxruntime_node(
        "MaxPool",
        [x],
        kernel_shape=kernel,
        strides=strides,
        dilations=dilation,
        pads=pads,
        ceil_mode=seed % 2,
        opset=12,
    )
    for layout in LAYOUTS:
        call = op.nn.max_pool2d(in_layout(x, layout), kernel, strides, dilation, pads, layout, bool(seed % 2))
        check(call, layout_transform(expected, "NCHW", layout))


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("include", [False, True])
def test_avg_pool_agrees_with_onnxruntime_in_every_layout(check, onnxruntime_node, seed, include):
    rng = np.random.default_rng(seed)
    kernel, strides, dilation, pads, size = random_window(rng)
    x = rng.standard_normal((1, 2, *size)).astype("float32")
    (expected,) = onnxruntime_node(
        "AveragePool",
        [x],
        opset=19,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilation,
        pads=pads,
        ceil_mode=seed % 2,
        count_include_pad=int(include),
    )
    for layout in LAYOUTS:
        call = op.nn.avg_pool2d(in_layout(x, layout), kernel, strides, dilation, pads, layout, bool(seed % 2), include)
        check(call, layout_transform(expected, "NCHW", layout), rtol=1e-5, atol=1e-5)


def test_pools_of_integers_truncate(check):
    x = np.random.default_rng(2).integers(-9, 9, (1, 2, 4, 4)).astype("int32")
    windows = x.reshape(1, 2, 2, 2, 2, 2)
    check(op.nn.max_pool2d(const(x), 2, 2), windows.max((3, 5)))
    check(op.nn.avg_pool2d(const(x), 2, 2), np.trunc(windows.sum((3, 5)) / 4))


def test_global_pools_agree_with_numpy_in_every_layout(check):
    x = np.random.default_rng(3).standard_normal((2, 4, 3, 5)).astype("float32")
    for layout in LAYOUTS:
        expected = layout_transform(x.mean((2, 3), keepdims=True), "NCHW", layout)
        check(op.nn.global_avg_pool2d(in_layout(x, layout), layout), expected, atol=1e-6)
        expected = layout_transform(x.max((2, 3), keepdims=True), "NCHW", layout)
        check(op.nn.global_max_pool2d(in_layout(x, layout), layout), expected)


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3, 2), (4, 6), (5, 7)])
def test_adaptive_pools_agree_with_numpy_in_every_layout(check, size):
    x = np.random.default_rng(4).standard_normal((1, 2, 4, 6)).astype("float32")
    expected = np.zeros((2, 1, 2, *size))
    for y in range(size[0]):
        for z in range(size[1]):
            (y0, y1), (z0, z1) = adaptive_window(y, 4, size[0]), adaptive_window(z, 6, size[1])
            window = x[:, :, y0:y1, z0:z1]
            expected[0, :, :, y, z], expected[1, :, :, y, z] = window.mean((2, 3)), window.max((2, 3))
    for layout in ("NCHW", "NCHW2c"):
        mean, largest = (layout_transform(e, "NCHW", layout) for e in expected)
        check(op.nn.adaptive_avg_pool2d(in_layout(x, layout), size, layout), mean, atol=1e-5)
        check(op.nn.adaptive_max_pool2d(in_layout(x, layout), size, layout), largest)


def test_window_larger_than_data():
    with pytest.raises(TypeMismatchError, match=r"the window \(5, 5\) is larger than the padded data \(4, 4\)"):
        type_of(op.nn.max_pool2d(const(np.zeros((1, 1, 4, 4), "float32")), 5))


@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_means_of_whole_numbers_over_volumes_are_truncated_once(dtype):
    rng = np.random.default_rng(5)
    x = rng.integers(-90, 90, (1, 2, 4, 4, 6)).astype(dtype)
    sums = x.astype("int64").reshape(1, 2, 2, 2, 2, 2, 3, 2).sum((3, 5, 7))
    want = np.trunc(sums / 8).astype(dtype)
    data = relay.var("x", shape=x.shape, dtype=dtype)
    for call in (op.nn.adaptive_avg_pool3d(data, (2, 2, 3)), op.nn.avg_pool3d(data, 2, 2)):
        mod = infer_type(relay.IRModule.from_expr(call))
        for one in (mod, infer_type(expand_operators(mod))):
            np.testing.assert_array_equal(relay.interpret(one, {"x": x})[0], want)
