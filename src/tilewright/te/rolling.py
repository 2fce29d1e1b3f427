"""Along which loop and dimension the part of a stage with a rolling buffer moves on."""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.te.bounds import Bounds
from tilewright.te.itervar import IterVar
from tilewright.te.stage import Stage, nested_in
from tilewright.tir import op as tir_op
from tilewright.tir.expr import Call, Expr, IntImm
from tilewright.tir.visitor import collect_vars


def rolling_value(stage: Stage, bounds: Bounds) -> Expr | None:
    """The value of the attribute "rolling_buffer" for `stage`; None where its parts have nothing in common.

    They roll along the innermost loop around the stage that moves the part. Raises ScheduleError where there is none,
    or the part moves along several dimensions, or by what is no constant.
    """
    what = f"rolling_buffer of {stage.name}"
    if stage.attach_stage is None:
        raise ScheduleError(f"{what}: it is computed at the root; compute_at a loop of its reader")
    own = bounds.stages[stage]
    loops = [iv for at, loop in nested_in(stage) for iv in reversed(_around(at, loop))]
    for iv in loops:
        moved = [
            d for d, axis in enumerate(stage.op.axis) if any(iv.var in collect_vars(a) for a in own.mins[axis].terms)
        ]
        if not moved:
            continue
        if len(moved) > 1:
            raise ScheduleError(
                f"{what}: loop {iv.name} moves its part along {len(moved)} dimensions; it can roll along one"
            )
        axis = stage.op.axis[moved[0]]
        terms, extent = own.mins[axis].terms, own.extents[axis]
        step = terms.get(iv.var)
        if step is None or step < 1 or len([a for a in terms if iv.var in collect_vars(a)]) > 1:
            raise ScheduleError(f"{what}: loop {iv.name} does not move its part by a constant number of steps forward")
        if not isinstance(extent, IntImm):
            raise ScheduleError(f"{what}: its part has the symbolic extent {extent!r} along {axis.name}")
        if step >= extent.value:
            return None
        return Call("handle", "rolling", (iv.var, tir_op.const(moved[0]), tir_op.const(int(step))))
    raise ScheduleError(f"{what}: no loop around it moves the part that is computed there")


def _around(stage: Stage, axis: IterVar) -> list[IterVar]:
    """The loops of `stage` around what is computed at `axis`."""
    return stage.leaf_iter_vars[: stage.leaf_iter_vars.index(axis) + 1]
