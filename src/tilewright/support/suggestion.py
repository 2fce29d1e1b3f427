"""Suggestions for a name that is not known: the nearest of those that are.

f"there is no pass {name!r}{suggestion(name, PASSES)}"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Names listed where none is near; of more than these a list helps nobody.
_MOST_LISTED = 40

#: How alike a name must be to be suggested: "cpuu" to "cpu", "benhc" to "bench".
_ALIKE = 0.5


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'bench'?", where none of `known` is near "; there are: ..." and for many names ""."""
    names = list(known)
    listed = f"; there are: {', '.join(names)}" if 0 < len(names) <= _MOST_LISTED else ""
    return nearest(name, names) or listed


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'bench'?", "" where none of `known` is near."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=_ALIKE)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
