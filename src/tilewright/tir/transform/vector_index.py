"""Division of a ramp by a constant, kept scalar or a ramp where all lanes can be shown to agree."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import Expr, IntImm, Ramp


def ramp_divide(ramp: Ramp, divisor: int, analyzer: Analyzer) -> Expr | None:
    """`ramp // divisor` as a scalar or a ramp, or None: (j*16 + [0..15]) // 16 = j."""
    if not isinstance(ramp.stride, IntImm):
        return None
    quotient = op.floordiv(ramp.base, divisor)
    if ramp.stride.value % divisor == 0:
        return Ramp(quotient, op.const(ramp.stride.value // divisor, ramp.stride.dtype), ramp.lanes)
    return analyzer.simplify(quotient) if _same_block(ramp, divisor, analyzer) else None


def ramp_modulo(ramp: Ramp, divisor: int, analyzer: Analyzer) -> Expr | None:
    """`ramp % divisor` as a scalar or a ramp, or None: (j*16 + [0..15]) % 16 = [0..15]."""
    if not isinstance(ramp.stride, IntImm):
        return None
    remainder = op.floormod(ramp.base, divisor)
    if ramp.stride.value % divisor == 0:
        return analyzer.simplify(remainder)
    return Ramp(analyzer.simplify(remainder), ramp.stride, ramp.lanes) if _same_block(ramp, divisor, analyzer) else None


def _same_block(ramp: Ramp, divisor: int, analyzer: Analyzer) -> bool:
    """True if base % divisor stays within one block of `divisor` over all lanes."""
    assert isinstance(ramp.stride, IntImm)
    reach = ramp.stride.value * (ramp.lanes - 1)
    low, high = analyzer.const_int_bound(analyzer.simplify(op.floormod(ramp.base, divisor)))
    if low is None or high is None:
        return False
    return low + min(reach, 0) >= 0 and high + max(reach, 0) < divisor
