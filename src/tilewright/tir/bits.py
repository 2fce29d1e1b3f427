"""Functions that build expressions of the bits of integers; constants are folded. On bools they are the logic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import TypeMismatchError
from tilewright.support.named import named
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr


def _integers(name: str, *operands: Any) -> tuple[Expr, ...]:
    """The operands as integers of one dtype."""
    values = op.match(*operands) if len(operands) == 2 else tuple(map(op.convert, operands))
    if not (values[0].dtype.is_int or values[0].dtype.is_bool):
        raise TypeMismatchError(f"{name} of {values[0].dtype}: bits are those of integers; cast it first")
    return values


def _bitwise(name: str, numbers: Callable[[int, int], int], of_bools: Callable[[Any, Any], Expr], doc: str) -> Any:
    def build(a: Any, b: Any) -> Expr:
        a, b = _integers(name, a, b)
        if a.dtype.is_bool:
            return of_bools(a, b)
        x, y = op.as_const(a), op.as_const(b)
        if isinstance(x, int) and isinstance(y, int):
            return op.const(numbers(x, y), a.dtype)
        return e.Call(a.dtype, name, (a, b))

    return named(build, name, doc)


bitwise_and = _bitwise(
    "bitwise_and", lambda x, y: x & y, lambda a, b: op.logical_and(a, b), "The bits that are set in both."
)
bitwise_or = _bitwise(
    "bitwise_or", lambda x, y: x | y, lambda a, b: op.logical_or(a, b), "The bits that are set in one of them."
)
bitwise_xor = _bitwise(
    "bitwise_xor", lambda x, y: x ^ y, lambda a, b: op.ne(a, b), "The bits that are set in exactly one of them."
)


def bitwise_not(a: Any) -> Expr:
    """All bits changed."""
    (a,) = _integers("bitwise_not", a)
    if a.dtype.is_bool:
        return op.logical_not(a)
    x = op.as_const(a)
    return op.const(~x, a.dtype) if isinstance(x, int) else e.Call(a.dtype, "bitwise_not", (a,))


def _shift(name: str, numbers: Callable[[int, int], int], doc: str) -> Any:
    def build(a: Any, b: Any) -> Expr:
        a, b = _integers(name, a, b)
        if a.dtype.is_bool:
            a, b = op.cast("int32", a), op.cast("int32", b)
        x, y = op.as_const(a), op.as_const(b)
        if isinstance(y, int) and not 0 <= y < a.dtype.bits:
            raise TypeMismatchError(f"{name} of {a.dtype} by {y}: it takes shifts from 0 to {a.dtype.bits - 1}")
        if isinstance(x, int) and isinstance(y, int):
            return op.const(numbers(x, y), a.dtype)
        return a if y == 0 else e.Call(a.dtype, name, (a, b))

    return named(build, name, doc)


shift_left = _shift(
    "shift_left", lambda x, y: x << y, "a << b. Raises `TypeMismatchError` for more bits than there are."
)
shift_right = _shift(
    "shift_right", lambda x, y: x >> y, "a >> b; the sign is kept. Raises `TypeMismatchError` as `shift_left` does."
)
