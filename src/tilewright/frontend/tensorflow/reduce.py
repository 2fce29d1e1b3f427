"""Sums and the like, orders, and segments."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.builders.reductions import REDUCTIONS, in_top_k, segmented
from tilewright.frontend.idioms import cast, full, is_float, one_hot, product
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Dims
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_REDUCTIONS = {name.capitalize(): REDUCTIONS[name] for name in ("sum", "prod", "max", "min", "mean", "all", "any")}


@converts(*_REDUCTIONS)
def convert_reduction(node: TfNode) -> Any:
    keep = node.attr("keep_dims", False)
    if node.operator == "Prod" and isinstance(node.values[0], Dims) and not keep:
        return Dims([product(node.values[0].extents)], node.values[0].dtype, True)
    axes = tuple(node.axis(axis) for axis in node.ints(1))
    if not axes:
        return node[0]
    if node.operator == "Mean" and not is_float(node.dtype()):
        node.unsupported(f"the mean of {node.dtype()}")
    return _REDUCTIONS[node.operator](node[0], axis=axes, keepdims=keep)


@converts("EuclideanNorm")
def convert_norm(node: TfNode) -> Expr:
    axes = [node.axis(axis) for axis in node.ints(1)]
    return REDUCTIONS["l2"](node[0], axis=axes, keepdims=node.attr("keep_dims", False))


@converts("ArgMax", "ArgMin")
def convert_argmax(node: TfNode) -> Expr:
    function = op.argmax if node.operator == "ArgMax" else op.argmin
    data = cast(node[0], "int32") if node.dtype() == "bool" else node[0]
    return cast(function(data, axis=node.axis(node.ints(1, "axis")[0])), node.type("output_type", "int64"))


@converts("Cumsum", "Cumprod")
def convert_cumulative(node: TfNode) -> Expr:
    axis, reverse = node.axis(node.ints(1, "axis")[0]), node.attr("reverse", False)
    exclusive = node.attr("exclusive", False)
    if node.operator == "Cumsum":
        return op.cumsum(node[0], axis=axis, exclusive=exclusive, reverse=reverse)
    data = op.reverse(node[0], axis=axis) if reverse else node[0]
    made = op.cumprod(data, axis=axis, exclusive=exclusive)
    return op.reverse(made, axis=axis) if reverse else made


@converts("TopK", "TopKV2")
def convert_top_k(node: TfNode) -> list[Expr]:
    count = node.ints(1, "count")[0] if node.operator == "TopKV2" else node.attr("k")
    made = op.topk(node[0], k=count, axis=-1, dtype="int32")
    return [made[0], cast(made[1], node.type("index_type", "int32"))]


@converts("InTopK", "InTopKV2")
def convert_in_top_k(node: TfNode) -> Expr:
    """False too of a sample with a score that is not finite, and of a position that is none."""
    count = node.ints(2, "count")[0] if node.operator == "InTopKV2" else node.attr("k")
    return op.logical_and(in_top_k(node[0], node[1], count), op.all(op.isfinite(node[0]), axis=(1,)))


@converts("LowerBound", "UpperBound")
def convert_bound(node: TfNode) -> Expr:
    made = op.searchsorted(node[0], node[1], right=node.operator == "UpperBound", dtype="int32")
    return cast(made, node.type("out_type", "int32"))


@converts(
    "SegmentSum", "SegmentProd", "SegmentMax", "SegmentMin", "UnsortedSegmentSum", "UnsortedSegmentProd",
    "UnsortedSegmentMax", "UnsortedSegmentMin", "SegmentMean",
)  # fmt: skip
def convert_segments(node: TfNode) -> Expr:
    kind = node.operator.rpartition("Segment")[2].lower()
    data, ids = node[0], node[1]
    if node.operator.startswith("Unsorted"):
        count = node.ints(2, "number of segments")[0]
    else:
        positions = node.static(1, "segments") if hasattr(ids, "data") else None
        if positions is None:
            node.unsupported("segments whose number is computed; use an unsorted segment operator")
        count = int(positions.max(initial=-1)) + 1
    if node.rank(1) != 1:
        node.unsupported("segments of more than one axis")
    if kind != "mean":
        return segmented(kind, data, ids, count)
    ones = full(1, (node.shape(1)[0],), node.dtype())
    sizes = op.maximum(segmented("sum", ones, ids, count), 1)
    return segmented("sum", data, ids, count) / op.expand_dims(sizes, axis=1, num_newaxis=node.rank() - 1)


@converts("Bincount")
def convert_bincount(node: TfNode) -> Expr:
    size = node.ints(1, "size")[0]
    if node.rank() != 1 or node.shape(2) not in ((0,), node.shape()):
        node.unsupported("counts of other than one axis")
    data = node[0]
    counted = one_hot(data, size, "int32")
    if node.shape(2) == (0,):
        return cast(op.sum(counted, axis=(0,)), node.type("T", "int32"))
    return op.sum(cast(counted, node.dtype(2)) * op.expand_dims(node[2], axis=1), axis=(0,))
