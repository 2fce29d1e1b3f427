"""Pooling of ONNX over windows on the host, for tensors whose sizes only a run can tell: any number of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.onnx_op import onnx_op
from tilewright.runtime.host_ops.windows import axes_of, taps_of
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def _wide(data: Array) -> Array:
    return data.astype(np.float32) if data.dtype.name in ("float16", "bfloat16") else data


@onnx_op("MaxPool")
def max_pool(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """The maximum of each window, and its position in the flat data; padding never wins."""
    extents = data.shape[2:]
    axes, wide = axes_of(attrs, extents), _wide(data)
    least = DType(wide.dtype).extremes()[0]
    taps = taps_of(wide, axes, least)
    order = "F" if attrs.get("storage_order", 0) else "C"
    flat = np.arange(int(np.prod(extents)), dtype=np.int64).reshape(extents, order=order)  # type: ignore[call-overload]
    positions = taps_of(np.broadcast_to(flat, (1, 1, *extents)), axes, -1)
    inside = positions >= 0
    first = np.take_along_axis(positions, inside.argmax(-1)[..., None], -1)  # what a tap in the padding is replaced by
    best = np.where(inside, taps, least).argmax(-1)[..., None]
    chosen = np.take_along_axis(np.broadcast_to(np.where(inside, positions, first), taps.shape), best, -1)[..., 0]
    offset = np.arange(data.shape[0] * data.shape[1]).reshape(*data.shape[:2], *[1] * len(extents)) * flat.size
    return taps.max(-1).astype(data.dtype), chosen + offset


@onnx_op("AveragePool")
def average_pool(attrs: Attrs, data: Array) -> Array:
    """The mean of each window; padding counts by `count_include_pad`, what rounding up adds never does."""
    axes, wide = axes_of(attrs, data.shape[2:]), _wide(data)
    counts = taps_of(np.ones((1, 1, *data.shape[2:])), axes, 0, attrs.get("count_include_pad", 0)).sum(-1)
    return np.asarray(taps_of(wide, axes, 0).sum(-1) / counts.astype(wide.dtype), data.dtype)


@onnx_op("LpPool")
def lp_pool(attrs: Attrs, data: Array) -> Array:
    """The p-norm of each window."""
    power = attrs.get("p", 2)
    total = (np.abs(taps_of(_wide(data), axes_of(attrs, data.shape[2:]), 0)) ** power).sum(-1)
    return np.asarray(total ** (1 / power), data.dtype)
