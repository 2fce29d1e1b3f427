"""Pieces the polynomial math functions share: constants of a value's type, fma, Horner's rule, exponent bits."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.support.dtype import DType
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, Max, Min, Select

INFINITY, NAN = float("inf"), float("nan")
LOWEST = -3.4028234663852886e38  # the least finite number


def like(x: Expr, number: float) -> Expr:
    """The constant `number` with the dtype and lanes of `x`."""
    return op.const(number, x.dtype)


def int32_like(x: Expr) -> DType:
    """int32 with the lanes of `x`."""
    return DType("int32").with_lanes(x.dtype.lanes)


def float32_like(x: Expr) -> DType:
    """float32 with the lanes of `x`."""
    return DType("float32").with_lanes(x.dtype.lanes)


def float64_like(x: Expr) -> DType:
    """float64 with the lanes of `x`."""
    return DType("float64").with_lanes(x.dtype.lanes)


def fma(a: Expr, b: Expr | float, c: Expr | float) -> Expr:
    """a * b + c, rounded once where the target can."""
    b = b if isinstance(b, Expr) else like(a, b)
    c = c if isinstance(c, Expr) else like(a, c)
    return Call(a.dtype, "fma", (a, b, c))


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial c[0] + c[1]*x + c[2]*x**2 + …, one fma per degree."""
    result = like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def clamp(x: Expr, low: float | None, high: float | None) -> Expr:
    """`x` limited to [low, high], NaN kept."""
    if low is not None:
        x = Max(like(x, low), x)
    return x if high is None else Min(like(x, high), x)


def select(condition: Expr, a: Expr | float, b: Expr | float) -> Expr:
    """`a` where `condition` else `b`; numbers take the dtype of the other value."""
    if not isinstance(a, Expr):
        assert isinstance(b, Expr)
        a = like(b, a)
    return Select(condition, a, b if isinstance(b, Expr) else like(a, b))


def shift_left(x: Expr, bits: int) -> Expr:
    """x << bits of integers."""
    return Call(x.dtype, "shift_left", (x, like(x, bits)))


def shift_right(x: Expr, bits: int) -> Expr:
    """x >> bits of integers, with the sign kept (arithmetic)."""
    return Call(x.dtype, "shift_right", (x, like(x, bits)))


def bits_of(x: Expr) -> Expr:
    """The bits of a float32 as int32."""
    return op.reinterpret("int32", x)


def from_bits(x: Expr) -> Expr:
    """The float32 whose bits are the int32 `x`."""
    return op.reinterpret("float32", x)


def fabs(x: Expr) -> Expr:
    """|x|."""
    return Call(x.dtype, "fabs", (x,))


def undefined_at_minus_infinity(x: Expr, made: Expr) -> Expr:
    """`made`, and NaN where x is -inf: there activations are -inf times 0 in PyTorch and ONNX."""
    return select(x >= like(x, LOWEST), made, NAN)


def with_sign_of(magnitude: Expr, x: Expr) -> Expr:
    """|`magnitude`| with the sign of the float32 `x`, that of a zero too."""
    sign = _bitwise("and", bits_of(x), like(bits_of(x), -(1 << 31)))
    return from_bits(_bitwise("or", bits_of(fabs(magnitude)), sign))


def upper_half(x: Expr) -> Expr:
    """The float32 `x` with the lower 12 of its 24 significant bits 0, so that its square is exact."""
    return from_bits(_bitwise("and", bits_of(x), like(bits_of(x), -(1 << 12))))


def _bitwise(name: str, a: Expr, b: Expr) -> Expr:
    return Call(a.dtype, f"bitwise_{name}", (a, b))
