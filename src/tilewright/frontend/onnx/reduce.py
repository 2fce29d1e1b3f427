"""Reductions along axes, and the position of an extremum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.frontend.onnx.build import cast, scalar_like
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

Reduction = Callable[[OnnxNode, Expr, tuple[int, ...], bool], Expr]


def _log_sum_exp(node: OnnxNode, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """The maximum is taken out first, so that no exponential overflows; an infinite one is not, as inf - inf is NaN."""
    largest = op.max(data, axis=axes, keepdims=True)
    peak = op.where(op.isfinite(largest), largest, scalar_like(node, 0, data))
    total = op.sum(op.exp(op.subtract(data, peak)), axis=axes, keepdims=True)
    result = op.add(op.log(total), peak)
    return result if keepdims else op.squeeze(result, axis=axes)


def _extremum(node: OnnxNode, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    reduction = op.max if node.op_type == "ReduceMax" else op.min
    if node.dtype(data).is_bool:
        return cast(node, reduction(op.cast(data, dtype="uint8"), axis=axes, keepdims=keepdims), "bool")
    return reduction(data, axis=axes, keepdims=keepdims)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": lambda node, x, axes, keep: op.sum(x, axis=axes, keepdims=keep),
    "ReduceMean": lambda node, x, axes, keep: op.mean(x, axis=axes, keepdims=keep),
    "ReduceProd": lambda node, x, axes, keep: op.prod(x, axis=axes, keepdims=keep),
    "ReduceMax": _extremum,
    "ReduceMin": _extremum,
    "ReduceL1": lambda node, x, axes, keep: op.sum(op.abs(x), axis=axes, keepdims=keep),
    "ReduceL2": lambda node, x, axes, keep: op.sqrt(op.sum(op.multiply(x, x), axis=axes, keepdims=keep)),
    "ReduceSumSquare": lambda node, x, axes, keep: op.sum(op.multiply(x, x), axis=axes, keepdims=keep),
    "ReduceLogSum": lambda node, x, axes, keep: op.log(op.sum(x, axis=axes, keepdims=keep)),
    "ReduceLogSumExp": _log_sum_exp,
}


#: Those with roots and logarithms: of integers computed in float64 and cut off, as ONNX's reference does.
_OF_FLOATS = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")


def _reduce(node: OnnxNode, axes: list[int] | None) -> Expr:
    rank = node.rank()
    keepdims, keep_all = bool(node.attr("keepdims", 1)), bool(node.attr("noop_with_empty_axes", 0))
    if not axes and keep_all:
        return _elementwise_part(node)
    chosen = tuple(sorted(node.normalize_axes(axes or range(rank), rank)))
    if any(node.shape()[axis] == 0 for axis in chosen) and node.op_type in _OF_NOTHING:
        return _of_nothing(node, chosen, keepdims)
    reduction = _REDUCTIONS[node.op_type]
    if node.op_type in _OF_FLOATS and node.dtype().is_int:
        return cast(node, reduction(node, op.cast(node[0], dtype="float64"), chosen, keepdims), node.dtype())
    return reduction(node, node[0], chosen, keepdims)


#: Of no elements: what leaves the result of more of them as it is, or (for the mean) 0 / 0.
_OF_NOTHING = {"ReduceMax": -np.inf, "ReduceLogSumExp": -np.inf, "ReduceMin": np.inf, "ReduceMean": np.nan}


def _of_nothing(node: OnnxNode, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """The result where an axis of extent 0 is reduced: the end of the range of types that have no infinity."""
    dtype, value = node.dtype(), _OF_NOTHING[node.op_type]
    if not dtype.is_float:
        low, high = dtype.limits()
        value = 0 if np.isnan(value) else low if value < 0 else high
    kept = [1 if axis in axes else size for axis, size in enumerate(node.shape()) if keepdims or axis not in axes]
    return op.full(Constant(np.asarray(value).astype(dtype.numpy)), shape=kept, dtype=str(dtype))


def _elementwise_part(node: OnnxNode) -> Expr:
    """What a reduction over no axis leaves: the function applied to each element before and after the sum."""
    data = node[0]
    if node.op_type in ("ReduceL1", "ReduceL2"):
        return op.abs(data)
    if node.op_type == "ReduceSumSquare":
        return op.multiply(data, data)
    if node.op_type != "ReduceLogSum":
        return data
    if node.dtype().is_int:
        return cast(node, op.log(op.cast(data, dtype="float64")), node.dtype())
    return op.log(data)


@converts(*_REDUCTIONS)
@in_float32
def convert_reduce_1(node: OnnxNode) -> Expr:
    """Axes as an attribute (opsets 1 to 17, ReduceSum to 12)."""
    return _reduce(node, node.attr("axes"))


@converts("ReduceSum", since=13)
@in_float32
def convert_reduce_sum_13(node: OnnxNode) -> Expr:
    """Axes as an optional input."""
    return _reduce(node, node.optional_ints(1, "axes"))


@converts(*(name for name in _REDUCTIONS if name != "ReduceSum"), since=18)
@in_float32
def convert_reduce_18(node: OnnxNode) -> Expr:
    """Axes as an optional input."""
    return _reduce(node, node.optional_ints(1, "axes"))


@converts("ArgMax", "ArgMin")
def convert_arg_extremum(node: OnnxNode) -> Expr:
    """Position (int64) of the first extremum along an axis, or of the last one."""
    axis, keepdims = node.axis(0), bool(node.attr("keepdims", 1))
    reduction = op.argmax if node.op_type == "ArgMax" else op.argmin
    data = node[0]
    last = bool(node.attr("select_last_index", 0))
    found = cast(node, reduction(op.reverse(data, axis=axis) if last else data, axis=axis, keepdims=keepdims), "int64")
    if last:
        return op.subtract(scalar_like(node, node.shape()[axis] - 1, found), found)
    return found
