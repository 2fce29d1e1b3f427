"""`tvm.runtime`: what is left of its names: `enabled`, `convert`, containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.target import CpuTarget


class ADT(tuple[Any, ...]):
    """Fields of a tuple or data type as a value; `tag` numbers the constructor."""

    tag: int

    def __new__(cls, tag: int, fields: Sequence[Any]) -> ADT:
        """A value of the constructor number `tag`."""
        made = super().__new__(cls, fields)
        made.tag = tag
        return made


#: A string, which needs no class of its own here.
String = str


def tuple_object(fields: Sequence[Any] | None = None) -> ADT:
    """A tuple as a value."""
    return ADT(0, fields or ())


def enabled(target: str) -> bool:
    """True if code for a target of this kind can be made and run here."""
    return target.split()[0] in CpuTarget.KINDS


def convert(value: Any) -> Any:
    """Python lists as tuples; anything else is a value as it is."""
    return tuple([convert(item) for item in value]) if isinstance(value, list | tuple) else value


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
