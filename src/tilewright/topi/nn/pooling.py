"""Pooling over height and width, in any layout with H and W whole (NCHW, NHWC, NCHW16c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.layout import parse_layout
from tilewright.topi.reduction import max as reduce_max
from tilewright.topi.reduction import mean
from tilewright.topi.shapes import Size, may_hold, pool_output
from tilewright.topi.util import accumulator_dtype, extents


def spatial_axes(layout: str) -> tuple[int, int]:
    """Positions of H and W."""
    axes = parse_layout(layout).axes
    return axes.index(("H", 0)), axes.index(("W", 0))


def lowest(dtype: Any) -> Any:
    """The number of `dtype` that never wins a maximum."""
    return float("-inf") if dtype.is_float else dtype.limits()[0]


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
    axes, shape = spatial_axes(layout), extents(x)
    sides = [(padding[i], padding[i + 2]) for i in range(2)]
    sizes = [shape[a] for a in axes]
    out = [pool_output(sizes[i], pool_size[i], strides[i], *sides[i], dilation[i], ceil_mode) for i in range(2)]
    out_shape = list(shape)
    for i, a in enumerate(axes):
        out_shape[a] = out[i]
    window = [te.reduce_axis((0, k), name=name) for k, name in zip(pool_size, ("kh", "kw"))]

    def read(indices: Any) -> tuple[Any, Any]:
        """The tap of a window, and whether it lies in the image."""
        where, inside = list(indices), []
        for i, a in enumerate(axes):
            where[a] = indices[a] * strides[i] + window[i] * dilation[i] - sides[i][0]
            last = (out[i] - 1) * strides[i] + (pool_size[i] - 1) * dilation[i] - sides[i][0]
            inside += [tir.likely(where[a] >= 0)] if sides[i][0] > 0 else []
            inside += [tir.likely(where[a] < sizes[i])] if may_hold(last >= sizes[i]) else []
        return x(*where), tir.all(*inside) if inside else None

    def reduced(reducer: Any, dtype: Any, indices: Any) -> Any:
        value, inside = read(indices)
        return reducer(value.astype(dtype), axis=window, where=inside)

    facts = {
        "pool_size": tuple(pool_size),
        "strides": tuple(strides),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "layout": layout,
    }
    if kind == "max":
        return te.compute(out_shape, lambda *i: reduced(te.max, x.dtype, i), name="pool_max", tag=tag.POOL, attrs=facts)
    wide = accumulator_dtype(x.dtype)
    total = te.compute(out_shape, lambda *i: reduced(te.sum, wide, i), name="pool_sum", tag=tag.POOL, attrs=facts)

    def counts(indices: Any) -> list[Any]:
        return [
            _covered(indices[a], sizes[i], pool_size[i], strides[i], sides[i], dilation[i], out[i], count_include_pad)
            for i, a in enumerate(axes)
        ]

    return _average(total, counts, x.dtype)


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


def _covered(
    index: Any,
    size: Size,
    kernel: int,
    stride: int,
    sides: tuple[int, int],
    dilation: int,
    out: Size,
    include_pad: bool,
) -> Any:
    """How many taps of window `index` along one axis count: a number where it is the same for all windows."""
    low, high = (-sides[0], size + sides[1]) if include_pad else (0, size)

    def inside(position: int) -> int:
        start = position * stride - sides[0]
        return max(1, sum(low <= start + k * dilation < high for k in range(kernel)))

    if isinstance(out, int) and isinstance(size, int):
        counts = {inside(p) for p in range(out)}
        if len(counts) == 1:
            return counts.pop()
    elif not may_hold(sides[0] > 0) and not may_hold((out - 1) * stride + (kernel - 1) * dilation - sides[0] >= high):
        return kernel
    start = index * stride - sides[0]
    ends = tir.minimum((high - start + dilation - 1) // dilation, kernel)
    begins = tir.maximum((low - start + dilation - 1) // dilation, 0)
    return tir.maximum(ends - begins, 1)


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
    wide = x.dtype if kind == "max" else accumulator_dtype(x.dtype)
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
        return (reduced(*indices) / (extents[0] * extents[1]).astype(wide)).astype(x.dtype)

    return te.compute(out_shape, average, name="adaptive_pool_avg", tag=tag.ELEMWISE)
