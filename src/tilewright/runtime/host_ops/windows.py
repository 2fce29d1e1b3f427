"""Windows over the spatial axes of tensors whose sizes only a run can tell, as ONNX's poolings and convolutions have
them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


@dataclass(frozen=True)
class Axis:
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

    def steps(self, extent: int) -> int:
        """The windows along an axis of this extent."""
        return (extent + self.before + self.after + self.extra - self.reach) // self.stride + 1


def axes_of(attrs: Attrs, extents: Sequence[int]) -> list[Axis]:
    """The windows that the attributes of a pooling node or a convolution describe over `extents`."""
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
        made.append(Axis(kernel[axis], stride, dilations[axis], before, after, extra))
    return made


def taps_of(data: Array, axes: Sequence[Axis], fill: Any, counted: Any = None) -> Array:
    """The elements of each window of `data` [N, C, …], [N, C, steps …, taps]; the padding is `counted`, beyond it
    `fill`.
    """
    lead = [(0, 0), (0, 0)]
    inner = [*lead, *[(axis.before, axis.after) for axis in axes]]
    data = np.pad(data, inner, constant_values=fill if counted is None else counted)
    data = np.pad(data, [*lead, *[(0, axis.extra) for axis in axes]], constant_values=fill)
    where = tuple(range(2, data.ndim))
    view = sliding_window_view(data, [axis.reach for axis in axes], where)
    steps = [slice(None, None, axis.stride) for axis in axes]
    taps = [slice(None, None, axis.dilation) for axis in axes]
    view = view[(slice(None), slice(None), *steps, *taps)]
    return view.reshape(*view.shape[: data.ndim], math.prod(view.shape[data.ndim :]))
