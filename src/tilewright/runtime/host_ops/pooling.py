"""Pooling of ONNX over windows on the host, for tensors whose sizes only a run can tell: any number of axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tilewright.runtime.host_ops.onnx_op import onnx_op

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


@dataclass(frozen=True)
class _Axis:
    """Windows along an axis: `before` and `after` pad it, `extra` is what only rounding up adds behind."""

    size: int
    stride: int
    dilation: int
    before: int
    after: int
    extra: int

    @property
    def reach(self) -> int:
        return (self.size - 1) * self.dilation + 1


def _axes(attrs: Attrs, extents: Sequence[int]) -> list[_Axis]:
    """The windows that the attributes of a pooling node describe over `extents`."""
    rank = len(extents)
    kernel = attrs["kernel_shape"]
    strides, dilations = attrs.get("strides") or [1] * rank, attrs.get("dilations") or [1] * rank
    pads, mode = attrs.get("pads") or [0] * 2 * rank, attrs.get("auto_pad", "NOTSET")
    if not len(kernel) == len(strides) == len(dilations) == len(pads) / 2 == rank:
        raise ValueError(f"a window of {len(kernel)} axes over {rank}")
    made = []
    for axis, extent in enumerate(extents):
        stride, reach = strides[axis], (kernel[axis] - 1) * dilations[axis] + 1
        before, after = (0, 0) if mode == "VALID" else (pads[axis], pads[axis + rank])
        if mode.startswith("SAME"):
            total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
            before, after = total // 2, total - total // 2
            before, after = (after, before) if mode == "SAME_LOWER" else (before, after)
        extra = 0
        if attrs.get("ceil_mode", 0) and stride > 1:
            # a window more where one does not end evenly, unless it would start in the padding behind
            steps = min(-(-(extent + before + after - reach) // stride), (extent + before - 1) // stride)
            extra = max(steps * stride + reach - extent - before - after, 0)
        made.append(_Axis(kernel[axis], stride, dilations[axis], before, after, extra))
    return made


def _taps(data: Array, axes: Sequence[_Axis], fill: Any, counted: Any = None) -> Array:
    """What each window of `data` [N, C, …] reads, [N, C, steps …, taps]; the padding is `counted`, beyond it `fill`."""
    lead = [(0, 0), (0, 0)]
    inner = [*lead, *[(axis.before, axis.after) for axis in axes]]
    data = np.pad(data, inner, constant_values=fill if counted is None else counted)
    data = np.pad(data, [*lead, *[(0, axis.extra) for axis in axes]], constant_values=fill)
    where = tuple(range(2, data.ndim))
    view = sliding_window_view(data, [axis.reach for axis in axes], where)
    steps = [slice(None, None, axis.stride) for axis in axes]
    taps = [slice(None, None, axis.dilation) for axis in axes]
    view = view[(slice(None), slice(None), *steps, *taps)]
    return view.reshape(*view.shape[: data.ndim], -1)


def _wide(data: Array) -> Array:
    return data.astype(np.float32) if data.dtype.name in ("float16", "bfloat16") else data


@onnx_op("MaxPool")
def max_pool(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """The maximum of each window, and its place in the flat data; padding never wins."""
    extents = data.shape[2:]
    axes, wide = _axes(attrs, extents), _wide(data)
    least = -np.inf if wide.dtype.kind == "f" else np.iinfo(wide.dtype).min
    taps = _taps(wide, axes, least)
    order = "F" if attrs.get("storage_order", 0) else "C"
    flat = np.arange(int(np.prod(extents)), dtype=np.int64).reshape(extents, order=order)  # type: ignore[call-overload]
    places = _taps(np.broadcast_to(flat, (1, 1, *extents)), axes, -1)
    inside = places >= 0
    first = np.take_along_axis(places, inside.argmax(-1)[..., None], -1)  # what a tap in the padding gives way to
    best = np.where(inside, taps, least).argmax(-1)[..., None]
    chosen = np.take_along_axis(np.broadcast_to(np.where(inside, places, first), taps.shape), best, -1)[..., 0]
    offset = np.arange(data.shape[0] * data.shape[1]).reshape(*data.shape[:2], *[1] * len(extents)) * flat.size
    return taps.max(-1).astype(data.dtype), chosen + offset


@onnx_op("AveragePool")
def average_pool(attrs: Attrs, data: Array) -> Array:
    """The mean of each window; padding counts by `count_include_pad`, what rounding up adds never does."""
    axes, wide = _axes(attrs, data.shape[2:]), _wide(data)
    counts = _taps(np.ones((1, 1, *data.shape[2:])), axes, 0, attrs.get("count_include_pad", 0)).sum(-1)
    return np.asarray(_taps(wide, axes, 0).sum(-1) / counts.astype(wide.dtype), data.dtype)


@onnx_op("LpPool")
def lp_pool(attrs: Attrs, data: Array) -> Array:
    """The p-norm of each window."""
    power = attrs.get("p", 2)
    total = (np.abs(_taps(_wide(data), _axes(attrs, data.shape[2:]), 0)) ** power).sum(-1)
    return np.asarray(total ** (1 / power), data.dtype)
