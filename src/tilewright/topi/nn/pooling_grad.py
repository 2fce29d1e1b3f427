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
from tilewright.topi.nn.conv2d import workload
from tilewright.topi.nn.pooling import spatial_axes
from tilewright.topi.transform import injective
from tilewright.topi.util import clamped, constant_shape, extents, lowest


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
    shape = extents(out_gradient)
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


def max_pool2d_grad_at(out_gradient: Tensor, index: Tensor, attrs: Any) -> Tensor:
    """The gradient of the data [N, C, *sizes]: each window's goes to the element whose index within the plane it has.

    Positions with one remainder to the stride are a phase, as of a transposed convolution, whose schedule it has.
    Stages: max_pool2d_phases [N, C, QH, SH, SW, QW], the sum over the windows above; T_max_pool2d_grad_at.
    """
    (batch, channels, *outs), (height, width) = extents(out_gradient), attrs["sizes"]
    (sh, sw), before = attrs["strides"], attrs["padding"][:2]
    steps = [-(-size // stride) for size, stride in zip(attrs["pool_size"], (sh, sw))]
    axes = [te.reduce_axis((0, count), name=name) for count, name in zip(steps, ("jh", "jw"))]

    def over(side: int, quotient: Any, phase: Any) -> tuple[Any, list[Any]]:
        """The window of one step at the position stride * quotient + phase, and whether it is one, where in doubt."""
        stride, size, out = attrs["strides"][side], attrs["pool_size"][side], outs[side]
        shifted = phase + before[side]
        window, last = (
            quotient + shifted // stride - axes[side].var,
            (attrs["sizes"][side] - 1 + before[side]) // stride,
        )
        known = [tir.likely(axes[side].var * stride + shifted % stride < size)] if size % stride else []
        known += [tir.likely(window >= 0)] if steps[side] > 1 else []
        return window, known + ([tir.likely(tir.less(window, out))] if last >= out else [])

    def total(n: Any, c: Any, qh: Any, y: Any, x: Any, qw: Any) -> Any:
        (row, above), (column, beside) = over(0, qh, y), over(1, qw, x)
        own = ((qh * sh + y) * width + qw * sw + x).astype("int32")
        hit = tir.eq(index(n, c, row, column).astype("int32"), own)
        value = tir.select(hit, out_gradient(n, c, row, column), tir.const(0, out_gradient.dtype))
        return te.sum(value, axis=axes, where=tir.all(*above, *beside) if above or beside else None)

    phases = te.compute(
        (batch, channels, -(-height // sh), sh, sw, -(-width // sw)),
        total,
        name="max_pool2d_phases",
        tag=tag.CONV2D_TRANSPOSE,
        attrs=workload((sh, sw), attrs["padding"], (1, 1), channels),
    )
    return injective(
        (batch, channels, height, width),
        lambda n, c, y, x: phases(n, c, y // sh, y % sh, x % sw, x // sw),
        "T_max_pool2d_grad_at",
    )
