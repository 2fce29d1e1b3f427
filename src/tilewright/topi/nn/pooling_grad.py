"""The gradient of max pooling, computed from the side of the data: each element adds what the windows over it
contribute.

An element at padded position p is under the windows p // stride, p // stride - 1, …: at most ⌈size / stride⌉ of them
along an axis, so nothing is visited in vain where windows do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.pooling import spatial_axes
from tilewright.topi.util import clamped, constant_shape, lowest


class _Windows:
    """The windows over one spatial axis, seen from the data."""

    def __init__(self, size: int, stride: int, before: int, dilation: int, out: int, name: str) -> None:
        self.size, self.stride, self.before, self.dilation, self.out = size, stride, before, dilation, out
        span = (size - 1) * dilation + 1
        steps = -(-span // stride) if dilation == 1 else size
        self.axis = te.reduce_axis((0, steps), name=name)

    def over(self, index: Any) -> tuple[Any, Any, Any]:
        """(window, tap within it, whether there is such a window) of one step of `axis` at element `index`."""
        padded = index + self.before
        if self.dilation == 1:
            window = padded // self.stride - self.axis.var
            tap = padded - window * self.stride
            inside = [tir.less(tap, self.size)]
        else:
            tap = self.axis.var
            reached = padded - tap * self.dilation
            window = reached // self.stride
            inside = [tir.eq(window * self.stride, reached)]
        return window, tap, tir.all(*inside, window >= 0, tir.less(window, self.out))


def _windows(out_gradient: Tensor, attrs: Any, axes: Sequence[int]) -> list[_Windows]:
    shape = constant_shape(out_gradient)
    return [
        _Windows(attrs["pool_size"][i], attrs["strides"][i], attrs["padding"][i], attrs["dilation"][i], shape[a], name)
        for i, (a, name) in enumerate(zip(axes, ("jh", "jw")))
    ]


def _first_largest(data: Tensor, out_shape: Sequence[int], attrs: Any) -> Tensor:
    """The tap of each window that holds its first largest element, in row-major order. Stages: pool_max, pool_arg."""
    axes, shape = spatial_axes(attrs["layout"]), constant_shape(data)
    size, strides, padding, dilation = (attrs[n] for n in ("pool_size", "strides", "padding", "dilation"))

    def read(indices: Any, window: Sequence[Any]) -> tuple[Any, Any]:
        """The tap of a window, and whether it lies in the image."""
        where, inside = list(indices), []
        for i, a in enumerate(axes):
            where[a] = indices[a] * strides[i] + window[i] * dilation[i] - padding[i]
            inside += [where[a] >= 0, tir.less(where[a], shape[a])]
            where[a] = clamped(where[a], shape[a])
        return data(*where), tir.all(*inside)

    def ranges() -> list[Any]:
        return [te.reduce_axis((0, k), name=name) for k, name in zip(size, ("kh", "kw"))]

    def largest(*indices: Any) -> Any:
        window = ranges()
        value, inside = read(indices, window)
        return te.max(tir.select(inside, value, tir.const(lowest(data.dtype), data.dtype)), axis=window)

    def first(*indices: Any) -> Any:
        window = ranges()
        value, inside = read(indices, window)
        hit = tir.greater_equal(value, best(*indices))
        if data.dtype.is_float:
            hit = tir.any(hit, tir.isnan(value))  # it is the largest where there is one
        hit = tir.all(inside, hit)
        never = tir.const(te.index_dtype().limits()[1], te.index_dtype())
        return te.min(tir.select(hit, window[0] * size[1] + window[1], never), axis=window)

    best = te.compute(out_shape, largest, name="pool_max", tag=tag.COMM_REDUCE)
    return te.compute(out_shape, first, name="pool_arg", tag=tag.COMM_REDUCE_IDX)


def max_pool2d_grad(out_gradient: Tensor, data: Tensor, attrs: Any) -> Tensor:
    """The gradient of `data`: each window's goes to its first largest element. Stages: pool_max, pool_arg, the sum."""
    axes, columns = spatial_axes(attrs["layout"]), attrs["pool_size"][1]
    taps = _first_largest(data, constant_shape(out_gradient), attrs)
    windows = _windows(out_gradient, attrs, axes)

    def total(*indices: Any) -> Any:
        found = [w.over(indices[a]) for w, a in zip(windows, axes)]
        where = list(indices)
        for a, w, (position, _, _) in zip(axes, windows, found):
            where[a] = clamped(position, w.out)
        chosen = tir.eq(taps(*where), found[0][1] * columns + found[1][1])
        value = tir.select(
            tir.all(found[0][2], found[1][2], chosen), out_gradient(*where), tir.const(0, out_gradient.dtype)
        )
        return te.sum(value, axis=[w.axis for w in windows])

    return te.compute(constant_shape(data), total, name="T_max_pool2d_grad", tag=tag.COMM_REDUCE)
