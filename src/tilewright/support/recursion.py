"""Room for functions that call themselves once per level of nesting of what they read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.support.forks import own_lock

#: Frames; a walk takes about five for each level of an expression, so this serves some two thousand levels.
DEEP = 10_000

#: Python functions that call each other take no C stack, so this is bounded by memory only.
DEPTH = 200_000


def allow_deep_recursion() -> None:
    """Raise Python's recursion limit to `DEEP`; it is never lowered again, as other threads may need it."""
    if sys.getrecursionlimit() < DEEP:
        sys.setrecursionlimit(DEEP)


_lock = own_lock(sys.modules[__name__], "_lock")
_limits: list[int] = []


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Within the block, Python functions may be nested `DEPTH` deep. The limit comes down when no thread needs it."""
    with _lock:
        _limits.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_limits[0], DEPTH))
    try:
        yield
    finally:
        with _lock:
            before = _limits[0]
            _limits.pop()
            if not _limits:
                sys.setrecursionlimit(before)
