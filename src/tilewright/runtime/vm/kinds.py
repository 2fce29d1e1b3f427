"""The kind of a function's arguments: their structure, the shapes and types of tensors.

`kind_of` returns a value's kind, which can be a key, with its leaves; `positions_of` stands for all values of a kind,
the leaf number i at the address "slot{i}".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.lists import Pushed, Rows
from tilewright.runtime.vm.positions import Function, Given, Location, Writer
from tilewright.runtime.vm.steps import Address
from tilewright.runtime.vm.value import Closure, Data
from tilewright.support.dtype import DType

Kind = Any  # what can be compared and hashed
_LIST, _GIVEN, _TUPLE, _DATA, _CLOSURE = range(5)

#: Levels of tuples, data and closures that are looked into.
_DEEP = 5


def kind_of(value: Any, leaves: list[Any], depth: int = 0) -> Kind:
    """The kind of `value`, whose leaves are added to `leaves`. What is nested deeply is a leaf."""
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        flags = value.flags
        fits = type(value) is np.ndarray and flags.c_contiguous and flags.aligned
        leaves.append(value if fits else np.array(value, order="C"))
        return value.shape, value.dtype
    if value is None or isinstance(value, Pushed | Rows):
        leaves.append(value)
        return _LIST
    depth += 1
    if isinstance(value, tuple) and depth < _DEEP:
        return (_TUPLE, *[kind_of(part, leaves, depth) for part in value])
    if isinstance(value, Data) and depth < _DEEP:
        return (_DATA, value.tag, *[kind_of(part, leaves, depth) for part in value.fields])
    if isinstance(value, Closure) and depth < _DEEP and not any(part is value for part in value.captured):
        return (_CLOSURE, value.function, *[kind_of(part, leaves, depth) for part in value.captured])
    leaves.append(value)
    return _GIVEN


def positions_of(kind: Kind, writer: Writer, first: int) -> tuple[Any, int]:
    """The locations of a value of a kind, its leaves numbered from `first`; and the number of the next leaf."""
    if kind == _LIST:
        return writer.growing(None, first), first + 1
    if kind == _GIVEN:
        return Given(first), first + 1
    if len(kind) == 2 and isinstance(kind[1], np.dtype):
        return Location(Address(f"slot{first}"), kind[0], DType(kind[1])), first + 1
    parts = []
    for part in kind[1:] if kind[0] == _TUPLE else kind[2:]:
        position, first = positions_of(part, writer, first)
        parts.append(position)
    if kind[0] == _TUPLE:
        return tuple(parts), first
    return ((kind[1], tuple(parts)) if kind[0] == _DATA else Function(kind[1], tuple(parts))), first
