"""The words of a script (`T.grid`, `T.Buffer`, …): those that are values, and those that only readers understand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import tir
from tilewright.compat.te import ops as te_ops
from tilewright.compat.tir import math as tir_math
from tilewright.errors import UnsupportedError
from tilewright.tir import op

_TYPES = (
    *("bool", "float16", "float32", "float64"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
)
#: What readers know by name and no expression calls.
STATEMENTS = (
    *("grid", "serial", "parallel", "vectorized", "unroll", "thread_binding", "block", "init", "reads", "writes"),
)

_RENAMED = {"tvm_call_packed": "call_packed", "call_packed_lowered": "call_packed"}


@dataclass(frozen=True)
class BufferType:
    """The type of a parameter: `T.Buffer((16, 16), "float32")`, or with brackets."""

    shape: tuple[Any, ...]
    dtype: str


class _BufferWord:
    def __call__(self, shape: Any, dtype: str = "float32", **_: Any) -> BufferType:
        return BufferType(tuple(shape) if isinstance(shape, Sequence) else (shape,), dtype)

    def __getitem__(self, given: Any) -> BufferType:
        shape, dtype = given if isinstance(given, tuple) and isinstance(given[-1], str) else (given, "float32")
        return self(shape, dtype)


class Scalar:
    """A type of numbers: as a mark of a parameter, and as a constant of the type."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __call__(self, value: Any = None) -> Any:
        return tir.Var("v", self.dtype) if value is None else op.cast(self.dtype, op.convert(value))


class Words:
    """`T`: words of statements are read, not called; the others are functions of expressions."""

    def __init__(self, prim_func: Callable[..., Any]) -> None:
        self.prim_func = prim_func
        self.Buffer = _BufferWord()
        self.handle = Scalar("handle")
        for dtype in _TYPES:
            setattr(self, dtype, Scalar(dtype))

    @staticmethod
    def cast(value: Any, dtype: str) -> Any:
        """A value in another type."""
        return op.cast(dtype, op.convert(value))

    @staticmethod
    def max(a: Any, b: Any) -> Any:
        """The larger of two."""
        return op.maximum(*op.match(a, b))

    @staticmethod
    def min(a: Any, b: Any) -> Any:
        """The smaller of two."""
        return op.minimum(*op.match(a, b))

    @staticmethod
    def min_value(dtype: str) -> Any:
        """The smallest number of a type."""
        return te_ops.min_value(dtype)

    @staticmethod
    def max_value(dtype: str) -> Any:
        """The largest number of a type."""
        return te_ops.max_value(dtype)

    @staticmethod
    def if_then_else(condition: Any, then: Any, other: Any, dtype: str | None = None) -> Any:
        """One of two values, in the type `dtype` where it is given."""
        made = op.if_then_else(op.convert(condition), *op.match(then, other))
        return made if dtype is None else op.cast(dtype, made)

    @staticmethod
    def Select(condition: Any, then: Any, other: Any) -> Any:
        """One of two values, both computed."""
        return tir.Select(op.convert(condition), *op.match(then, other))

    def __getattr__(self, name: str) -> Any:
        if name in STATEMENTS:
            raise UnsupportedError(f"T.{name} is a statement of a function marked by @T.prim_func")
        plain = _RENAMED.get(name, name)
        for module in (op, tir_math, tir):
            found = getattr(module, plain, None)
            if callable(found) and not name.startswith("_"):
                return found
        raise AttributeError(f"T.{name} is not part of tilewright.compat's scripts")
