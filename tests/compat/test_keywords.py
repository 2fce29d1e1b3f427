"""Keywords of classic functions take effect: forty functions drawn at random, each with one that changes its result.

Arguments that no function here could follow are refused; the last tests are of these.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError


class _Namespace:
    """A classic namespace, imported when a test looks into it: it is there only while that runs."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


tvm, te, topi, relay, nn = map(_Namespace, ("tvm", "tvm.te", "tvm.topi", "tvm.relay", "tvm.relay.nn"))

RNG = np.random.default_rng(40)
X = RNG.normal(size=(2, 3, 4)).astype("float32")
Y = RNG.normal(size=(2, 3, 4)).astype("float32")
IMAGE = RNG.normal(size=(1, 2, 5, 6)).astype("float32")
LAST = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
ROWS = RNG.normal(size=(3, 4)).astype("float32")
MATRIX = RNG.normal(size=(4, 5)).astype("float32")


def run_relay(build: Callable[..., Any], *values: np.ndarray) -> list[np.ndarray]:
    """The value for `values` of the expression that `build` makes of variables."""
    params = [relay.var(f"x{i}", shape=value.shape, dtype=str(value.dtype)) for i, value in enumerate(values)]
    made = build(*params)
    made = made.astuple() if hasattr(made, "size") and hasattr(made, "astuple") else made
    found = relay.create_executor("graph").evaluate(relay.Function(params, made))(*values)
    return [one.numpy() for one in (found if isinstance(found, list | tuple) else [found])]


def run_topi(build: Callable[..., Any], *values: np.ndarray) -> list[np.ndarray]:
    """The arrays for `values` of the tensors that `build` makes of placeholders."""
    inputs = [te.placeholder(value.shape, str(value.dtype), f"x{i}") for i, value in enumerate(values)]
    made = build(*inputs)
    outs = list(made) if isinstance(made, list | tuple) else [made]
    function = tvm.build(te.create_schedule([out.op for out in outs]), [*inputs, *outs], "llvm")
    results = [tvm.nd.array(np.zeros([int(n) for n in out.shape], out.dtype)) for out in outs]
    function(*(tvm.nd.array(value) for value in values), *results)
    return [result.numpy() for result in results]


def _log_sum(x: np.ndarray, axis: Any, keep: bool) -> np.ndarray:
    return np.log(np.exp(x.astype("float64")).sum(axis=axis, keepdims=keep))


def _dilated(x: np.ndarray, steps: Sequence[int], value: float) -> np.ndarray:
    out = np.full([(n - 1) * s + 1 for n, s in zip(x.shape, steps, strict=True)], value, x.dtype)
    out[tuple(slice(None, None, s) for s in steps)] = x
    return out


def _exclusive(function: Any, x: np.ndarray, axis: int, first: float) -> np.ndarray:
    found = np.roll(function(x, axis=axis), 1, axis)
    found[(slice(None),) * axis + (0,)] = first
    return found


def _soft(x: np.ndarray, axis: int) -> np.ndarray:
    return x - _log_sum(x, axis, True)


def _grouped(x: np.ndarray, groups: int, epsilon: float) -> np.ndarray:
    parts = x.reshape(x.shape[0], groups, -1)
    normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + epsilon)
    return normal.reshape(x.shape)


