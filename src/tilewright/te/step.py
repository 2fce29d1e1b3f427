"""Recording: what was done to a schedule, one `Step` for each call of a primitive, in order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tilewright.errors import ScheduleError
from tilewright.tir.position import Position, caller

if TYPE_CHECKING:
    from tilewright.te.operation import Operation
    from tilewright.te.stage import Stage

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Step:
    """The primitive `name` of `stage` (None: of the schedule itself), called with `args` and `kwargs`.

    `result` holds the axes or tensors it made; `ops`, after a primitive of the schedule, what each stage computes then;
    `position` is the line of the call.
    """

    name: str
    stage: Stage | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    ops: tuple[tuple[Stage, Operation], ...] = ()
    position: Position | None = None


def step(method: F) -> F:
    """Marks a primitive: a call that succeeds is recorded in the schedule, one made within another primitive is not."""

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(self, "schedule", None)
        schedule = self if owner is None else owner
        if schedule.within_step:
            return method(self, *args, **kwargs)
        schedule.within_step = True
        try:
            result = method(self, *args, **kwargs)
        except ScheduleError as error:
            _note_position(error, self if owner is not None else args[0] if args else None)
            raise
        finally:
            schedule.within_step = False
        position = caller()
        if owner is None:
            _position_copies(result, position)
            ops = tuple((stage, stage.op) for stage in schedule.stages)
            schedule.steps.append(Step(method.__name__, None, args, kwargs, result, ops, position))
        else:
            schedule.steps.append(Step(method.__name__, self, args, kwargs, result, (), position))
        return result

    return cast(F, run)


def _position_copies(result: Any, position: Position) -> None:
    """A tensor that a primitive of the schedule made and that computes nothing of its own is written where it was."""
    op: Any = getattr(result, "op", None)
    if op is not None and op.position is None:
        op.position = position


def _note_position(error: ScheduleError, subject: Any) -> None:
    """Adds to `error` the line on which the computation of `subject`, a stage or a tensor, was written."""
    op: Any = getattr(subject, "op", None)
    if getattr(op, "position", None):
        error.add_note(f"{op.name} is computed at {op.position}")
