"""The operations of a schedule's computations, counted in their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.errors import InputError
from tilewright.tir.expr import (
    Add,
    BufferLoad,
    Call,
    CompareExpr,
    Div,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mul,
    ProducerLoad,
    Reduce,
    Sub,
)  # fmt: skip
from tilewright.tir.op import as_const
from tilewright.tir.visitor import children

#: The attribute of a computation by which its author says how many operations it has.
_STATED = "FLOP"

_CHOICE = "if_then_else"
_ARITHMETIC = (Add, Sub, Mul, Div, FloorDiv, Max, Min, Call)


def count_flops(schedule: te.Schedule) -> float:
    """Operations on the elements of all computations: one for each arithmetic node, at every point of its loops."""
    return float(sum(_of(stage.op) for stage in schedule.stages if isinstance(stage.op, te.ComputeOp)))


def compute_flop(schedule: te.Schedule) -> float:
    """The same as templates' authors ask for it. Raises `InputError` where the computations only move data."""
    found = count_flops(schedule)
    if not found:
        raise InputError("compute_flop: the schedule has no arithmetic to count; set it by cfg.add_flop(…)")
    return found


def _of(op: te.ComputeOp) -> int:
    if _STATED in op.attrs:
        stated = op.attrs[_STATED]
        return int(as_const(stated) or 0) if isinstance(stated, Expr) else int(stated)
    points = _points(op.axis)
    body: Any = op.body[0]
    if not isinstance(body, Reduce):
        return points * _nodes(body)
    return points * _points(op.reduce_axis) * (1 + _nodes(body.source[0]))


def _points(axes: Sequence[te.IterVar]) -> int:
    """Iterations of a loop nest; a symbolic dimension counts for one."""
    extents: list[Any] = [1 if axis.dom is None else as_const(axis.dom.extent) for axis in axes]
    return math.prod([int(extent or 1) for extent in extents])


def _nodes(expr: Any) -> int:
    """Arithmetic on values of the expression's type, and comparisons of real numbers; choosing between two values and
    what the indices of loads are computed by is none."""
    seen, waiting, count = set(), [expr], 0
    while waiting:
        node = waiting.pop()
        if node in seen or isinstance(node, BufferLoad | ProducerLoad):
            continue
        seen.add(node)
        if isinstance(node, CompareExpr):
            count += node.a.dtype.is_float
        else:
            chooses = isinstance(node, Call) and node.op == _CHOICE
            count += isinstance(node, _ARITHMETIC) and node.dtype == expr.dtype and not chooses
        waiting += children(node)
    return count
