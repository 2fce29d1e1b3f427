"""Positions within positions, such as the scopes of a program: the innermost one that encloses two."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar


class Nested(Protocol):
    """A position, the one around it (None for the outermost) and how many there are around it."""

    depth: int

    @property
    def parent(self) -> Self | None:
        """The position around this one."""


Inner = TypeVar("Inner", bound=Nested)


def innermost_around(a: Inner, b: Inner) -> Inner:
    """The innermost position that encloses both, of positions that have the outermost one in common."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a
