"""`relay.backend.interpreter`: values of data types, made by number, fields and constructor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compat.runtime.array import NDArray, array, to_numpy
from tilewright.compat.runtime.stands_for import stands_for
from tilewright.compat.runtime.values import ADT
from tilewright.relay.ir import values


def _constructed(tag: Any, fields: Sequence[Any], constructor: Any = None) -> values.ConstructorValue:
    if isinstance(tag, relay.Constructor):  # v0.6 has it instead of its number
        return values.ConstructorValue(tag, tuple(fields))
    if constructor.tag != tag:
        constructor = relay.Constructor(constructor.name, constructor.inputs, constructor.belong_to, tag)
    return values.ConstructorValue(constructor, tuple(fields))


#: `ConstructorValue(tag, fields, constructor)`: what the constructor number `tag` makes of the fields.
ConstructorValue = stands_for(values.ConstructorValue, _constructed)
#: Arrays and tuples, which v0.6 keeps in values of their own.
TensorValue = stands_for(NDArray, array, "TensorValue")
TupleValue = stands_for((list, tuple), lambda *fields: ADT(0, fields), "TupleValue")


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


class Value:
    """A value of the interpreter: an array, tuple, function, reference, or value of a data type."""

    @staticmethod
    def from_scalar(value: Any, dtype: str | None = None) -> NDArray:
        """A number as an array without dimensions: an integer of 32 bits, a float of 32 bits or a bool."""
        chosen = dtype or {bool: "bool", int: "int32", float: "float32"}[type(value)]
        return array(np.asarray(value, chosen))
