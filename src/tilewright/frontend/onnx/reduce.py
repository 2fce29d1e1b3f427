"""Reductions along axes, and the position of an extremum."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.idioms import cast, like
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

_REDUCTIONS = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceProd": "prod", "ReduceMax": "max", "ReduceMin": "min",
    "ReduceL1": "l1", "ReduceL2": "l2", "ReduceSumSquare": "sum_square", "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
}  # fmt: skip
#: Those with roots and logarithms: of integers computed in float64 and cut off, as ONNX's reference does.
_OF_FLOATS = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")


@converts(*_REDUCTIONS)
@in_float32
def convert_reduce(node: OnnxNode) -> Expr:
    """Over axes, which are an attribute in older opsets and an input in later ones."""
    rank, axes = node.rank(), node.numbers("axes", 1)
    keepdims, keep_all = bool(node.attr("keepdims", 1)), bool(node.attr("noop_with_empty_axes", 0))
    if not axes and keep_all:
        return _elementwise_part(node)
    chosen = tuple(sorted(node.axes(axes or range(rank), rank)))
    if any(node.shape()[axis] == 0 for axis in chosen) and node.op_type in _OF_NOTHING:
        return _of_nothing(node, chosen, keepdims)
    reduction, data = REDUCTIONS[_REDUCTIONS[node.op_type]], node[0]
    if node.op_type in _OF_FLOATS and node.dtype().is_int:
        data = op.cast(data, dtype="float64")
    elif node.dtype().is_bool:  # extrema alone
        data = op.cast(data, dtype="uint8")
    return cast(reduction(data, axis=chosen, keepdims=keepdims), node.dtype())


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
    """The result of a reduction over no axis: the function applied to each element before and after the sum."""
    data = node[0]
    if node.op_type in ("ReduceL1", "ReduceL2"):
        return op.abs(data)
    if node.op_type == "ReduceSumSquare":
        return data * data
    if node.op_type != "ReduceLogSum":
        return data
    if node.dtype().is_int:
        return cast(op.log(op.cast(data, dtype="float64")), node.dtype())
    return op.log(data)


@converts("ArgMax", "ArgMin")
def convert_arg_extremum(node: OnnxNode, data: Expr, keepdims: bool = True, select_last_index: bool = False) -> Expr:
    """Position (int64) of the first extremum along an axis, or of the last one."""
    axis = node.named_axis(0)
    reduction = op.argmax if node.op_type == "ArgMax" else op.argmin
    found = cast(
        reduction(op.reverse(data, axis=axis) if select_last_index else data, axis=axis, keepdims=keepdims), "int64"
    )
    return like(node.shape()[axis] - 1, found) - found if select_last_index else found
