"""Cache stages: `cache_read` and `cache_write`, which put copies of tensors in a given memory scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.arith.range import Range
from tilewright.errors import ScheduleError
from tilewright.te.itervar import IterType, IterVar
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.scope import check_scope
from tilewright.te.stage import Stage
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import Expr, IntImm, Reduce, Var

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule


def cache_read(schedule: Schedule, tensor: Tensor, scope: str, readers: Sequence[Any]) -> Tensor:
    """See `Schedule.cache_read`."""
    check_scope(scope, f"cache_read of {tensor.name}")
    source = schedule[tensor]
    original = schedule.tensor(tensor)
    reading = [schedule[reader] for reader in readers]
    for stage in reading:
        if original not in stage.op.input_tensors:
            raise ScheduleError(f"cache_read of {tensor.name}: {stage.name} does not read it")
    axis = [
        IterVar(Range(IntImm(d.dtype, 0), d), Var(f"ax{i}", d.dtype), IterType.DATA_PAR)
        for i, d in enumerate(original.shape)
    ]
    copy = ComputeOp(f"{tensor.name}.{scope}", axis, [original(*axis)])
    cached = schedule.insert(schedule.stages.index(source) + 1, copy)
    cached.scope = scope
    for stage in reading:
        _replace_op(schedule, stage, stage.op.with_inputs({original: copy.output(0)}))
    return copy.output(0)


def cache_write(schedule: Schedule, tensors: Sequence[Tensor], scope: str) -> list[Tensor]:
    """See `Schedule.cache_write`."""
    if not tensors:
        raise ScheduleError("cache_write needs a tensor")
    stage = schedule[tensors[0]]
    check_scope(scope, f"cache_write of {stage.name}")
    op = stage.op
    if not isinstance(op, ComputeOp):
        raise ScheduleError(f"cache_write of {stage.name}: a placeholder is given by the caller; only a te.compute has")
    if any(schedule[t] is not stage for t in tensors) or len(set(tensors)) != len(stage.outputs):
        raise ScheduleError(f"cache_write of {stage.name}: give all {len(stage.outputs)} outputs of the operation")
    if stage.relations or stage.leaf_iter_vars != [*op.axis, *op.reduce_axis] or stage.attrs:
        raise ScheduleError(
            f"cache_write of {stage.name}: call it before splitting, reordering or marking the loops of {stage.name}"
        )
    axis = [IterVar(iv.dom, Var(f"{iv.name}.c", iv.var.dtype), iv.iter_type) for iv in op.axis]
    inner = ComputeOp(f"{stage.origin_op.name}.{scope}", axis, _over(axis, op), op.tag, op.attrs, op.position)
    cached = schedule.insert(schedule.stages.index(stage), inner)
    cached.scope = scope
    stage.leaf_iter_vars = list(op.axis)
    _replace_op(schedule, stage, op.with_body([t(*op.axis) for t in inner.outputs]))
    return [inner.output(schedule.tensor(t).value_index) for t in tensors]


def _over(axis: Sequence[IterVar], op: ComputeOp) -> list[Expr]:
    """The body of `op` over `axis` for its own axes; reduction axes as long as these say become new ones."""
    values: dict[Var, Expr] = {old.var: new.var for old, new in zip(op.axis, axis, strict=True)}
    rename = BodyRewriter(values)
    made: dict[IterVar, IterVar] = {}
    for old in op.reduce_axis:
        assert old.dom is not None
        span = Range(rename(old.dom.min), rename(old.dom.extent))
        same = span.min is old.dom.min and span.extent is old.dom.extent
        made[old] = old if same else IterVar(span, Var(old.name, old.var.dtype), old.iter_type)
    rename = BodyRewriter(values | {old.var: new.var for old, new in made.items() if old is not new})
    return [_with_axes(rename(part), made) for part in op.body]


def _with_axes(body: Expr, made: Mapping[IterVar, IterVar]) -> Expr:
    if not isinstance(body, Reduce) or all(old is new for old, new in made.items()):
        return body
    axes = [made[old] for old in body.axis]
    return Reduce(body.combiner, body.source, axes, body.condition, body.value_index, body.init)


def _replace_op(schedule: Schedule, stage: Stage, op: Operation) -> None:
    """Gives `stage` an operation with the same axes that computes something else; its readers name the same tensors."""
    stage.op = op
    schedule.stage_map[op] = stage
