"""Room for deep expressions: the walkers recurse over expression graphs, which fusion and inlining can make deep."""

from __future__ import annotations

import sys

#: Frames; a walk takes about five for each level of an expression, so this serves some two thousand levels.
DEEP = 10_000


def allow_deep_recursion() -> None:
    """Raise Python's recursion limit to `DEEP`; it is never lowered again, as other threads may need it."""
    if sys.getrecursionlimit() < DEEP:
        sys.setrecursionlimit(DEEP)
