"""`tvm.te` where the classic function takes more than this package's own, and its math by classic names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.support.dtype import DType
from tilewright.te.bounds import infer_bounds
from tilewright.te.itervar import IterVar
from tilewright.te.operation import PlaceholderOp
from tilewright.te.scan import ScanOp
from tilewright.tir.arith.range import Range
from tilewright.tir.stmt import Stmt


def _reduction_or_pair(reducer: Callable[..., Any], pair: Callable[[Any, Any], Any], doc: str) -> Callable[..., Any]:
    def build(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Any:
        first = axis[0] if isinstance(axis, Sequence) and axis else axis
        return reducer(expr, axis, where, init) if isinstance(first, IterVar) else pair(expr, axis)

    build.__doc__ = doc
    return build


max = _reduction_or_pair(te.max, tir.maximum, "The maximum over reduction axes, or of two expressions.")
min = _reduction_or_pair(te.min, tir.minimum, "The minimum over reduction axes, or of two expressions.")


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction over axes, as `te.comm_reducer` makes it; of expressions in place of axes it is their combination."""
    reducer = te.comm_reducer(fcombine, fidentity, name)

    def reduce(expr: Any, axis: Any, *more: Any, **options: Any) -> Any:
        if isinstance(axis, IterVar | list | tuple):
            return reducer(expr, axis, *more, **options)
        combined = fcombine(expr, axis)
        for other in more:
            combined = fcombine(combined, other)
        return combined

    reduce.__name__, reduce.__doc__ = name, reducer.__doc__
    return reduce


def min_value(dtype: str) -> tir.Expr:
    """The smallest value of a type."""
    return tir.const(DType(dtype).finite_limits()[0], dtype)


def max_value(dtype: str) -> tir.Expr:
    """The largest value of a type."""
    return tir.const(DType(dtype).finite_limits()[1], dtype)


def div(a: Any, b: Any, span: Any = None) -> tir.Expr:
    """`te.div`: of integers rounded towards zero, as C does it; of floats the quotient."""
    a, b = tir.convert(a), tir.convert(b)
    return tir.truncdiv(a, b) if a.dtype.is_int and b.dtype.is_int else a / b


def indexdiv(a: Any, b: Any, span: Any = None) -> tir.Expr:
    """The quotient of two indices, which are not negative."""
    return tir.floordiv(a, b)


def indexmod(a: Any, b: Any, span: Any = None) -> tir.Expr:
    """The remainder of two indices, which are not negative."""
    return tir.floormod(a, b)


def InferBound(schedule: te.Schedule) -> dict[IterVar, Range]:
    """The range of each loop axis of `schedule`: how far it runs."""
    ranges: dict[IterVar, Range] = {}
    normal = schedule.normalize()
    for bounds in infer_bounds(normal).stages.values():
        for axis, extent in bounds.extents.items():
            low = bounds.mins.get(axis)
            ranges[axis] = Range(low.to_expr(extent.dtype) if low is not None else 0, extent)
    return ranges


def ScheduleOps(schedule: te.Schedule, bounds: Any = None, debug_keep_trivial_loop: bool = False) -> Stmt:
    """The loops of `schedule` as a statement; its placeholders and outputs are the buffers around it.

    Bounds are inferred anew, whatever `bounds` says.
    """
    states = {state for stage in schedule.stages if isinstance(stage.op, ScanOp) for state in stage.op.states}
    given = [stage.op.output(0) for stage in schedule.stages if isinstance(stage.op, PlaceholderOp)]
    inputs = [tensor for tensor in given if tensor not in states]
    outputs = [op.output(i) for op in schedule.outputs for i in range(op.num_outputs)]
    return te.schedule_to_tir(schedule, [*inputs, *outputs]).body
