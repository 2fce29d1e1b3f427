"""Divide by constants where the quotient is limited and rounded to whole numbers, without a division: exactly.

    round(max(min(x / c, 124.0), -131.0))
=>
    round(max(min(fma(x, h, x * l), 124.0), -131.0))                                  h + l = 1 / c, h, l of one sign

Before it is rounded to float32 the product is within 2^-46 of the quotient (Brisebarre, Muller, Raina, "Accelerating
correctly rounded floating-point division when the divisor is known in advance", 2004), and like the quotient it never
falls where x rises. So both round to the same whole numbers if they do so next to where these change: at numbers and
a half within the limits, all of which are tried. A division takes a processor as long as thirty other operations.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, FloatImm
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.folding import FoldingRewriter

#: Divisors whose reciprocals, and the remainders of numbers that matter, are far from denormal.
_LEAST, _MOST = 2.0**-90, 2.0**90

#: Limits up to which all numbers and a half are tried: those of 16 bits.
_WIDEST = 1 << 17

#: Neighbours of a number and a half times the divisor that are tried, on either side.
_NEIGHBOURS = 4

#: The bits of a float64 that float32 has not, when they stand for a half of its last.
_BELOW, _HALF = (1 << 29) - 1, 1 << 28


def divide_by_constants(func: PrimFunc) -> PrimFunc:
    """`func` with products for such divisions; see the module's docstring. For targets that fuse multiply-adds."""
    return _Rewriter()(func)


class _Rewriter(FoldingRewriter):
    def visit_Call(self, x: Call) -> Expr:
        """A call; a rounded quotient as a rounded product."""
        made = self.rebuild(x)
        if not isinstance(made, Call) or made.op != "round" or made.dtype.element != "float32":
            return made
        limits: list[float] = []
        quotient = _limited(made.args[0], limits)
        if not isinstance(quotient, e.Div) or len(limits) != 2:
            return made
        divisor = _number(quotient.b)
        if divisor is None or not (_LEAST < abs(divisor) < _MOST) or max(map(abs, limits)) > _WIDEST:
            return made
        parts = _reciprocal(divisor, int(min(limits)), int(max(limits)))
        if parts is None:
            return made
        return op.call_intrin(made.dtype, "round", _with(made.args[0], _product(quotient.a, *parts)))


def _limited(x: Expr, limits: list[float]) -> Expr:
    """The number within a minimum and a maximum by whole constants, which `limits` gets."""
    while isinstance(x, e.Min | e.Max):
        side = next((s for s in (x.a, x.b) if (n := _number(s)) is not None and n == int(n)), None)
        if side is None:
            return x
        number = _number(side)
        assert number is not None
        limits.append(number)
        x = x.b if side is x.a else x.a
    return x


def _with(x: Expr, product: Expr) -> Expr:
    """The same limits around another number."""
    if not isinstance(x, e.Min | e.Max):
        return product
    if _number(x.a) is not None:
        return type(x)(x.a, _with(x.b, product))
    return type(x)(_with(x.a, product), x.b)


def _number(x: Expr) -> float | None:
    """The constant that all lanes are; None where they are none, or not finite."""
    if isinstance(x, e.Broadcast):
        x = x.value
    return float(x.value) if isinstance(x, FloatImm) and np.isfinite(x.value) else None


def _product(x: Expr, high: float, low: float) -> Expr:
    if not low:
        return x * op.const(high, x.dtype)
    return op.call_intrin(x.dtype, "fma", x, op.const(high, x.dtype), x * op.const(low, x.dtype))


@lru_cache(maxsize=4096)
def _reciprocal(divisor: float, least: int, most: int) -> tuple[float, float] | None:
    """The two parts of 1 / divisor, the second 0 for powers of two; None where a number is rounded differently."""
    exact = 1.0 / np.float64(np.float32(divisor))
    high = np.float32(exact)
    if abs(np.float64(high)) > abs(exact):  # towards zero, so that both parts have one sign and infinity stays itself
        high = np.nextafter(high, np.float32(0))
    # exact: high * divisor has 48 bits
    low = np.float32((1.0 - np.float64(high) * np.float64(np.float32(divisor))) * exact)
    steps = np.arange(least, most, dtype=np.float64) + 0.5
    middle = (steps * np.float64(np.float32(divisor))).astype(np.float32)
    below = [middle]
    above = [middle]
    for _ in range(_NEIGHBOURS):
        below.append(np.nextafter(below[-1], np.float32(-np.inf)))
        above.append(np.nextafter(above[-1], np.float32(np.inf)))
    tried = np.concatenate(below + above)
    quotients = np.rint(tried / np.float32(divisor))
    same = np.array_equal(quotients, np.rint(_fused(tried, high, low)))
    return (float(high), float(low)) if same else None


def _fused(x: np.ndarray, high: np.float32, low: np.float32) -> np.ndarray:
    """fma(x, high, x * low) in float32, rounded once."""
    if not low:
        return x * high
    a = x.astype(np.float64) * np.float64(high)
    b = (x * low).astype(np.float64)
    total = a + b
    back = total - a
    lost = (a - (total - back)) + (b - back)  # what the sum lost, exactly (Knuth)
    bits = total.view(np.int64)
    tie = (bits & _BELOW) == _HALF
    nudged = np.where(tie & (lost != 0), np.nextafter(total, np.copysign(np.inf, lost)), total)
    return nudged.astype(np.float32)
