"""Cache stages: `cache_read` and `cache_write`, which put copies of tensors in a given memory scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import ScheduleError
from tilewright.te.axis_attr import first_loops
from tilewright.te.itervar import IterType, IterVar
from tilewright.te.leaf_axes import axis_extents, leaf_values, made_of, root_values
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.scope import check_scope
from tilewright.te.stage import Stage
from tilewright.te.tensor import Tensor
from tilewright.tir import op as tir_op
from tilewright.tir.arith.range import Range
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
        replace_op(schedule, stage, stage.op.with_inputs({original: copy.output(0)}))
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
        raise ScheduleError(f"cache_write of {stage.name}: pass all {len(stage.outputs)} outputs of the operation")
    if (stage.leaf_iter_vars, stage.attrs) == first_loops(op):
        axis = [IterVar(iv.dom, Var(f"{iv.name}.c", iv.var.dtype), iv.iter_type) for iv in op.axis]
        inner = ComputeOp(f"{stage.origin_op.name}.{scope}", axis, _over(axis, op), op.tag, op.attrs, op.position)
        positions: list[Expr] = [iv.var for iv in op.axis]
    else:
        inner, positions = _in_loop_order(stage, op, f"{stage.origin_op.name}.{scope}")
    cached = schedule.insert(schedule.stages.index(stage), inner)
    cached.scope = scope
    copied = [t(*positions) for t in inner.outputs]
    plain = {key: value for key, value in op.attrs.items() if key != "intrin"}
    stage.leaf_iter_vars, stage.relations, stage.attrs = list(op.axis), [], {}
    replace_op(schedule, stage, ComputeOp(op.name, op.axis, copied, op.tag, plain, op.position))
    return [inner.output(schedule.tensor(t).value_index) for t in tensors]


def _in_loop_order(stage: Stage, op: ComputeOp, name: str) -> tuple[ComputeOp, list[Expr]]:
    """`op` with the data loops of `stage` as its axes, in their order, and where the elements of `op` lie in it.

    What a split that does not divide adds is 0, or the reduction of nothing.
    """
    _check_relayout(stage, op)
    extents = axis_extents(stage, IterType.DATA_PAR)
    loops = {
        iv: IterVar(Range(IntImm(iv.var.dtype, 0), extents[iv]), Var(f"{iv.name}.c", iv.var.dtype), iv.iter_type)
        for iv in stage.leaf_iter_vars
        if iv in extents
    }
    values, conditions = root_values(stage, extents, loops)
    positions = leaf_values(stage, extents)
    body = _renamed(op, values)
    if conditions:
        body = [_where(tir_op.all(*conditions), part) for part in body]
    return ComputeOp(name, list(loops.values()), body, position=op.position), [positions[iv] for iv in loops]


def _check_relayout(stage: Stage, op: ComputeOp) -> None:
    """Raises `ScheduleError` where the loops of `stage` say more than a layout."""
    marked = [iv.name for iv in stage.leaf_iter_vars if iv in stage.attrs]
    if marked:
        raise ScheduleError(
            f"cache_write of {stage.name}: {', '.join(marked)} is marked already; mark it after cache_write"
        )
    made = [made_of(relation) for relation in stage.relations]
    if any(iv.iter_type is IterType.REDUCE for iv in made):
        raise ScheduleError(
            f"cache_write of {stage.name}: its reduction is split or fused; do that on the tensor it returns"
        )
    for other in stage.schedule.stages:
        if other.attach_stage is stage and other.attach_ivar is not None and other.attach_ivar not in op.axis:
            raise ScheduleError(
                f"cache_write of {stage.name}: {other.name} is computed at its loop {other.attach_ivar.name}; "
                "call compute_at after cache_write"
            )


def _where(condition: Expr, body: Expr) -> Expr:
    """`body` under a condition: one more of a reduction, else 0."""
    if isinstance(body, Reduce):
        both = tir_op.all(condition, body.condition)
        return Reduce(body.combiner, body.source, body.axis, both, body.value_index, body.init)
    return tir_op.if_then_else(condition, body, tir_op.const(0, body.dtype))


def _over(axis: Sequence[IterVar], op: ComputeOp) -> list[Expr]:
    """The body of `op` over `axis` for its own axes."""
    return _renamed(op, {old.var: new.var for old, new in zip(op.axis, axis, strict=True)})


def _renamed(op: ComputeOp, values: Mapping[Var, Expr]) -> list[Expr]:
    """The body of `op` with `values` for its axes, and reduction axes of its own where their lengths follow these."""
    rename = BodyRewriter(values)
    made: dict[IterVar, IterVar] = {}
    for old in op.reduce_axis:
        assert old.dom is not None
        span = Range(rename(old.dom.min), rename(old.dom.extent))
        same = span.min is old.dom.min and span.extent is old.dom.extent
        made[old] = old if same else IterVar(span, Var(old.name, old.var.dtype), old.iter_type)
    rename = BodyRewriter({**values} | {old.var: new.var for old, new in made.items() if old is not new})
    return [_with_axes(rename(part), made) for part in op.body]


def _with_axes(body: Expr, made: Mapping[IterVar, IterVar]) -> Expr:
    if not isinstance(body, Reduce) or all(old is new for old, new in made.items()):
        return body
    axes = [made[old] for old in body.axis]
    return Reduce(body.combiner, body.source, axes, body.condition, body.value_index, body.init)


def replace_op(schedule: Schedule, stage: Stage, op: Operation) -> None:
    """Replace the operation of `stage` by another of the same axes; its readers name the same tensors."""
    stage.op = op
    schedule.stage_map[op] = stage
