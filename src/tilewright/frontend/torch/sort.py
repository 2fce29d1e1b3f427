"""Order: sorting, the largest elements, positions in sorted rows."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.idioms import (
    as_vector,
    cast,
    constant,
    full,
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
    flat = reshape(data, (product(shape_of(data)), 1))
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
    first, last, one = op.min(data), op.max(data), like(1, data)
    same = op.equal(first, last)
    return op.where(same, first - one, first), op.where(same, last + one, last)
