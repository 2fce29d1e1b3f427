"""Tags: marks on operations, by which schedules recognize what they compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.errors import ScheduleError

#: The tags of functions of elements: all of one shape, or broadcast to it.
ELEMWISE, BROADCAST = "elemwise", "broadcast"

_TAG: ContextVar[str] = ContextVar("tilewright_tag", default="")


@contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """Operations made in the enclosed code get `tag`, unless they are given one of their own. Works as a decorator too.

    Raises ScheduleError within another tag scope, since an operation has one tag.
    """
    if _TAG.get():
        raise ScheduleError(f"tag_scope({tag!r}) within tag_scope({_TAG.get()!r}): an operation has one tag")
    token = _TAG.set(tag)
    try:
        yield
    finally:
        _TAG.reset(token)


def current_tag() -> str:
    """The tag of the scope around, or an empty string."""
    return _TAG.get()
