"""Pooling and convolution over any number of spatial axes, in the terms of foreign formats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import constant, dtype_of, like, reshape, shape_of, slice_axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.support.dtype import DType

_CONVOLUTIONS = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSED = {1: op.nn.conv1d_transpose, 2: op.nn.conv2d_transpose, 3: op.nn.conv3d_transpose}
_MAXIMA = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEANS = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


def window_count(
    extent: int, size: int, stride: int, before: int, behind: int, ceil: bool, inside: bool = False
) -> int:
    """The number of windows of a padded axis; with `inside` none begins behind the data and its padding before."""
    room = extent + before + behind - size
    count = (math.ceil(room / stride) if ceil else room // stride) + 1
    if inside and (count - 1) * stride >= extent + before:
        count -= 1
    return count


def same_padding(extent: int, size: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Padding that leaves ``ceil(extent / stride)`` windows, the larger half behind."""
    reach = (size - 1) * dilation + 1
    total = max((math.ceil(extent / stride) - 1) * stride + reach - extent, 0)
    return total // 2, total - total // 2


def pool(
    data: Expr, kind: str, size: Sequence[int], strides: Sequence[int], before: Sequence[int],
    counts: Sequence[int] | None = None, behind: Sequence[int] | None = None, padding_counts: bool = False,
) -> Expr:  # fmt: skip
    """Maxima (`kind` "max") or means ("mean") of windows of [N, C, spatial …].

    `counts` says how many windows each axis has; they may reach behind the data. Without it `behind` is the padding
    there. A mean is over what a window has of the data or, with `padding_counts`, of the data and its padding `before`
    and `behind` (by default as much).
    """
    extents, rank = shape_of(data)[2:], len(size)
    behind = list(before if behind is None else behind)
    if counts is None:
        padding = (*before, *behind)
        pooling = {"pool_size": tuple(size), "strides": tuple(strides), "padding": padding}
        if kind == "max":
            return _MAXIMA[rank](data, **pooling)
        return _MEANS[rank](data, **pooling, count_include_pad=padding_counts)
    if min(counts, default=1) < 1:
        raise ModelError(f"windows of {list(size)} are larger than data of shape {list(shape_of(data))}")
    needed = [
        max((count - 1) * step + reach - extent - pad, 0)
        for count, step, reach, extent, pad in zip(counts, strides, size, extents, before)
    ]
    pooling = {"pool_size": tuple(size), "strides": tuple(strides), "padding": (*before, *needed)}
    if kind == "max":
        made: Expr = _MAXIMA[rank](data, **pooling)
    else:
        made = _MEANS[rank](data, **pooling, count_include_pad=True)
    for axis, count in enumerate(counts, 2):
        made = slice_axis(made, axis, 0, count)
    if kind == "max":
        return made
    reached = behind if padding_counts else [0] * rank
    first = before if padding_counts else [0] * rank
    covered = covered_by_windows(extents, size, strides, before, counts, first, reached)
    factor = math.prod(size) / np.maximum(covered, 1)
    return made if (factor == 1).all() else made * constant(factor[None, None], dtype_of(made))


def covered_by_windows(
    extents: Sequence[int], size: Sequence[int], strides: Sequence[int], before: Sequence[int], counts: Sequence[int],
    first: Sequence[int], reached: Sequence[int],
) -> np.ndarray:  # fmt: skip
    """The number of positions each window has between `first` before the data and `reached` behind it."""
    total: np.ndarray = np.ones((), np.int64)
    for axis, count in enumerate(counts):
        begins = np.arange(count) * strides[axis] - before[axis]
        ends = np.minimum(begins + size[axis], extents[axis] + reached[axis])
        lengths = np.maximum(ends - np.maximum(begins, -first[axis]), 0)
        total = total[..., None] * lengths
    return total


def convolution(
    data: Expr, weights: Expr, strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Expr:
    """[N, C, spatial …] with filters [O, C / groups, spatial …]; `padding` is all of it before, then all behind."""
    rank = len(strides)
    _check_rank(rank)
    return _CONVOLUTIONS[rank](
        data, weights, strides=tuple(strides), padding=tuple(padding), dilation=tuple(dilation), groups=groups
    )


def transposed_convolution(
    data: Expr, weights: Expr, strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
    output_padding: Sequence[int] | None = None,
) -> Expr:  # fmt: skip
    """[N, C, spatial …] with filters [C, O / groups, spatial …]; `padding` is cut off before, then behind."""
    rank = len(strides)
    _check_rank(rank)
    more: dict[str, Any] = {} if output_padding is None else {"output_padding": tuple(output_padding)}
    return _TRANSPOSED[rank](
        data, weights, strides=tuple(strides), padding=tuple(padding), dilation=tuple(dilation), groups=groups, **more
    )


def _check_rank(rank: int) -> None:
    if rank not in _CONVOLUTIONS:
        raise ModelError(f"a convolution over {rank} axes; there are those over 1, 2 and 3")


def elements_of_windows(data: Expr, grids: Sequence[np.ndarray]) -> tuple[Expr, Expr]:
    """The elements [N, C, windows, taps] of the windows of planes [N, C, …], and their positions in the flat plane.

    `grids` [windows, taps] are the positions that the windows read along each axis. What lies beside the plane is the
    least number there is, and has the position of the window's first tap within: padding that wins among infinities is
    that one. It is -1 where no tap is within.
    """
    shape = shape_of(data)
    plane, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for grid, extent in zip(grids, shape[2:]):
        rows = len(plane) * len(grid)
        plane = (plane[:, None, :, None] * extent + grid[None, :, None, :]).reshape(rows, -1)
        there = ((grid >= 0) & (grid < extent))[None, :, None, :]
        inside = (inside[:, None, :, None] & there).reshape(plane.shape)
    first = np.take_along_axis(plane, inside.argmax(axis=1)[:, None], axis=1)
    plane = np.where(inside, plane, np.where(inside.any(axis=1, keepdims=True), first, -1))
    flat = reshape(data, (*shape[:2], math.prod(shape[2:])))
    taken = op.take(flat, Constant(plane), axis=2, mode="clip")
    elements = op.where(Constant(inside), taken, like(DType(dtype_of(data)).extremes()[0], data))
    return elements, op.broadcast_to(Constant(plane), shape=shape_of(elements))
