"""Order: sorting, the largest elements, positions in sorted rows, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.idioms import as_vector, cast, constant, full, like, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.selection import slice_of_run
from tilewright.frontend.torch.types import is_empty
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem


@converts("aten.topk")
def convert_topk(node: TorchNode, data: Expr, k: Any, largest: bool) -> list[Expr]:
    """The `k` largest or smallest elements of an axis in order, and their positions."""
    if not rank_of(data):
        return [data, constant(0, "int64")]
    if isinstance(k, Expr):
        order = _order(data, node.axis(node["dim"]), bool(largest))
        chosen = slice_of_run(node, order, node.axis(node["dim"]), 0, k, 1)
        return [op.gather(data, axis=node.axis(node["dim"]), indices=chosen), chosen]
    if not isinstance(k, int) or k == 0:
        chosen = slice_axis(_order(data, node.axis(node["dim"]), bool(largest)), node.axis(node["dim"]), 0, k)
        return [op.gather(data, axis=node.axis(node["dim"]), indices=chosen), chosen]
    found = op.topk(data, k, node.axis(node["dim"]), "both", not largest, "int64")
    return [TupleGetItem(found, 0), TupleGetItem(found, 1)]


def _order(data: Expr, axis: int, descending: bool) -> Expr:
    """The positions of the elements of an axis in sorted order, those of equal ones as they were; NaN is the
    largest.
    """
    if element_type(data).is_bool:
        data = cast(data, "uint8")
    return op.argsort(data, axis=axis, is_ascend=not descending, dtype="int64")


@converts("aten.sort", "aten.argsort", "aten.msort")
def convert_sort(node: TorchNode, data: Expr, descending: bool = False) -> Expr | list[Expr]:
    if not rank_of(data):
        zero = constant(0, "int64")
        return zero if "argsort" in node.target else data if "msort" in node.target else [data, zero]
    axis = 0 if "msort" in node.target else node.axis(node["dim"])
    order = _order(data, axis, bool(descending))
    if "argsort" in node.target:
        return order
    values = op.gather(data, axis=axis, indices=order)
    return values if "msort" in node.target else [values, order]


@converts("aten.kthvalue")
def convert_kthvalue(node: TorchNode, data: Expr, k: Any, keepdim: bool) -> list[Expr]:
    """The `k`-th smallest element of an axis and its position."""
    if not rank_of(data):
        return [data, constant(0, "int64")]
    axis, position = node.axis(node["dim"]), k - 1
    order = slice_axis(_order(data, axis, False), axis, position, position + 1)
    values = op.gather(data, axis=axis, indices=order)
    if keepdim:
        return [values, order]
    return [op.squeeze(value, axis=(axis,)) for value in (values, order)]


@converts("aten.median", "aten.nanmedian")
def convert_median(node: TorchNode, data: Expr) -> Expr | list[Expr]:
    """The lower one of the middle elements, and with an axis its position; NaN where one is, unless it is left out."""
    several = isinstance(node.value, tuple | list)
    if not rank_of(data):
        return [data, constant(0, "int64")] if several else data
    axis = node.axis(node["dim"]) if several else 0
    data = data if several else as_vector(data)
    extent = shape_of(data)[axis]
    if not isinstance(extent, int) or extent == 0:
        node.unsupported("the median of an axis that is empty or of symbolic extent")
    order = _order(data, axis, False)
    middle = slice_axis(order, axis, (extent - 1) // 2, (extent - 1) // 2 + 1)
    if "nanmedian" in node.target and element_type(data).is_float:
        there = op.sum(cast(op.logical_not(op.isnan(data)), "int64"), axis=(axis,), keepdims=True)
        half = op.right_shift(op.maximum(there - 1, 0), constant(1, "int64"))
        middle = op.gather(order, axis=axis, indices=half)
    elif element_type(data).is_float:
        last = slice_axis(order, axis, extent - 1, extent)
        nan = op.cast(op.isnan(data), dtype="uint8")
        first = op.argmax(nan, axis=axis, keepdims=True, dtype="int64")
        middle = op.where(op.isnan(op.gather(data, axis=axis, indices=last)), first, middle)
    values = op.gather(data, axis=axis, indices=middle)
    if not several:
        return reshape(values, ())
    return [v if node["keepdim"] else op.squeeze(v, axis=(axis,)) for v in (values, middle)]


@converts("aten.searchsorted", "aten.bucketize")
def convert_searchsorted(node: TorchNode) -> Expr:
    rows = node["boundaries"] if "bucketize" in node.target else node["sorted_sequence"]
    given = node["self"]
    if node.get("sorter") is not None:
        rows = op.gather(rows, axis=rank_of(rows) - 1, indices=node["sorter"])
    values = node.as_tensor(given, element_type(rows)) if not isinstance(given, Expr) else given
    if element_type(values) != element_type(rows):
        wide = "float64" if element_type(values).is_float or element_type(rows).is_float else "int64"
        values, rows = cast(values, wide), cast(rows, wide)
    right = bool(node["right"]) or node.get("side") == "right"
    scalar = not rank_of(values)
    if rank_of(rows) == 1:
        flat = as_vector(values)
        found = op.searchsorted(rows, flat, right=right, dtype=str(node.dtype))
    else:
        found = op.searchsorted(rows, reshape(values, (1,)) if scalar else values, right=right, dtype=str(node.dtype))
    return reshape(found, node.shape)


@converts("aten.histc")
def convert_histc(node: TorchNode, data: Expr, bins: Any) -> Expr:
    """The number of elements in each of equal parts of a range; one of no extent stands for that of the elements."""
    if is_empty(shape_of(data)):
        return full(0, node.shape, node.dtype)
    flat = reshape(data, (idioms.product(shape_of(data)), 1))
    low, high = _range(flat, float(node["min"]), float(node["max"]))
    scaled = (flat - low) / (high - low) * bins
    last = op.minimum(op.floor(scaled), like(bins - 1, flat))
    inside = op.logical_and(flat >= low, flat <= high)
    same = op.equal(last, constant(list(range(bins)), node.dtype))
    return op.sum(cast(op.logical_and(same, inside), node.dtype), axis=(0,))


def _range(data: Expr, low: float, high: float) -> tuple[Expr, Expr]:
    """The bounds that are given, or those of the data, one below and above where they are the same."""
    if low != high:
        return like(low, data), like(high, data)
    return _apart(op.min(data), op.max(data), 1.0)


def _apart(first: Expr, last: Expr, by: float) -> tuple[Expr, Expr]:
    """Two bounds, moved apart where they are the same."""
    same = op.equal(first, last)
    return op.where(same, first - by, first), op.where(same, last + by, last)


# ----------------------------------------------------------------------------------------------------------- Histograms
def _edges(node: TorchNode, data: Expr, count: int, given: Sequence[float] | None) -> Expr:
    """`count` + 1 edges of equal parts of a range: the one given, or that of the data."""
    if given is not None:
        low, high = float(given[0]), float(given[1])
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        return constant(np.linspace(low, high, count + 1), node.dtype)
    if is_empty(shape_of(data)):
        return constant(np.linspace(0, 1, count + 1), node.dtype)
    first, last = _apart(op.min(data, axis=(0,)), op.max(data, axis=(0,)), 0.5)
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
    return op.minimum(op.maximum(position, 0), count - 1), inside


def _counts(node: TorchNode, rows: Expr, edges: Sequence[Expr]) -> Expr:
    """The number of rows, or their weight, in each cell of a grid; with `density` over weight and size."""
    extents = [shape_of(one)[0] - 1 for one in edges]
    parts = [_part(idioms.index_axis(rows, 1, axis), one) for axis, one in enumerate(edges)]
    cell, inside = parts[0]
    for extent, (position, within) in zip(extents[1:], parts[1:]):
        cell, inside = cell * extent + position, op.logical_and(inside, within)
    weight = node.get("weight")
    weight = full(1, shape_of(cell), node.dtype) if weight is None else reshape(weight, shape_of(cell))
    kept = op.where(inside, weight, 0)
    empty = full(0, (math.prod(extents),), node.dtype)
    total: Expr = empty if is_empty(shape_of(cell)) else op.scatter_elements(empty, cell, kept, 0, "add")
    if node["density"]:
        total = total / op.sum(total, axis=(0,))
        widths: Expr = constant(1, node.dtype)
        for axis, one in enumerate(edges):
            width = slice_axis(one, 0, 1, extents[axis] + 1) - slice_axis(one, 0, 0, extents[axis])
            widths = widths * idioms.on_axis(width, axis, len(edges))
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
        _edges(node, idioms.index_axis(rows, 1, axis), count, None if given is None else given[2 * axis : 2 * axis + 2])
        for axis, count in enumerate(bins)
    ]


def _rows(node: TorchNode) -> Expr:
    *lead, columns = shape_of(node["self"])
    return reshape(node["self"], (idioms.product(lead), columns))


@converts("aten._histogramdd_from_bin_cts", "aten._histogramdd_from_bin_tensors")
def convert_histogramdd(node: TorchNode) -> Expr:
    rows = _rows(node)
    return _counts(node, rows, _grid(node, rows))


converts.functions({"aten._histogramdd_bin_edges": lambda node: _grid(node, _rows(node))})


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
