"""Programs that state sizes which types have too, name other orders of axes, or ask layouts about themselves."""

import numpy as np
import pytest

import tilewright.compat

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import relay, tir  # noqa: E402


def _run(body, *values):
    func = relay.Function(relay.analysis.free_vars(body), body)
    mod = tvm.IRModule.from_expr(func)
    return relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(*values).numpy()


def _random(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def test_stated_units_are_checked_against_the_weight():
    a, b = relay.var("a", shape=(3, 4)), relay.var("b", shape=(4, 5))
    x, y = _random(3, 4), _random(4, 5)
    np.testing.assert_allclose(_run(relay.nn.matmul(a, b, units=5), x, y), x @ y, rtol=1e-5)
    with pytest.raises(tvm.TVMError, match="units is 6, but the weight has 5"):
        relay.nn.matmul(a, b, units=6)


def test_deformable_convolution_of_either_order():
    data, offset, weight = _random(1, 6, 7, 4), _random(1, 6, 7, 18), _random(3, 3, 4, 2)
    shapes = [("data", data), ("offset", offset), ("weight", weight)]
    variables = [relay.var(name, shape=value.shape) for name, value in shapes]
    common = {"padding": (1, 1), "channels": 2, "kernel_size": (3, 3)}
    last = relay.nn.deformable_conv2d(*variables, **common, data_layout="NHWC", kernel_layout="HWIO")
    found = _run(last, data, offset, weight)
    turned = [data.transpose(0, 3, 1, 2), offset.transpose(0, 3, 1, 2), weight.transpose(3, 2, 0, 1)]
    first = relay.nn.deformable_conv2d(*[relay.var(n, shape=v.shape) for (n, _), v in zip(shapes, turned)], **common)
    want = _run(first, *[np.ascontiguousarray(one) for one in turned])
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(tvm.TVMError, match="channels is 3, but the weight has 2"):
        relay.nn.deformable_conv2d(*variables, channels=3, data_layout="NHWC", kernel_layout="HWIO")


def test_dilation_of_channels_last():
    x, w = _random(1, 4, 5, 2), _random(2, 2, 2)
    data, weight = relay.var("data", shape=x.shape), relay.var("weight", shape=w.shape)
    found = _run(relay.image.dilation2d(data, weight, data_layout="NHWC", kernel_layout="HWI"), x, w)
    want = np.max([x[:, i : 3 + i, j : 4 + j] + w[i, j] for i in range(2) for j in range(2)], axis=0)
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_boxes_of_channels_last():
    x = _random(2, 8, 9, 3)
    data, boxes = relay.var("data", shape=x.shape), relay.const(np.array([[0, 0, 1, 1]], "float32"))
    size = relay.const(np.array([8, 9], "int32"))
    crop = relay.image.crop_and_resize(data, boxes, relay.const(np.array([1], "int32")), size, "NHWC")
    np.testing.assert_allclose(_run(crop, x), x[1:], rtol=1e-5)
    rois = relay.const(np.array([[0, 0, 0, 8, 7]], "float32"))
    last = relay.vision.roi_align(data, rois, (2, 2), 1.0, 2, layout="NHWC")
    plain = relay.vision.roi_align(relay.transpose(data, [0, 3, 1, 2]), rois, (2, 2), 1.0, 2)
    np.testing.assert_allclose(_run(last, x).transpose(0, 3, 1, 2), _run(plain, x), rtol=1e-6)


def test_depthwise_convolution_of_few_rows_channels_last():
    x, w = _random(2, 2, 4, 3), _random(2, 2, 3, 1)
    data, weight = relay.var("data", shape=x.shape), relay.var("weight", shape=w.shape)
    conv = relay.nn.conv2d(
        data, weight, kernel_size=(2, 2), channels=3, groups=3, data_layout="NHWC", kernel_layout="HWOI"
    )
    want = sum(x[:, i : 1 + i, j : 3 + j] * w[i, j, :, 0] for i in range(2) for j in range(2))
    np.testing.assert_allclose(_run(conv, x, w), want, rtol=1e-5, atol=1e-6)


def test_layouts_map_shapes_and_indices():
    both = tir.bijective_layout("NCHW", "NCHW16c")
    assert [int(n) for n in both.forward_shape((1, 32, 7, 8))] == [1, 2, 7, 8, 16]
    assert [int(n) for n in both.backward_shape(both.forward_shape((1, 32, 7, 8)))] == [1, 32, 7, 8]
    assert [int(n) for n in both.forward_index([0, 18, 6, 5])] == [0, 1, 6, 5, 2]
    assert [int(n) for n in both.backward_index([0, 1, 6, 5, 2])] == [0, 18, 6, 5]
    one = tir.layout("OIHW4i16o")
    assert [one[i] for i in range(len(one))] == list("OIHWio") and one[-1] == "o"
    assert (one.factor_of("I"), one.factor_of("o"), one.factor_of("H"), one.index_of("i"), one.index_of("N")) == (
        4, 16, -1, 4, -1,
    )  # fmt: skip
    assert "H" in one and "N" not in one and isinstance(one, tir.Layout)
    assert tir.bijective_layout("NCHW", "ABCD") is None and tir.bijective_layout("", "NCHW") is None
    with pytest.raises(tvm.TVMError, match="is not a layout"):
        tir.layout("N CHW")


def test_depthwise_kernels_by_channel_and_multiple() -> None:
    from tvm import relay

    rng = np.random.default_rng(2)
    data, kernel = rng.random((1, 4, 7, 6)).astype("float32"), rng.random((4, 3, 3, 3)).astype("float32")
    x, w = relay.var("x", shape=data.shape), relay.var("w", shape=kernel.shape)
    layer = relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=12, groups=4)
    found = relay.create_executor("graph").evaluate(relay.Function([x, w], layer))(data, kernel).numpy()
    windows = np.lib.stride_tricks.sliding_window_view(data[0], (3, 3), axis=(1, 2))
    expected = np.einsum("chwij,cmij->cmhw", windows, kernel).reshape(1, 12, 5, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
