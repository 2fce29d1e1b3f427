"""The operations of a schedule's computations, counted in their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.tir.expr import Add, Call, Div, Max, Min, Mul, Reduce, Sub
from tilewright.tir.op import as_const
from tilewright.tir.visitor import collect

_ARITHMETIC = (Add, Sub, Mul, Div, Max, Min, Call)


def count_flops(schedule: te.Schedule) -> float:
    """Operations on the elements of all computations: one for each arithmetic node, at every point of its loops."""
    return float(sum(_of(stage.op) for stage in schedule.stages if isinstance(stage.op, te.ComputeOp)))


def _of(op: te.ComputeOp) -> int:
    points = _points(op.axis)
    body: Any = op.body[0]
    if not isinstance(body, Reduce):
        return points * _nodes(body)
    return points * _points(op.reduce_axis) * (1 + _nodes(body.source[0]))


def _points(axes: Sequence[te.IterVar]) -> int:
    """Iterations of a loop nest; an open size counts for one."""
    extents: list[Any] = [1 if axis.dom is None else as_const(axis.dom.extent) for axis in axes]
    return math.prod([int(extent or 1) for extent in extents])


def _nodes(expr: Any) -> int:
    """Arithmetic on values of the expression's type; what indices are computed by is of another, as a rule."""
    return sum(node.dtype == expr.dtype for node in collect(expr, *_ARITHMETIC))
