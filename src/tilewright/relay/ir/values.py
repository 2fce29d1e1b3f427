"""Values of the interpreter: NumPy arrays, tuples of values, and the classes here.

Lists, optionals and strings of host operators are whatever those operators make them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.relay.ir.adt import Constructor
from tilewright.relay.ir.expr import Expr, Function
from tilewright.support.recursion import nested

Value = Any


@dataclass(frozen=True, slots=True, eq=False)
class ConstructorValue:
    """A value of a data type: which constructor made it, and of what."""

    constructor: Constructor
    fields: tuple[Value, ...]

    @property
    def name(self) -> str:
        """The constructor's name."""
        return self.constructor.name

    @property
    def tag(self) -> int:
        """The constructor's number in its data type."""
        return self.constructor.tag

    def __repr__(self) -> str:
        # A list of a thousand elements is nested a thousand deep, so only the first few show.
        shown, depth = "", 0
        value: Value = self
        while isinstance(value, ConstructorValue) and value.fields and depth < 8:
            head = ", ".join("…" if isinstance(f, ConstructorValue) else repr(f) for f in value.fields[:-1])
            shown += f"{value.name}({head}{', ' if head else ''}"
            value, depth = value.fields[-1], depth + 1
        last = value.name if isinstance(value, ConstructorValue) and not value.fields else value
        return shown + ("…" if isinstance(last, ConstructorValue) else str(last)) + ")" * depth


@dataclass(slots=True, eq=False)
class RefValue:
    """A reference: the one thing that changes."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function with the values of the variables that its body takes from around it."""

    function: Function
    captured: dict[Expr, Value]


@nested
def flatten(value: Value) -> list[np.ndarray[Any, Any]]:
    """The arrays of a nested tuple, left to right."""
    return [leaf for item in value for leaf in flatten(item)] if isinstance(value, tuple) else [value]


def elements(value: Value) -> Iterator[Value]:
    """The elements of a list made by constructors such as `Cons` and `Nil`: of each cell all fields but the last."""
    while isinstance(value, ConstructorValue) and value.fields:
        yield value.fields[0] if len(value.fields) == 2 else value.fields[:-1]
        value = value.fields[-1]
