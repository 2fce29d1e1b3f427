"""rfactor: a reduction in two steps, the first of which makes partial results that are independent of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.errors import ScheduleError
from tilewright.te.itervar import IterType, IterVar
from tilewright.te.leaf_axes import axis_extents, made_of, root_values
from tilewright.te.operation import ComputeOp
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.stage import Stage
from tilewright.te.tensor import Tensor
from tilewright.tir import op as tir_op
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, IntImm, Reduce, Var

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule


def rfactor(schedule: Schedule, tensor: Tensor, axis: IterVar, factor_axis: int) -> list[Tensor]:
    """See `Schedule.rfactor`; returns the new tensors, one for each output of the reduction."""
    stage = schedule[tensor]
    op = stage.op
    _check(stage, axis)
    assert isinstance(op, ComputeOp)
    count = len(op.axis) + 1
    position = factor_axis if factor_axis >= 0 else factor_axis + count
    if not 0 <= position < count:
        raise ScheduleError(f"rfactor of {stage.name}: factor_axis {factor_axis} is outside the {count} dimensions")
    partial = _partial(stage, op, axis, position)
    new_stage = schedule.insert(schedule.stages.index(stage), partial)
    new_stage.scope = ""
    again = IterVar(partial.axis[position].dom, Var(f"{axis.name}.v", axis.var.dtype), IterType.REDUCE)
    loads = [t(*[iv.var for iv in (*op.axis[:position], again, *op.axis[position:])]) for t in partial.outputs]
    always = tir_op.const(True, "bool")
    reduce = op.body[0]
    assert isinstance(reduce, Reduce)
    made = [Reduce(reduce.combiner, loads, (again,), always, i, reduce.init) for i in range(len(op.body))]
    stage.op = op.with_body(made)
    schedule.stage_map[stage.op] = stage
    _replace_reduction(stage, again)
    return list(partial.outputs)


def _partial(stage: Stage, op: ComputeOp, axis: IterVar, position: int) -> ComputeOp:
    """The partial results: `axis` is dimension `position` of them, the other axes of the reduction are reduced over."""
    reduce = op.body[0]
    assert isinstance(reduce, Reduce)
    extents = axis_extents(stage, IterType.REDUCE)
    factor = _axis(axis, extents[axis], IterType.DATA_PAR)
    left = [iv for iv in stage.leaf_iter_vars if _reduces(iv) and iv is not axis]
    rest = {iv: _remaining(iv, extents[iv]) for iv in sorted(left, key=lambda iv: iv not in op.reduce_axis)}
    data = [IterVar(iv.dom, Var(iv.name, iv.var.dtype), iv.iter_type) for iv in op.axis]
    values, conditions = root_values(stage, extents, {axis: factor, **rest})
    values |= {old.var: new.var for old, new in zip(op.axis, data, strict=True)}
    rename = BodyRewriter(values)
    condition = tir_op.all(rename(reduce.condition), *conditions)
    source = [rename(x) for x in reduce.source]
    return ComputeOp(
        f"{op.name}.rf",
        [*data[:position], factor, *data[position:]],
        _partial_body(reduce, source, tuple(rest.values()), condition, reduce.combiner.identity),
        op.tag,
        op.attrs,
        op.position,
    )


def _check(stage: Stage, axis: IterVar) -> None:
    if not isinstance(stage.op, ComputeOp) or not stage.op.is_reduction:
        raise ScheduleError(f"rfactor of {stage.name}: it is no reduction")
    if axis not in stage.leaf_iter_vars:
        order = ", ".join(iv.name for iv in stage.leaf_iter_vars)
        raise ScheduleError(f"rfactor of {stage.name}: {axis.name} is not one of its loops ({order})")
    if not _reduces(axis):
        raise ScheduleError(f"rfactor of {stage.name}: {axis.name} is a data axis; choose an axis of the reduction")
    for other in stage.schedule.stages:
        if other.attach_stage is stage and other.attach_ivar is not None and _reduces(other.attach_ivar):
            raise ScheduleError(
                f"rfactor of {stage.name}: {other.name} is computed at its reduction axis {other.attach_ivar.name}; "
                "call compute_at after rfactor"
            )
    marked = [iv.name for iv in stage.leaf_iter_vars if _reduces(iv) and iv in stage.attrs]
    if marked:
        raise ScheduleError(f"rfactor of {stage.name}: {', '.join(marked)} is marked already; mark it after rfactor")


def _reduces(axis: IterVar) -> bool:
    return axis.iter_type is IterType.REDUCE


def _axis(old: IterVar, extent: Expr, kind: IterType) -> IterVar:
    return IterVar(Range(IntImm(extent.dtype, 0), extent), Var(old.name, old.var.dtype), kind)


def _remaining(axis: IterVar, extent: Expr) -> IterVar:
    """The loop `axis` of the reduction in the partial results: itself, or one of its variable where it was made by a
    split or fusion; the stage has it no longer.
    """
    return IterVar(Range(IntImm(extent.dtype, 0), extent), axis.var, IterType.REDUCE) if axis.dom is None else axis


def _partial_body(
    reduce: Reduce, source: list[Expr], rest: tuple[IterVar, ...], condition: Expr, identity: tuple[Expr, ...]
) -> list[Expr]:
    """One partial result: a reduction over the remaining axes, or one element where none remain."""
    if rest:
        return [Reduce(reduce.combiner, source, rest, condition, i) for i in range(len(source))]
    return [tir_op.if_then_else(condition, x, start) for x, start in zip(source, identity, strict=True)]


def _replace_reduction(stage: Stage, axis: IterVar) -> None:
    """The stage's reduction loops become the one loop over `axis`, instead of the outermost."""
    leaves = stage.leaf_iter_vars
    first = next(i for i, iv in enumerate(leaves) if _reduces(iv))
    stage.leaf_iter_vars = [*leaves[:first], axis, *(iv for iv in leaves[first:] if not _reduces(iv))]
    stage.relations = [r for r in stage.relations if not _reduces(made_of(r))]
