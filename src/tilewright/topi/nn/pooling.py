"""Pooling over height and width, in any layout with H and W whole (NCHW, NHWC, NCHW16c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.te import IterVar, Tensor
from tilewright.topi import tag
from tilewright.topi.layout import parse_layout
from tilewright.topi.reduction import max as reduce_max
from tilewright.topi.reduction import mean
from tilewright.topi.shapes import Size, may_hold, pool_output
from tilewright.topi.util import average_dtype, extents, lowest


def spatial_axes(layout: str) -> tuple[int, int]:
    """Positions of H and W."""
    axes = parse_layout(layout).axes
    return axes.index(("H", 0)), axes.index(("W", 0))


@dataclass(frozen=True)
class _Axis:
    """Pooling along one axis: sizes of image, window and result, and how the window moves."""

    size: Size
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int
    out: Size
    taps: IterVar

    def read(self, window: Any) -> tuple[Any, list[Any]]:
        """The position of a tap of `window`, and the conditions under which it lies in the image, as far as in
        doubt.
        """
        position = window * self.stride + self.taps * self.dilation - self.before
        last = (self.out - 1) * self.stride + (self.kernel - 1) * self.dilation - self.before
        inside = [tir.likely(position >= 0)] if self.before > 0 else []
        inside += [tir.likely(position < self.size)] if may_hold(last >= self.size) else []
        return position, inside

    def covered(self, window: Any, include_pad: bool) -> Any:
        """The number of taps of `window` that count: one number where it is the same for all windows."""
        low, high = (-self.before, self.size + self.after) if include_pad else (0, self.size)
        kernel, stride, dilation = self.kernel, self.stride, self.dilation

        def inside(position: int) -> int:
            start = position * stride - self.before
            return max(1, sum(low <= start + k * dilation < high for k in range(kernel)))

        if isinstance(self.out, int) and isinstance(self.size, int):
            counts = {inside(p) for p in range(self.out)}
            if len(counts) == 1:
                return counts.pop()
        elif not may_hold(self.before > 0) and not may_hold(
            (self.out - 1) * stride + (kernel - 1) * dilation - self.before >= high
        ):
            return kernel
        start = window * stride - self.before
        ends = tir.minimum((high - start + dilation - 1) // dilation, kernel)
        begins = tir.maximum((low - start + dilation - 1) // dilation, 0)
        return tir.maximum(ends - begins, 1)


def pool2d(
    x: Tensor,
    kind: str,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """``"max"`` or ``"avg"`` over windows. Stages: pool_max; or pool_sum, pool_avg.

    Padding is no stage: the reduction leaves out the taps beside the image.
    """
    axes, out_shape, attrs = _axes(x, pool_size, strides, padding, dilation, ceil_mode, layout)

    def reduced(reducer: Any, dtype: Any, name: str) -> Tensor:
        def body(*indices: Any) -> Any:
            where, inside = list(indices), []
            for a, axis in axes.items():
                where[a], conditions = axis.read(indices[a])
                inside += conditions
            taps = [axis.taps for axis in axes.values()]
            return reducer(x(*where).astype(dtype), axis=taps, where=tir.all(*inside) if inside else None)

        return te.compute(out_shape, body, name=name, tag=tag.POOL, attrs=attrs)

    if kind == "max":
        return reduced(te.max, x.dtype, "pool_max")
    total = reduced(te.sum, average_dtype(x.dtype, pool_size[0] * pool_size[1]), "pool_sum")
    return _average(total, lambda i: [axis.covered(i[a], count_include_pad) for a, axis in axes.items()], x.dtype)


def _axes(
    x: Tensor,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    layout: str,
) -> tuple[dict[int, _Axis], list[Size], dict[str, Any]]:
    """Pooling along each spatial axis, by its position; the shape of the result; the attributes of its stage."""
    out_shape = list(extents(x))
    axes: dict[int, _Axis] = {}
    for i, (a, name) in enumerate(zip(spatial_axes(layout), ("kh", "kw"))):
        size, window = out_shape[a], (pool_size[i], strides[i], padding[i], padding[i + 2], dilation[i])
        out_shape[a] = pool_output(size, *window, ceil_mode)
        axes[a] = _Axis(size, *window, out_shape[a], te.reduce_axis((0, pool_size[i]), name=name))
    facts = {"pool_size": pool_size, "strides": strides, "padding": padding, "dilation": dilation}
    return axes, out_shape, {name: tuple(values) for name, values in facts.items()} | {"layout": layout}


def max_pool2d_indices(
    x: Tensor,
    largest: Tensor,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> Tensor:
    """The index within its plane of the first element of each window of `x` [N, C, H, W] that is the `largest`, which
    are their maxima; NaN counts as the largest. int64.

    Stages: pool_first, the element counted from the window's first, of which a plane has less than 2^31; pool_index.
    """
    axes, out_shape, attrs = _axes(x, pool_size, strides, padding, dilation, ceil_mode, "NCHW")
    (rows, columns), width = axes.values(), extents(x)[3]

    def first(*indices: Any) -> Any:
        where, inside = list(indices), []
        for a, axis in axes.items():
            where[a], conditions = axis.read(indices[a])
            inside += conditions
        value = x(*where)
        hit = tir.greater_equal(value, largest(*indices))
        if x.dtype.is_float:
            hit = tir.any(hit, tir.isnan(value))
        offset = (rows.taps * rows.dilation * width + columns.taps * columns.dilation).astype("int32")
        never = tir.const(2**31 - 1, "int32")
        taps, condition = [rows.taps, columns.taps], tir.all(*inside) if inside else None
        return te.min(tir.select(hit, offset, never), axis=taps, where=condition)

    offset = te.compute(out_shape, first, name="pool_first", tag=tag.POOL, attrs=attrs)

    def index(n: Any, c: Any, y: Any, z: Any) -> Any:
        start = (y * rows.stride - rows.before) * width + z * columns.stride - columns.before
        return (start.astype("int32") + offset(n, c, y, z)).astype("int64")

    return te.compute(out_shape, index, name="pool_index", tag=tag.ELEMWISE)


def _average(total: Tensor, counts: Callable[[Any], list[Any]], dtype: Any) -> Tensor:
    """`total` divided by the product of `counts` (a number per axis and index), as `dtype`."""

    def average(*indices: Any) -> Any:
        rows, columns = counts(indices)
        count, value = rows * columns, total(*indices)
        if not value.dtype.is_float:
            divisor = tir.const(count, total.dtype) if isinstance(count, int) else count.astype(total.dtype)
            return tir.truncdiv(value, divisor).astype(dtype)
        # One scalar division per window, not one per channel.
        inverse = 1.0 / count if isinstance(count, int) else tir.const(1.0, total.dtype) / count.astype(total.dtype)
        return (value * inverse).astype(dtype)

    return te.compute(total.shape, average, name="pool_avg", tag=tag.ELEMWISE)


def global_pool2d(x: Tensor, kind: str, layout: str = "NCHW") -> Tensor:
    """The mean or maximum over all of H and W, kept as dimensions of size 1."""
    axes = spatial_axes(layout)
    return reduce_max(x, axes, keepdims=True) if kind == "max" else mean(x, axes, keepdims=True)


def adaptive_pool2d(x: Tensor, kind: str, output_size: Sequence[int], layout: str = "NCHW") -> Tensor:
    """Pooling whose windows divide H and W into `output_size` nearly equal, possibly overlapping parts."""
    axes, shape = spatial_axes(layout), extents(x)
    sizes = [shape[a] for a in axes]
    if all(s % o == 0 for s, o in zip(sizes, output_size)):
        steps = [s // o for s, o in zip(sizes, output_size)]
        return pool2d(x, kind, steps, steps, (0, 0, 0, 0), layout=layout)
    longest = [max(-(-(i + 1) * s // o) - i * s // o for i in range(o)) for s, o in zip(sizes, output_size)]
    window = [te.reduce_axis((0, k), name=name) for k, name in zip(longest, ("kh", "kw"))]
    out_shape = list(shape)
    for i, a in enumerate(axes):
        out_shape[a] = output_size[i]
    wide = x.dtype if kind == "max" else average_dtype(x.dtype, longest[0] * longest[1])
    neutral = tir.const(lowest(x.dtype) if kind == "max" else 0, wide)

    def bounds(index: Any, i: int) -> tuple[Any, Any]:
        return index * sizes[i] // output_size[i], ((index + 1) * sizes[i] + output_size[i] - 1) // output_size[i]

    def body(*indices: Any) -> Any:
        where, inside = list(indices), []
        for i, a in enumerate(axes):
            first, last = bounds(indices[a], i)
            where[a] = first + window[i]
            inside.append(tir.less(where[a], last))
        value = tir.if_then_else(tir.all(*inside), x(*where).astype(wide), neutral)
        return te.max(value, axis=window) if kind == "max" else te.sum(value, axis=window)

    reduced = te.compute(out_shape, body, name=f"adaptive_pool_{kind}", tag=tag.COMM_REDUCE)
    if kind == "max":
        return reduced

    def average(*indices: Any) -> Any:
        extents = [last - first for first, last in (bounds(indices[a], i) for i, a in enumerate(axes))]
        value, count = reduced(*indices), (extents[0] * extents[1]).astype(wide)
        return (value / count if value.dtype.is_float else tir.truncdiv(value, count)).astype(x.dtype)

    return te.compute(out_shape, average, name="adaptive_pool_avg", tag=tag.ELEMWISE)
