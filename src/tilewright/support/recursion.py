"""Room for functions that call themselves once per level of nesting of what they read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Frames; a walk takes about five for each level of an expression, so this serves some two thousand levels.
DEEP = 10_000

#: Python functions that call each other take no C stack, so this is bounded by memory only.
DEPTH = 200_000


def allow_deep_recursion() -> None:
    """Raise Python's recursion limit to `DEEP`; it is never lowered again, as other threads may need it."""
    if sys.getrecursionlimit() < DEEP:
        sys.setrecursionlimit(DEEP)


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Within the block, Python functions may be nested `DEPTH` deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
