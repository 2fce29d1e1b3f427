"""`tvm.runtime`: what is left of its names: `enabled`, `convert`, containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.compat.runtime.array import array
from tilewright.relay.ir.values import ConstructorValue, RefValue
from tilewright.runtime.vm.value import Data
from tilewright.target import CpuTarget


class ADT(tuple[Any, ...]):
    """Fields of a tuple or data type as a value; `tag` numbers the constructor."""

    tag: int

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields, which the value is a tuple of."""
        return tuple(self)

    def __new__(cls, tag: int, fields: Sequence[Any]) -> ADT:
        """A value of the constructor number `tag`."""
        made = super().__new__(cls, fields)
        made.tag = tag
        return made


def to_classic(value: Any) -> Any:
    """NumPy arrays as `NDArray`s; tuples, and values of data types that a compiled program made, as `ADT`s of them."""
    if isinstance(value, list | tuple):
        return ADT(getattr(value, "tag", 0), [to_classic(item) for item in value])
    if isinstance(value, Data):
        return ADT(value.tag, [to_classic(item) for item in value.fields])
    if isinstance(value, ConstructorValue):
        return ConstructorValue(value.constructor, tuple([to_classic(item) for item in value.fields]))
    if isinstance(value, RefValue):
        return RefValue(to_classic(value.value))
    return array(value) if isinstance(value, np.ndarray | np.generic) else value


#: A string, which needs no class of its own here.
String = str


def tuple_object(fields: Sequence[Any] | None = None) -> ADT:
    """A tuple as a value."""
    return ADT(0, fields or ())


def enabled(target: str) -> bool:
    """True if code for a target of this kind can be made and run here."""
    return target.split()[0] in CpuTarget.KINDS


def convert(value: Any) -> Any:
    """Python lists as tuples, numbers as constants; anything else is a value as it is."""
    if isinstance(value, bool | int | float):
        return tir.const(value)
    return tuple([convert(item) for item in value]) if isinstance(value, list | tuple) else value


class DataTypeCode:
    """Kinds of element types by number: what `DataType.type_code` is."""

    INT, UINT, FLOAT, HANDLE, BFLOAT = range(5)


class ShapeTuple(tuple[int, ...]):
    """Sizes as a value."""

    def __new__(cls, shape: Sequence[int]) -> ShapeTuple:
        """The sizes `shape`."""
        return super().__new__(cls, (int(size) for size in shape))


class _AnyFunction(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return callable(instance)


class PackedFunc(metaclass=_AnyFunction):
    """Functions that are called by position; here every Python callable is one."""


def py_str(data: bytes) -> str:
    """Bytes of a text as a string."""
    return data.decode("utf-8")


def c_str(text: str) -> bytes:
    """A string as bytes."""
    return text.encode("utf-8")
