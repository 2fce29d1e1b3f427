"""Values of the virtual machine that are no arrays. Tuples are Python tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Data:
    """A value of a data type: the number of its constructor within the type, and its fields."""

    tag: int
    fields: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Closure:
    """A function and the values it captured, which come before its arguments."""

    function: int
    captured: tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Reference:
    """A cell whose value can be replaced."""

    value: Any
