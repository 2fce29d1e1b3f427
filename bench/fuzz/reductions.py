"""Reductions, and what goes along one axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.values import bounds, is_float

REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip


def axes_of(draw: Draft, operator: str, value: Value, axes: list[int] | None) -> tuple[list[Value | None], dict]:
    """Axes as the opset takes them: as an input behind `value`, or as an attribute."""
    if axes is None:
        return [value], {}
    if any(entry.name == "axes" for entry in draw.schema(operator).inputs):
        return [value, draw.known(np.array(axes, np.int64))], {}
    return [value], {"axes": axes}


def reduce(draw: Draft, operator: str) -> None:
    """A reduction over some axes, none, or all."""
    data = draw.operand([draw.element(operator)])
    axes = draw.axes(data.rank) if draw.chance(0.7) else None
    if not axes and draw.since(operator) < 13:
        axes = None  # the attribute may not be empty
    inputs, attributes = axes_of(draw, operator, data, axes)
    if draw.chance(0.7):
        attributes["keepdims"] = draw.integer(0, 1)
    if draw.chance(0.2):
        attributes["noop_with_empty_axes"] = draw.integer(0, 1)
    draw.emit(operator, inputs, undefined=_overflows(operator, data, axes), **attributes)


def _overflows(operator: str, data: Value, axes: list[int] | None) -> bool:
    """True if a root of squares is beyond the integer type of the data, or the sum for a mean beyond 64 bits."""
    if is_float(data.element) or operator not in ("ReduceL2", "ReduceMean"):
        return False
    exact, axis = data.array.astype(np.float64), tuple(axes) if axes else None
    if operator == "ReduceL2":
        return bool((np.sqrt((exact**2).sum(axis)) >= bounds(data.element)[1]).any())
    return bool((np.abs(exact).sum(axis) >= 2.0**63).any())


def arg_reduce(draw: Draft, operator: str) -> None:
    """ArgMax and ArgMin; of NaN they are not defined."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0 and 0 not in v.shape)
    undefined = is_float(data.element) and bool(np.isnan(data.array.astype(np.float64)).any())
    draw.emit(
        operator,
        [data],
        undefined=undefined,
        axis=draw.axis(data.rank) if draw.chance(0.8) else None,
        keepdims=draw.integer(0, 1),
        select_last_index=draw.integer(0, 1) if draw.chance(0.3) else None,
    )


def along_axis(draw: Draft, operator: str) -> None:
    """Softmax, LogSoftmax, Hardmax, LpNormalization."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    least = -data.rank if draw.since(operator) >= 11 or operator == "LpNormalization" else 0
    axis = draw.integer(least, data.rank - 1) if draw.chance(0.8) else None
    if axis is None and draw.since(operator) < 13 and data.rank < 2 and operator != "LpNormalization":
        raise Rejected("the default axis is 1")
    p = draw.integer(1, 2) if operator == "LpNormalization" and draw.chance(0.7) else None
    draw.emit(operator, [data], axis=axis, p=p)


def cumulative(draw: Draft, operator: str) -> None:
    """CumSum and CumProd along an axis that is an input."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    axis = np.array(draw.axis(data.rank), draw.choice([np.int32, np.int64]))
    draw.emit(operator, [data, draw.known(axis)], exclusive=draw.integer(0, 1), reverse=draw.choice([None, 0, 1]))


def top_k(draw: Draft, operator: str) -> None:
    """TopK; of NaN it is not defined."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0 and v.shape[-1] > 0)
    axis = draw.axis(data.rank) if draw.chance(0.6) else None
    extent = data.shape[-1 if axis is None else axis]
    count = draw.integer(1, extent)
    undefined = is_float(data.element) and bool(np.isnan(data.array.astype(np.float64)).any())
    if draw.since(operator) < 10:
        draw.emit(operator, [data], 2, undefined=undefined, axis=axis, k=count)
        return
    k = draw.known(np.array([count], np.int64))
    largest = draw.choice([None, 0, 1])
    draw.emit(operator, [data, k], 2, undefined=undefined, axis=axis, largest=largest, sorted=draw.choice([None, 1]))


def unique(draw: Draft, operator: str) -> None:
    """Unique, sorted or not, of all elements or along an axis."""
    made = {name for node in draw.nodes for name in node.output}

    def fits(value: Value) -> bool:
        """Rounding may not decide how many different elements there are."""
        return value.array.size > 0 and not (is_float(value.element) and value.name in made)

    data = draw.operand([draw.element(operator)], fits=fits)
    if is_float(data.element) and np.isnan(data.array.astype(np.float64)).any():
        raise Rejected("NaN equals nothing")
    axis = draw.axis(data.rank) if data.rank and draw.chance(0.4) else None
    wanted = [True, *(draw.chance(0.5) for _ in range(3))]
    draw.emit(operator, [data], wanted, axis=axis, sorted=draw.choice([None, 0, 1]))


def loss(draw: Draft, operator: str) -> None:
    """NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""
    element = draw.element(operator, only=(T.FLOAT, T.DOUBLE, T.FLOAT16))
    scores = draw.operand([element], fits=lambda v: v.rank in (2, 3, 4) and 0 not in v.shape)
    shape = (scores.shape[0], *scores.shape[2:])
    classes = scores.shape[1]
    target = np.array([draw.integer(0, classes - 1) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)
    weights = draw.leaf(element, (classes,), "positive") if draw.chance(0.4) else None
    ignored = draw.integer(0, classes - 1) if draw.chance(0.3) else None
    if ignored is not None and (target == ignored).all():
        raise Rejected("nothing is left to average")
    reduction = draw.choice(["none", "sum", "mean"])
    wanted = [True] + ([draw.chance(0.5)] if operator == "SoftmaxCrossEntropyLoss" else [])
    draw.emit(operator, [scores, draw.known(target), weights], wanted, reduction=reduction, ignore_index=ignored)


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    **dict.fromkeys(REDUCTIONS, reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), along_axis),
    **dict.fromkeys(("CumSum", "CumProd"), cumulative),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), loss),
    "TopK": top_k, "Unique": unique,
}  # fmt: skip
