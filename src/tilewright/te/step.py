"""Recording: what was done to a schedule, one `Step` for each call of a primitive, in order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tilewright.errors import ScheduleError

if TYPE_CHECKING:
    from tilewright.te.operation import Operation
    from tilewright.te.stage import Stage

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Step:
    """The primitive `name` of `stage` (None: of the schedule itself), called with `args` and `kwargs`.

    `result` holds the axes or tensors it made; `ops`, after a primitive of the schedule, what each stage computes then.
    """

    name: str
    stage: Stage | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    ops: tuple[tuple[Stage, Operation], ...] = ()


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
        if owner is None:
            ops = tuple((stage, stage.op) for stage in schedule.stages)
            schedule.steps.append(Step(method.__name__, None, args, kwargs, result, ops))
        else:
            schedule.steps.append(Step(method.__name__, self, args, kwargs, result))
        return result

    return cast(F, run)


def _note_position(error: ScheduleError, subject: Any) -> None:
    """Adds to `error` the line on which the computation of `subject`, a stage or a tensor, was written."""
    op: Any = getattr(subject, "op", None)
    if getattr(op, "position", ""):
        error.add_note(f"{op.name} is computed at {op.position}")
