"""Types of Relay expressions: tensors of a static shape, tuples and functions. Values, compared by content."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.support.dtype import DType


class Type:
    """Base of all types."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """A dense tensor: `shape` in elements (`()` is a scalar) and the `dtype` of one element."""

    shape: tuple[int, ...]
    dtype: DType

    def __init__(self, shape: Iterable[int] = (), dtype: Any = "float32") -> None:
        object.__setattr__(self, "shape", tuple([int(dim) for dim in shape]))
        object.__setattr__(self, "dtype", DType(dtype))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, without padding."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        if not self.shape:
            return str(self.dtype)
        dims = ", ".join(map(str, self.shape))
        return f"Tensor[({dims}{',' if len(self.shape) == 1 else ''}), {self.dtype}]"


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """A tuple of values, each with its own type."""

    fields: tuple[Type, ...]

    def __init__(self, fields: Iterable[Type]) -> None:
        object.__setattr__(self, "fields", tuple(fields))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))}{',' if len(self.fields) == 1 else ''})"


@dataclass(frozen=True, slots=True)
class FuncType(Type):
    """A function from `arg_types` to `ret_type`."""

    arg_types: tuple[Type, ...]
    ret_type: Type

    def __init__(self, arg_types: Iterable[Type], ret_type: Type) -> None:
        object.__setattr__(self, "arg_types", tuple(arg_types))
        object.__setattr__(self, "ret_type", ret_type)

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.arg_types))}) -> {self.ret_type}"


def tensor_types(type_: Type) -> list[TensorType]:
    """The tensors inside `type_`, left to right: itself, or the flattened fields of a tuple."""
    if isinstance(type_, TensorType):
        return [type_]
    if isinstance(type_, TupleType):
        return [leaf for field in type_.fields for leaf in tensor_types(field)]
    raise TypeError(f"{type_} holds no tensors")
