"""Groups of stages that are placed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import ScheduleError
from tilewright.te.attach import AttachType
from tilewright.te.itervar import IterVar
from tilewright.te.operation import PlaceholderOp
from tilewright.te.step import step
from tilewright.te.tensor import Tensor

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule
    from tilewright.te.stage import Stage

ROOT, AT = AttachType.ROOT, AttachType.AT


class Group:
    """Stages that are computed at one position: those of them that are not placed on their own go where the group goes.

    A group that is not placed goes where the group goes that it is in.
    """

    def __init__(self, schedule: Schedule, stages: Sequence[Stage]) -> None:
        self.schedule = schedule
        self.stages = tuple(stages)
        self.attach_type = ROOT
        self.attach_stage: Stage | None = None
        self.attach_ivar: IterVar | None = None
        self.group: Group | None = None  # the one that this is in

    @property
    def name(self) -> str:
        """The names of the stages."""
        return ", ".join(s.name for s in self.stages)

    def __repr__(self) -> str:
        return f"Group ({self.name})"

    @step
    def compute_at(self, parent: Any, axis: IterVar) -> None:
        """All stages of the group computed inside the loop `axis` of the stage `parent`, only as much as is read there.

        before: B in global[16]: C in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16):
            C[i] = B[i] * 2.0; for i in range(16): D[i] = C[i] - 3.0)
        call: s.create_group([C], [A]).compute_at(s[D], i)
        after: for i in range(16): B in global[1]: C in global[1]: (B[0] = A[i] + 1.0; C[0] = B[0] * 2.0; D[i] =
            C[0] - 3.0)
        """
        stage = self.schedule[parent] if isinstance(parent, Tensor) else parent
        if stage in self.stages:
            raise ScheduleError(f"compute_at of the group ({self.name}): {stage.name} belongs to it")
        if axis not in stage.leaf_iter_vars:
            order = ", ".join(iv.name for iv in stage.leaf_iter_vars)
            raise ScheduleError(
                f"compute_at of the group ({self.name}): {axis.name} is not a loop of {stage.name}; "
                f"its loops are ({order})"
            )
        for member in self.stages:
            member.check_may_move("compute_at")
        self.attach_type, self.attach_stage, self.attach_ivar = AT, stage, axis

    @step
    def compute_root(self) -> None:
        """The stages of the group computed before their readers, at the top of the function (the default).

        before: B in global[16]: C in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16):
            C[i] = B[i] * 2.0; for i in range(16): D[i] = C[i] - 3.0)
        call: g = s.create_group([C], [A]); g.compute_at(s[D], i); g.compute_root()
        after: B in global[16]: C in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16):
            C[i] = B[i] * 2.0; for i in range(16): D[i] = C[i] - 3.0)
        """
        self.attach_type, self.attach_stage, self.attach_ivar = ROOT, None, None


def create_group(
    schedule: Schedule, outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool
) -> Group:
    """See `Schedule.create_group`."""
    first = {schedule[t] for t in inputs}
    last = {schedule[t] for t in outputs}
    after: set[Stage] = set()  # stages that read an input, directly or not
    for stage in schedule.stages:
        sources = {schedule[t] for t in stage.op.input_tensors}
        if sources & (after | first):
            after.add(stage)
    before = set(last)  # stages that an output reads
    for stage in reversed(schedule.stages):
        if stage in before and stage not in first:
            before.update(schedule[t] for t in stage.op.input_tensors)
    chosen = (after & before - first) | (first & before if include_inputs else set())
    members = [s for s in schedule.stages if s in chosen and not isinstance(s.op, PlaceholderOp)]
    missing = [s.name for s in last if s not in members]
    if missing:
        raise ScheduleError(f"create_group: {', '.join(sorted(missing))} does not depend on the group's inputs")
    group = Group(schedule, members)
    _nest(group)
    return group


def _nest(group: Group) -> None:
    """Puts `group` around the groups of its stages, or within one that has all of them.

    Raises ScheduleError where it has a part of another group only.
    """
    inside = set(group.stages)
    outermost = {stage: list(stage.groups)[-1] for stage in group.stages if stage.group is not None}
    around = {one for stage in group.stages for one in stage.groups if inside < set(one.stages)}
    for stage in group.stages:
        for one in stage.groups:
            if one not in around and not set(one.stages) <= inside:
                raise ScheduleError(f"create_group: {stage.name} is in another group already, with stages beyond this")
    if around:
        group.group = min(around, key=lambda one: len(one.stages))
    for stage in group.stages:
        if stage.group is None or stage.group in around:
            stage.group = group
        elif not around:
            outermost[stage].group = group
        else:
            nearest = [one for one in stage.groups if one not in around][-1]
            nearest.group = group
