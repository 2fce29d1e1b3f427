"""The memory scopes that every target knows."""

from __future__ import annotations

from tilewright.errors import ScheduleError

SCOPES = ("global", "shared", "warp", "local")


def check_scope(scope: str, what: str) -> None:
    """Raises ScheduleError, with `what` as its subject, if `scope` names no memory."""
    if scope not in SCOPES and "." not in scope:
        raise ScheduleError(
            f"{what}: there is no memory scope {scope!r}; known are {', '.join(SCOPES)}, and those that a target "
            'declares, which have a dot in their names, such as "local.accumulator"'
        )
