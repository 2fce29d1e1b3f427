"""Element-wise operators of several tensors with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.support.named import named
from tilewright.te import Tensor
from tilewright.te.broadcast import element, nary
from tilewright.te.tensor import quotient
from tilewright.topi import tag


def _named(function: Callable[[Any, Any], Any], name: str, doc: str) -> Callable[[Any, Any], Any]:
    def build(a: Any, b: Any) -> Any:
        return nary(function, name, a, b)

    return named(build, name, doc)


def _power(a: Any, b: Any) -> Any:
    a, b = tir.op.match(a, b)
    if a.dtype.is_float:
        return tir.power(a, b)
    return _integer_power(a, b)


def _integer_power(a: Any, b: Any) -> Any:
    """By squaring; of a negative exponent the power cut off, which is 0 but of 1 and -1.

    Exponents beyond 63, of which the power fits for 0, 1 and -1 only, count as 62 or 63.
    """
    one, zero, most = tir.const(1, a.dtype), tir.const(0, a.dtype), tir.const(62, a.dtype)
    odd = tir.call_intrin(a.dtype, "bitwise_and", b, one)
    exponent = tir.minimum(b, most + odd)
    if b.dtype.code == "int":
        unit = tir.logical_or(tir.eq(a, one), tir.eq(a, tir.const(-1, a.dtype)))
        exponent = tir.select(b < zero, odd, exponent)
    result, square = one, a
    for k in range(6):
        bit = tir.call_intrin(a.dtype, "bitwise_and", exponent, tir.const(1 << k, a.dtype))
        result = tir.select(tir.ne(bit, zero), result * square, result)
        square = square * square
    if b.dtype.code == "int":
        return tir.select(tir.logical_and(b < zero, tir.logical_not(unit)), zero, result)
    return result


add = _named(tir.add, "add", "a + b.")
subtract = _named(tir.subtract, "subtract", "a - b.")
multiply = _named(tir.multiply, "multiply", "a * b.")
divide = _named(quotient, "divide", "a / b; integers round towards zero.")
floor_divide = _named(tir.floordiv, "floor_divide", "a / b rounded down.")
mod = _named(tir.truncmod, "mod", "Remainder with the sign of a.")
floor_mod = _named(tir.floormod, "floor_mod", "Remainder with the sign of b.")
power = _named(_power, "power", "a to the power of b.")
maximum = _named(tir.maximum, "maximum", "The larger of a and b.")
minimum = _named(tir.minimum, "minimum", "The smaller of a and b.")
equal = _named(tir.eq, "equal", "a == b.")
not_equal = _named(tir.ne, "not_equal", "a != b.")
less = _named(tir.less, "less", "a < b.")
less_equal = _named(tir.less_equal, "less_equal", "a <= b.")
greater = _named(tir.greater, "greater", "a > b.")
greater_equal = _named(tir.greater_equal, "greater_equal", "a >= b.")
logical_and = _named(tir.logical_and, "logical_and", "a and b, of bools.")
logical_or = _named(tir.logical_or, "logical_or", "a or b, of bools.")
logical_xor = _named(
    lambda a, b: tir.logical_and(tir.logical_or(a, b), tir.logical_not(tir.logical_and(a, b))),
    "logical_xor",
    "Exactly one of a and b, of bools.",
)
bitwise_and = _named(tir.bitwise_and, "bitwise_and", "a & b.")
bitwise_or = _named(tir.bitwise_or, "bitwise_or", "a | b.")
bitwise_xor = _named(tir.bitwise_xor, "bitwise_xor", "a ^ b.")
left_shift = _named(tir.shift_left, "left_shift", "a << b.")
right_shift = _named(tir.shift_right, "right_shift", "a >> b, keeping the sign.")


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x where `condition` (bool) else y, all broadcast."""
    return nary(tir.select, "where", condition, x, y)


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """x repeated along its axes of size 1, and along new leading axes, to `shape`."""
    return te.compute(shape, lambda *i: element(x, i), name="T_broadcast_to", tag=tag.BROADCAST)