def _lrn(x: np.ndarray, size: int, bias: float, alpha: float, beta: float) -> np.ndarray:
    square = np.pad(x * x, ((0, 0), (size // 2, size // 2), (0, 0), (0, 0)))
    total = sum(square[:, k : k + x.shape[1]] for k in range(size))
    return x / (bias + alpha / size * total) ** beta


def _conv(x: np.ndarray, w: np.ndarray, stride: int, pad: int, apart: int, groups: int = 1) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    o, i, kh, kw = w.shape
    rows = (x.shape[2] - (kh - 1) * apart - 1) // stride + 1
    columns = (x.shape[3] - (kw - 1) * apart - 1) // stride + 1
    out = np.zeros((x.shape[0], o, rows, columns))
    for f, c, r, s in np.ndindex(o, i, kh, kw):
        part = x[:, f // (o // groups) * i + c, r * apart :, s * apart :][:, ::stride, ::stride]
        out[:, f] += part[:, :rows, :columns] * w[f, c, r, s]
    return out


def _pooled(x: np.ndarray, size: int, stride: int, included: bool) -> np.ndarray:
    padded, ones = (np.pad(a, ((0, 0), (0, 0), (1, 1))) for a in (x, np.ones_like(x)))
    windows = range(0, padded.shape[2] - size + 1, stride)
    total = np.stack([padded[:, :, w : w + size].sum(2) for w in windows], 2)
    return total / (size if included else np.stack([ones[:, :, w : w + size].sum(2) for w in windows], 2))


W33 = RNG.normal(size=(4, 2, 3, 3)).astype("float32")
W_GROUPED = RNG.normal(size=(4, 1, 3, 3)).astype("float32")
PLACES = np.array([[0, 2, 1], [3, 0, 2]], "int32")
TARGETS = np.array([1, 0, 3], "int32")
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.25], "float32")
SPREAD = np.array([2, 0, 1], "int64")

#: (what is called, inputs, what NumPy makes of them)
RELAY: dict[str, tuple[Callable[..., Any], Sequence[np.ndarray], Any]] = {
    "argmax(exclude, keepdims)": (
        lambda x: relay.argmax(x, axis=(0, 1), keepdims=True, exclude=True), [X], X.argmax(2)[:, :, None]),
    "argmax(select_last_index)": (
        lambda x: relay.argmax(x, axis=1, select_last_index=True), [np.ones((2, 3), "float32")], np.full(2, 2)),
    "logsumexp(keepdims)": (lambda x: relay.logsumexp(x, axis=1, keepdims=True), [X], _log_sum(X, 1, True)),
    "max(exclude)": (lambda x: relay.max(x, axis=1, exclude=True), [X], X.max((0, 2))),
    "mean(keepdims)": (lambda x: relay.mean(x, axis=(0, 2), keepdims=True), [X], X.mean((0, 2), keepdims=True)),
    "mean_variance(exclude)": (
        lambda x: relay.mean_variance(x, axis=0, exclude=True), [X], [X.mean((1, 2)), X.var((1, 2))]),
    "min(axis)": (lambda x: relay.min(x, axis=-2), [X], X.min(1)),
    "adaptive_max_pool2d(layout)": (
        lambda x: nn.adaptive_max_pool2d(x, output_size=(1, 2), layout="NHWC"), [LAST],
        np.stack([LAST[:, :, :3].max((1, 2)), LAST[:, :, 3:].max((1, 2))], 1)[:, None]),
    "conv2d(dilation, strides)": (
        lambda x, w: nn.conv2d(x, w, strides=2, padding=2, dilation=2), [IMAGE, W33], _conv(IMAGE, W33, 2, 2, 2)),
    "conv2d(out_layout)": (
        lambda x, w: nn.conv2d(x, w, out_layout="NHWC"), [IMAGE, W33],
        _conv(IMAGE, W33, 1, 0, 1).transpose(0, 2, 3, 1)),
    "dilate(dilation_value)": (
        lambda x: nn.dilate(x, [1, 2, 3], dilation_value=7.0), [X], _dilated(X, [1, 2, 3], 7.0)),
    "global_max_pool3d(layout)": (
        lambda x: nn.global_max_pool3d(x, layout="NDHWC"), [LAST[:, None]],
        LAST.max((1, 2))[:, None, None, None]),
    "group_norm(num_groups, epsilon)": (
        lambda x, g, b: nn.group_norm(x, g, b, 2, epsilon=0.5, scale=False),
        [X.reshape(2, 4, 3), 2 * WEIGHTS, WEIGHTS],
        _grouped(X.reshape(2, 4, 3), 2, 0.5) + WEIGHTS[:, None]),
    "log_softmax(axis)": (lambda x: nn.log_softmax(x, axis=1), [X], _soft(X, 1)),
    "lrn(size, bias, alpha, beta)": (
        lambda x: nn.lrn(x, size=3, bias=1.0, alpha=0.5, beta=2.0), [IMAGE], _lrn(IMAGE, 3, 1.0, 0.5, 2.0)),
    "matmul(transpose_a, transpose_b)": (
        lambda a, b: nn.matmul(a, b, transpose_a=True, transpose_b=True), [ROWS.T.copy(), MATRIX.T.copy()],
        ROWS @ MATRIX),
    "nll_loss(reduction, ignore_index)": (
        lambda p, t, w: nn.nll_loss(p, t, w, reduction="sum", ignore_index=0), [ROWS, TARGETS, WEIGHTS],
        -(WEIGHTS[1] * ROWS[0, 1] + WEIGHTS[3] * ROWS[2, 3])),
    "prelu(axis)": (
        lambda x, a: nn.prelu(x, a, axis=2), [X, WEIGHTS], np.where(X > 0, X, X * WEIGHTS)),
    "space_to_batch_nd(pad_value)": (
        lambda x: nn.space_to_batch_nd(x, [2], [[1, 0]], pad_value=9.0), [ROWS[:, :3, None]],
        np.concatenate([np.stack([np.full((3, 1), 9.0), ROWS[:, 1, None]], 1), ROWS[:, [0, 2], None]])),
    "upsampling(method, align_corners)": (
        lambda x: nn.upsampling(x, 2, 2, method="bilinear", align_corners=True),
        [IMAGE[:, :, :2, :1]],
        IMAGE[:, :, :1, :1] + (IMAGE[:, :, 1:2, :1] - IMAGE[:, :, :1, :1]) * np.arange(4).reshape(4, 1) / 3
        + np.zeros((1, 1, 1, 2))),
    "reshape_like(lhs_begin, rhs_end)": (
        lambda x, y: relay.reshape_like(x, y, lhs_begin=1, lhs_end=2, rhs_begin=0, rhs_end=2),
        [np.arange(24.0, dtype="float32").reshape(2, 12), ROWS], np.arange(24.0).reshape(2, 3, 4)),
    "reverse_sequence(seq_axis, batch_axis)": (
        lambda x, n: relay.reverse_sequence(x, n, seq_axis=1, batch_axis=0), [ROWS, np.array([2, 4, 1], "int32")],
        np.stack([ROWS[0, [1, 0, 2, 3]], ROWS[1, ::-1], ROWS[2]])),
    "shape_of(dtype)": (lambda x: relay.shape_of(x, dtype="int64"), [X], np.array([2, 3, 4])),
    "slice_like(axes)": (lambda x, y: relay.slice_like(x, y, axes=[1]), [X, ROWS[:, :2]], X[:, :2]),
    "squeeze(axis)": (lambda x: relay.squeeze(x, axis=[1]), [X[:1, :1]], X[:1, 0]),
    "strided_slice(slice_mode)": (
        lambda x: relay.strided_slice(x, begin=[1, 0], end=[1, 2], axes=[1, 2], slice_mode="size"), [X],
        X[:, 1:2, :2]),
    "take(axis, mode)": (
        lambda x, i: relay.take(x, i, axis=1, mode="wrap"), [X, PLACES], np.take(X, PLACES, axis=1, mode="wrap")),
    "topk(is_ascend, ret_type, dtype)": (
        lambda x: relay.topk(x, k=2, axis=1, ret_type="indices", is_ascend=True, dtype="int64"), [ROWS],
        np.argsort(ROWS, 1)[:, :2]),
    "resize1d(rounding_method)": (
        lambda x: relay.image.resize1d(x, (8,), method="nearest_neighbor",
                                       coordinate_transformation_mode="asymmetric", rounding_method="ceil"),
        [X], X[:, :, np.minimum(np.ceil(np.arange(8) / 2), 3).astype(int)]),
}  # fmt: skip

TOPI: dict[str, tuple[Callable[..., Any], Sequence[np.ndarray], Any]] = {
    "argmin(keepdims)": (lambda x: topi.argmin(x, axis=1, keepdims=True), [X], X.argmin(1)[:, None]),
    "concatenate(axis)": (lambda x, y: topi.concatenate((x, y), axis=-1), [X, Y], np.concatenate([X, Y], 2)),
    "cumprod(exclusive)": (
        lambda x: topi.cumprod(x, axis=1, exclusive=True), [ROWS], _exclusive(np.cumprod, ROWS, 1, 1.0)),
    "cumsum(dtype)": (lambda x: topi.cumsum(x, axis=0, dtype="int64"), [PLACES], PLACES.cumsum(0)),
    "max(keepdims)": (lambda x: topi.max(x, axis=(0, 2), keepdims=True), [X], X.max((0, 2), keepdims=True)),
    "dilate(dilation_value)": (
        lambda x: topi.nn.dilate(x, [2, 1, 1], dilation_value=3.0), [X], _dilated(X, [2, 1, 1], 3.0)),
    "group_conv2d_nchw(groups)": (
        lambda x, w: topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, groups=2), [IMAGE, W_GROUPED],
        _conv(IMAGE, W_GROUPED, 1, 1, 1, 2)),
    "pad(pad_after, pad_value)": (
        lambda x: topi.nn.pad(x, [1, 0], [0, 2], pad_value=5.0), [ROWS],
        np.pad(ROWS, ((1, 0), (0, 2)), constant_values=5.0)),
    "pool1d(count_include_pad)": (
        lambda x: topi.nn.pool1d(x, [2], [2], [1], [1, 1], "avg", count_include_pad=False), [X],
        _pooled(X, 2, 2, False)),
    "depth_to_space(layout, mode)": (
        lambda x: topi.nn.depth_to_space(x, 2, layout="NHWC", mode="CRD"), [X[:, :, None]],
        X.reshape(2, 3, 1, 1, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 6, 2, 1)),
    "scatter_add(axis)": (
        lambda x, i, u: topi.scatter_add(x, i, u, axis=1), [np.zeros((2, 4), "float32"), PLACES, X[:, :, 0].copy()],
        np.stack([np.bincount(PLACES[b], X[b, :, 0], 4) for b in range(2)])),
    "split(axis)": (lambda x: topi.split(x, [1, 3], axis=2), [X], [X[:, :, :1], X[:, :, 1:3], X[:, :, 3:]]),
    "sum(axis)": (lambda x: topi.sum(x, axis=[0, -1]), [X], X.sum((0, 2))),
    "sparse_dense(sparse_lhs)": (
        lambda d, v, i, p: topi.nn.sparse_dense(d, v, i, p, sparse_lhs=True),
        [MATRIX.T.copy(), np.array([2.0, 3.0], "float32"), np.array([1, 3], "int32"), np.array([0, 1, 1, 2], "int32")],
        np.array([[0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 3.0]]) @ MATRIX),
}  # fmt: skip


def _check(found: list[np.ndarray], want: Any) -> None:
    for one, expected in zip(found, want if isinstance(want, list) else [want], strict=True):
        assert one.shape == np.shape(expected)
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", RELAY)
def test_keyword_of_relay(name: str) -> None:
    build, values, want = RELAY[name]
    _check(run_relay(build, *values), want)


@pytest.mark.parametrize("name", TOPI)
def test_keyword_of_topi(name: str) -> None:
    build, values, want = TOPI[name]
    _check(run_topi(build, *values), want)


def test_what_cannot_be_followed_is_refused() -> None:
    x = relay.var("x", shape=(1, 2, 5))
    for call, message in (
        (lambda: nn.global_avg_pool1d(x, out_layout="NWC"), "out_layout='NWC' is not taken here"),
        (lambda: relay.testing.dqn.get_workload(1, layout="NHWC"), "layout='NHWC' is not taken here; leave it out"),
        (lambda: relay.testing.synthetic.get_workload(wtype="float16"), "wtype='float16'"),
        (lambda: tvm.tir.decl_buffer((4,), elem_offset=2), "elem_offset=2"),
        (lambda: importlib.import_module("tvm.auto_scheduler").TaskScheduler([], load_log_file="log"), "load_log_file"),
        (lambda: relay.frontend.from_darknet("a.cfg", dtype="float16"), "dtype='float16'"),
    ):
        with pytest.raises(UnsupportedError, match=message):
            call()


def test_results_that_are_several_unpack() -> None:
    data = relay.var("data", shape=(1, 5, 6))
    counts, rows, positions = relay.vision.get_valid_counts(data, 0.5)
    kept, _count = relay.vision.non_max_suppression(rows, counts, positions)
    assert [int(n) for n in relay.testing.run_infer_type(kept).checked_type.shape] == [1, 5]
    assert isinstance(relay.vision.non_max_suppression(rows, counts, positions, return_indices=False), relay.Call)
    assert relay.testing.run_infer_type(relay.mean_std(data, 1).astuple()).checked_type == relay.TupleType(
        [relay.TensorType((1, 6))] * 2
    )
    assert len(relay.vision.all_class_non_max_suppression(data, data, output_format="tensorflow")) == 3


def test_sums_of_quantized_tensors_round_by_operand() -> None:
    """The numbers are those of the arithmetic that is written out: 76 - 127 at 2/3 of the scale, 136 - 85 at 1/2."""
    x, y = np.array([[76, 140]], "uint8"), np.array([[136, 119]], "uint8")
    names = ("lhs_scale", "lhs_zero_point", "rhs_scale", "rhs_zero_point", "output_scale", "output_zero_point")
    numbers = dict(zip(names, (0.0156863, 127, 0.0117647, 85, 0.0235294, 128), strict=True))
    (found,) = run_relay(
        lambda a, b: relay.qnn.op.add(a, b, **{k: relay.const(v, "float32" if isinstance(v, float) else "int32")
                                               for k, v in numbers.items()}), x, y,
    )  # fmt: skip
    left, right = (x.astype(float) - 127) * 2 / 3, (y.astype(float) - 85) / 2
    np.testing.assert_array_equal(found, np.floor(left + 0.5) + np.floor(right + 0.5) + 128)


def test_kernels_and_offsets_without_a_type() -> None:
    data = relay.var("data", shape=(1, 8, 8, 4))
    call = nn.deformable_conv2d(
        data, relay.var("offset"), relay.var("kernel"), padding=1, deformable_groups=2, channels=6, kernel_size=(3, 3),
        data_layout="NHWC", kernel_layout="HWIO",
    )  # fmt: skip
    assert [int(n) for n in relay.testing.run_infer_type(call).checked_type.shape] == [1, 8, 8, 6]


def test_a_box_that_ends_with_the_image_has_its_last_pixel() -> None:
    image = RNG.random(size=(1, 224, 3, 1)).astype("float32")
    boxes, owners = np.array([[0.2, 0, 1, 1]], "float32"), np.zeros(1, "int32")
    (found,) = run_relay(
        lambda *args: relay.image.crop_and_resize(*args, (20, 3), "NHWC", "nearest_neighbor"), image, boxes, owners
    )
    np.testing.assert_array_equal(found[0, -1], image[0, -1])
    python = topi.testing.crop_and_resize_python(image, boxes, owners, (20, 3), "NHWC", "nearest_neighbor")
    np.testing.assert_array_equal(python[0, -1], image[0, -1])
    x, y = (RNG.normal(size=(2, 3, 4)) for _ in range(2))
    want = x.transpose(0, 2, 1) @ y
    np.testing.assert_allclose(topi.testing.batch_matmul(x, y, trans_x=True, trans_y=False), want)
