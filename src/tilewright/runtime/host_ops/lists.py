"""Lists that grow by an element at a time, as the scan outputs of loops do: a push costs the same at any length.

A list is None when empty, else `Pushed` or `Rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.registry import host_op


class Pushed(NamedTuple):
    """The list `before` with one element behind it."""

    before: Any
    last: Any


@dataclass(frozen=True, slots=True)
class Rows:
    """The list `before` with the rows of an array behind it: what a loop collected in native code."""

    before: Any
    array: np.ndarray[Any, Any]


@host_op("list.empty")
def empty(attrs: dict[str, Any]) -> None:
    """The empty list."""
    return None


@host_op("list.push")
def push(attrs: dict[str, Any], elements: Any, element: Any) -> Any:
    """The list with `element` behind the others; the given list stays as it is."""
    return Pushed(elements, element)


@host_op("list.to_sequence")
def to_sequence(attrs: dict[str, Any], elements: Any) -> list[Any]:
    """The elements as a sequence, the first that was pushed first."""
    found: list[Any] = []
    while elements is not None:
        if isinstance(elements, Rows):
            found.extend(elements.array[::-1])
            elements = elements.before
            continue
        elements, last = elements
        found.append(last)
    return found[::-1]


@host_op("list.stack")
def stack(attrs: dict[str, Any], elements: Any) -> Any:
    """The elements as slices of one array along a new `axis` (default 0).

    An empty list becomes an array of no slices of the attributes `shape` and `dtype`. Raises `InputError` where the
    elements have different shapes.
    """
    axis = int(attrs.get("axis", 0))
    if isinstance(elements, Rows) and elements.before is None:
        return np.ascontiguousarray(np.moveaxis(elements.array, 0, axis))
    arrays = to_sequence(attrs, elements)
    if not arrays:
        shape = [max(0, dim or 0) for dim in attrs.get("shape", ())]
        shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 0)
        return np.zeros(shape, attrs.get("dtype", "float32"))
    if len({array.shape for array in arrays}) > 1:
        shapes = ", ".join(sorted({str(list(array.shape)) for array in arrays}))
        raise InputError(f"the results of a loop's iterations have different shapes and cannot be stacked: {shapes}")
    return np.stack(arrays, axis)
