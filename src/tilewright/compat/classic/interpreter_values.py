"""`relay.backend.interpreter`: values of data types, made by number, fields and constructor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.classic.array import to_numpy
from tilewright.relay.ir import values


class _Values(type):
    """A class that makes values of this package's own class, and knows them."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, values.ConstructorValue)

    def __call__(cls, tag: int, fields: Sequence[Any], constructor: Any) -> values.ConstructorValue:
        if constructor.tag != tag:
            constructor = relay.Constructor(constructor.name, constructor.inputs, constructor.belong_to, tag)
        return values.ConstructorValue(constructor, tuple(fields))


class ConstructorValue(metaclass=_Values):
    """`ConstructorValue(tag, fields, constructor)`: what the constructor number `tag` makes of the fields."""


def own_value(value: Any) -> Any:
    """A classic value (array, number, constant, tuple, value of a data type) as the interpreter computes with."""
    if isinstance(value, relay.Constant):
        return np.asarray(value.data)
    if isinstance(value, list | tuple):
        return tuple(map(own_value, value))
    if isinstance(value, values.RefValue):
        return values.RefValue(own_value(value.value))
    if isinstance(value, values.ConstructorValue):
        return values.ConstructorValue(value.constructor, tuple(map(own_value, value.fields)))
    if isinstance(value, values.Closure):
        return value
    return to_numpy(value)
