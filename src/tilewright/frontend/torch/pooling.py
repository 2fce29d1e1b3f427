"""Pooling over windows and over whole planes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tilewright.frontend.builders.windows import covered_by_windows, elements_of_windows
from tilewright.frontend.idioms import constant, full, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.reduce import position
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import as_dim

_MAX = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEAN = {1: op.nn.adaptive_avg_pool1d, 2: op.nn.adaptive_avg_pool2d, 3: op.nn.adaptive_avg_pool3d}


def _axes(node: TorchNode) -> int:
    """Over how many axes the operator pools, which its name says."""
    return int(node.target.split(".")[1].replace("_with_indices", "").removesuffix("d")[-1])


def _batched(data: Expr, rank: int) -> Expr:
    """`data` [samples, channels, …]: a sample alone becomes a batch of one."""
    return op.expand_dims(data, axis=0) if rank_of(data) == rank + 1 else data


@converts("aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d")
def convert_max_pool(node: TorchNode) -> Expr:
    rank = _axes(node)
    return reshape(_max_pool(node, _batched(node["self"], rank), rank), node.shape)


def _max_pool(node: TorchNode, data: Expr, rank: int) -> Expr:
    """Padded as far as the windows of the result reach, whichever way the number of windows was rounded."""
    kernel, step, dilation, before = window_of(node, rank)
    after = _after(node, shape_of(data)[-rank:], kernel, step, dilation, before, rank)
    made: Expr = _MAX[rank](data, pool_size=kernel, strides=step, dilation=dilation, padding=(*before, *after))
    for axis, extent in enumerate(node.shape[-rank:], start=2):
        made = slice_axis(made, axis, 0, extent)
    return made


def window_of(node: TorchNode, rank: int) -> tuple[tuple[int, ...], ...]:
    """Size, stride, dilation and padding of the windows along each of `rank` axes."""
    kernel = node.pair("kernel_size", rank)
    return kernel, node.pair("stride", rank, kernel), node.pair("dilation", rank, 1), node.pair("padding", rank, 0)


def _after(
    node: TorchNode, extents: Sequence[int], kernel: Sequence[int], step: Sequence[int], dilation: Sequence[int],
    before: Sequence[int], rank: int,
) -> list[int]:  # fmt: skip
    """The padding behind the data that the last windows reach."""
    if not is_static([*extents, *node.shape[-rank:]]):
        return [pad + (stride - 1 if node["ceil_mode"] else 0) for pad, stride in zip(before, step)]
    return [
        max((count - 1) * stride + (size - 1) * spread + 1 - extent - pad, 0)
        for extent, count, size, stride, spread, pad in zip(extents, node.shape[-rank:], kernel, step, dilation, before)
    ]


@converts("aten.max_pool1d_with_indices", "aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices")
def convert_max_pool_with_indices(node: TorchNode) -> list[Expr]:
    rank = _axes(node)
    data = _batched(node["self"], rank)
    if 1 in node.unread:
        return [reshape(_max_pool(node, data, rank), node.shape_at(0)), full(0, node.shape_at(1), "int64")]
    extents, counts = shape_of(data)[2:], node.shape_at(0)[-rank:]
    if not is_static([*extents, *counts]):
        node.unsupported("the positions of maxima in planes of symbolic extent")
    kernel, step, dilation, before = window_of(node, rank)
    if fits_planes(rank, kernel, dilation, extents):
        values = _max_pool(node, data, rank)
        padding = (*before, *_after(node, extents, kernel, step, dilation, before, rank))
        whole = op.nn.max_pool2d(data, kernel, step, dilation, padding)
        index: Expr = op.nn.max_pool2d_indices(data, whole, kernel, step, padding, dilation)
        for axis, extent in enumerate(counts, start=2):
            index = slice_axis(index, axis, 0, extent)
        return [reshape(values, node.shape_at(0)), reshape(index, node.shape_at(1))]
    grids = []
    for axis in range(rank):
        reach = np.arange(counts[axis])[:, None] * step[axis] + np.arange(kernel[axis]) * dilation[axis] - before[axis]
        grids.append(reach)
    windows, plane = elements_of_windows(data, grids)
    found = position(windows, 3, True, True)
    values = reshape(_max_pool(node, data, rank), node.shape_at(0))
    return [values, reshape(op.gather(plane, axis=3, indices=found), node.shape_at(1))]


def fits_planes(rank: int, kernel: Sequence[int], dilation: Sequence[int], extents: Sequence[int]) -> bool:
    """True for windows on planes whose elements `nn.max_pool2d_indices` can number in the order of the window."""
    return rank == 2 and (kernel[1] - 1) * dilation[1] < extents[1] * dilation[0]


@converts("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def convert_avg_pool(node: TorchNode) -> Expr:
    """The sum of each window over the elements that count: those of the data, or of the padding too."""
    rank = _axes(node)
    data = _batched(node["self"], rank)
    kernel, step, _, before = window_of(node, rank)
    options = {"pool_size": kernel, "strides": step}
    function = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}[rank]
    if not any(before) and not node["ceil_mode"]:
        made = function(data, padding=(0,) * rank, **options)
    else:
        after = _after(node, shape_of(data)[-rank:], kernel, step, (1,) * rank, before, rank)
        pool = partial(_means, node, partial(function, padding=(0,) * rank, **options))
        made = pool(data, list(zip(before, after)))
        if node.get("divisor_override") is None:
            extents = shape_of(data)[2:]
            if is_static((*extents, *node.shape[-rank:])):
                around = before if node["count_include_pad"] else (0,) * rank
                counted = covered_by_windows(extents, kernel, step, before, node.shape[-rank:], around, around)
                made = made * constant(math.prod(kernel) / counted, element_type(data))
            else:
                made = made / pool(*_counting(node, data, before, after))
    divisor = node.get("divisor_override")
    if divisor is not None:
        made = made * (math.prod(kernel) / divisor)
    return reshape(made, node.shape)


def _means(node: TorchNode, pool: Callable[[Expr], Expr], data: Expr, width: list[tuple[int, int]]) -> Expr:
    """The means of the windows of the result over `data` with zeros of `width` around."""
    made = pool(op.nn.pad(data, pad_width=((0, 0), (0, 0), *width)))
    for axis, extent in enumerate(node.shape[-len(width) :], start=2):
        made = slice_axis(made, axis, 0, extent)
    return made


def _counting(
    node: TorchNode, data: Expr, before: Sequence[int], after: Sequence[int]
) -> tuple[Expr, list[tuple[int, int]]]:
    """A plane of ones where elements count, and how wide the zeros around it are; for extents that a run finds."""
    extents, around = shape_of(data)[2:], list(zip(before, after))
    if node["count_include_pad"]:
        extents = tuple(as_dim(extent + 2 * pad) for extent, pad in zip(extents, before))
        around = [(0, behind - pad) for pad, behind in around]
    return full(1, (1, 1, *extents), element_type(data)), around


@converts("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d",
          "aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d")  # fmt: skip
def convert_adaptive_avg_pool(node: TorchNode) -> Expr:
    rank = _axes(node)
    data = _batched(node["self"], rank)
    size = node.shape[-rank:]
    if all(isinstance(extent, int) and extent == 1 for extent in size):
        return reshape(op.mean(data, axis=tuple(range(2, 2 + rank)), keepdims=True), node.shape)
    return reshape(_MEAN[rank](data, output_size=size), node.shape)


@converts("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def convert_adaptive_max_pool(node: TorchNode) -> list[Expr]:
    """The largest element of as many parts of each plane as the result has, and its position in the plane."""
    rank = _axes(node)
    data = _batched(node["self"], rank)
    extents, counts = shape_of(data)[2:], node.shape_at(0)[-rank:]
    if not is_static([*extents, *counts]):
        node.unsupported("planes of symbolic extent")
    grids = []
    for extent, count in zip(extents, counts):
        start = np.arange(count) * extent // count
        stop = -(-(np.arange(count) + 1) * extent // count)
        reach = start[:, None] + np.arange(int((stop - start).max()))
        grids.append(np.where(reach < stop[:, None], reach, -1))
    windows, plane = elements_of_windows(data, grids)
    found = position(windows, 3, True, True)
    return [
        reshape(op.gather(value, axis=3, indices=found), node.shape_at(index))
        for index, value in enumerate((windows, plane))
    ]
