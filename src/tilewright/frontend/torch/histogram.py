"""Elements counted or combined by the part of a range, or of an axis, that they belong to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import (
    as_vector,
    cast,
    constant,
    full,
    index_axis,
    like,
    product,
    rank_of,
    reshape,
    shape_of,
    slice_axis,
)
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_empty
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _edges(node: TorchNode, data: Expr, count: int, given: Sequence[float] | None) -> Expr:
    """`count` + 1 edges of equal parts of a range: the one given, or that of the data."""
    if given is not None:
        low, high = float(given[0]), float(given[1])
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        return constant(np.linspace(low, high, count + 1), node.dtype)
    if is_empty(shape_of(data)):
        return constant(np.linspace(0, 1, count + 1), node.dtype)
    first, last = op.min(data, axis=(0,)), op.max(data, axis=(0,))
    same = op.equal(first, last)
    half = like(0.5, data)
    first = op.where(same, first - half, first)
    last = op.where(same, last + half, last)
    parts = constant(np.arange(count + 1), node.dtype)
    step = (last - first) / count
    rising = first + parts * step
    falling = last - constant(np.arange(count, -1, -1), node.dtype) * step
    return op.where(constant(np.arange(count + 1) <= count // 2, "bool"), rising, falling)


def _part(data: Expr, edges: Expr) -> tuple[Expr, Expr]:
    """The part between edges that each element of a vector lies in, the last one closed; and whether in any."""
    count = shape_of(edges)[0] - 1
    position = op.searchsorted(edges, data, right=True, dtype="int64") - 1
    first, last = slice_axis(edges, 0, 0, 1), slice_axis(edges, 0, count, count + 1)
    inside = op.logical_and(data >= first, data <= last)
    bounded = op.minimum(op.maximum(position, 0), constant(count - 1, "int64"))
    return bounded, inside


def _counts(node: TorchNode, rows: Expr, edges: Sequence[Expr]) -> Expr:
    """The number of rows, or their weight, in each cell of a grid; with `density` over weight and size."""
    extents = [shape_of(one)[0] - 1 for one in edges]
    cell: Expr | None = None
    inside: Expr | None = None
    for axis, one in enumerate(edges):
        position, within = _part(index_axis(rows, 1, axis), one)
        cell = position if cell is None else cell * constant(extents[axis], "int64") + position
        inside = within if inside is None else op.logical_and(inside, within)
    assert cell is not None and inside is not None
    weight = node.get("weight")
    weight = full(1, shape_of(cell), node.dtype) if weight is None else reshape(weight, shape_of(cell))
    kept = op.where(inside, weight, 0)
    empty = full(0, (math.prod(extents),), node.dtype)
    total: Expr = empty if is_empty(shape_of(cell)) else op.scatter_elements(empty, cell, kept, 0, "add")
    if node["density"]:
        total = total / op.sum(total, axis=(0,))
        widths: Expr = constant(1, node.dtype)
        for axis, one in enumerate(edges):
            shape = [1] * len(edges)
            shape[axis] = extents[axis]
            width = slice_axis(one, 0, 1, extents[axis] + 1) - slice_axis(one, 0, 0, extents[axis])
            widths = widths * reshape(width, shape)
        return reshape(total, extents) / widths
    return reshape(total, extents)


@converts("aten.histogram")
def convert_histogram(node: TorchNode) -> list[Expr]:
    data = as_vector(node["self"])
    bins = node["bins"]
    edges = bins if isinstance(bins, Expr) else _edges(node, data, bins, node.get("range"))
    return [_counts(node, reshape(data, (shape_of(data)[0], 1)), [edges]), edges]


def _grid(node: TorchNode, rows: Expr) -> list[Expr]:
    """The edges of the parts along each axis."""
    given, bins = node.get("range"), node["bins"]
    if bins and isinstance(bins[0], Expr):
        return list(bins)
    return [
        _edges(node, index_axis(rows, 1, axis), count, None if given is None else given[2 * axis : 2 * axis + 2])
        for axis, count in enumerate(bins)
    ]


def _rows(node: TorchNode) -> Expr:
    *lead, columns = shape_of(node["self"])
    return reshape(node["self"], (product(lead), columns))


@converts("aten._histogramdd_from_bin_cts", "aten._histogramdd_from_bin_tensors")
def convert_histogramdd(node: TorchNode) -> Expr:
    rows = _rows(node)
    return _counts(node, rows, _grid(node, rows))


@converts("aten._histogramdd_bin_edges")
def convert_histogramdd_edges(node: TorchNode) -> list[Expr]:
    return _grid(node, _rows(node))


_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_COMBINE: dict[str, Any] = {
    "sum": (op.sum, op.add), "mean": (op.sum, op.add), "prod": (op.prod, op.multiply),
    "max": (op.max, op.maximum), "min": (op.min, op.minimum),
}  # fmt: skip


@converts("aten.segment_reduce")
def convert_segment_reduce(node: TorchNode, data: Expr) -> Expr:
    """Runs of elements along an axis combined; those axes before it have runs of their own."""
    how = str(node["reduce"])
    axis = node.axis(node["axis"], rank_of(data))
    if node["offsets"] is not None:
        offsets = cast(node["offsets"], "int64")
        count = shape_of(offsets)[axis] - 1
        begins, ends = slice_axis(offsets, axis, 0, count), slice_axis(offsets, axis, 1, count + 1)
    else:
        lengths = cast(node["lengths"], "int64")
        ends = op.cumsum(lengths, axis=axis)
        begins = ends - lengths
    extent = shape_of(data)[axis]
    steps = constant(np.arange(extent), "int64")
    begins, ends = (op.expand_dims(value, axis=axis + 1) for value in (begins, ends))
    mine = op.logical_and(steps >= begins, steps < ends)
    inner = rank_of(data) - axis - 1
    mask = op.expand_dims(mine, axis=axis + 2, num_newaxis=inner) if inner else mine
    wide = op.expand_dims(data, axis=axis)
    reduce, combine = _COMBINE[how]
    total = reduce(op.where(mask, wide, like(_NEUTRAL[how], data)), axis=(axis + 1,))
    initial = node["initial"]
    if initial is not None:
        total = combine(total, like(initial, data))
    if how != "mean":
        return total
    size = op.sum(cast(mask, element_type(data)), axis=(axis + 1,))
    if initial is None:
        return total / size
    return op.where(op.equal(size, 0), like(initial, data), total / op.maximum(size, 1))
