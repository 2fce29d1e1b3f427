"""Choices between values that depend on data, as arithmetic on masks: a compiler makes branches of `c ? a : b`."""

from __future__ import annotations

from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr
from tilewright.tir.oblivious import DataFlow
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.visitor import rewrite


def mask_choices(func: PrimFunc) -> PrimFunc:
    """`func` with selects, extremes and conjunctions of data computed by bits; what depends on sizes stays.

    So do extremes of vectors, which have no branches.

        y[i] = select(x[i] > 0, x[i], 0)
    =>
        m = 0 - int32(x[i] > 0)
        y[i] = reinterpret(float32, (reinterpret(int32, x[i]) ^ 0) & m ^ 0)
    """
    data = DataFlow(func)

    def select(x: e.Select) -> Expr | None:
        return _choice(x.condition, x.true_value, x.false_value) if data.reaches(x.condition) else None

    def extreme(x: e.Max | e.Min) -> Expr | None:
        if x.dtype.lanes > 1 or not data.reaches(x):
            return None
        condition: Expr = x.a > x.b if isinstance(x, e.Max) else x.a < x.b
        if x.dtype.is_float:
            condition = e.Or(condition, e.NE(x.a, x.a))  # NaN wins
        return _choice(condition, x.a, x.b)

    def joined(x: Expr) -> Expr | None:
        return _truth(_mask(x, "int32")) if x.dtype.lanes == 1 and data.reaches(x) else None

    return rewrite(func, {e.Select: select, e.Max: extreme, e.Min: extreme, e.And: joined, e.Or: joined})


def _choice(condition: Expr, true: Expr, false: Expr) -> Expr:
    """`true` where `condition` else `false`."""
    if true.dtype.is_bool:
        mask = _mask(condition, "int32")
        chosen = _either(_mask(true, "int32"), _mask(false, "int32"), mask)
        return _truth(chosen)
    kind = f"int{true.dtype.bits}"
    bits = _either(op.reinterpret(kind, true), op.reinterpret(kind, false), _mask(condition, kind))
    return op.reinterpret(str(true.dtype), bits)


def _either(true: Expr, false: Expr, mask: Expr) -> Expr:
    return _bits("bitwise_xor", _bits("bitwise_and", _bits("bitwise_xor", true, false), mask), false)


def _mask(condition: Expr, kind: str) -> Expr:
    """All bits of `kind` where `condition` holds, else none."""
    if isinstance(condition, e.And | e.Or):
        name = "bitwise_and" if isinstance(condition, e.And) else "bitwise_or"
        return _bits(name, _mask(condition.a, kind), _mask(condition.b, kind))
    if isinstance(condition, e.Not):
        return Call(DType(kind), "bitwise_not", (_mask(condition.a, kind),))
    return e.Sub(op.const(0, kind), e.Cast(kind, condition))


def _truth(mask: Expr) -> Expr:
    return e.NE(mask, op.const(0, str(mask.dtype)))


def _bits(name: str, a: Expr, b: Expr) -> Expr:
    return Call(a.dtype, name, (a, b))
