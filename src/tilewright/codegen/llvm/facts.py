"""Facts about integers during code generation: constants in every lane, and signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.llvm.builder import FunctionBuilder
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir.expr import Expr, IntImm


def constant_lane(expr: Expr) -> int:
    """The integer constant `expr` is in every lane, or 0 if it is none."""
    inner = expr.value if isinstance(expr, e.Broadcast) else expr
    return inner.value if isinstance(inner, IntImm) else 0


@nested
def nonnegative(b: FunctionBuilder, expr: Expr) -> bool:
    """True if the integer `expr` is known not to be negative (from loop bounds and constants; false is "unknown")."""
    known = b.nonnegative.get(expr)
    if known is None:
        known = b.nonnegative[expr] = _NONNEGATIVE.get(type(expr), lambda b, x: False)(b, expr)
    return known


_NONNEGATIVE: dict[type, Callable[[FunctionBuilder, Any], bool]] = {
    e.IntImm: lambda b, x: x.value >= 0,
    e.SizeVar: lambda b, x: True,
    e.Add: lambda b, x: nonnegative(b, x.a) and nonnegative(b, x.b),
    e.Mul: lambda b, x: nonnegative(b, x.a) and nonnegative(b, x.b),
    e.FloorDiv: lambda b, x: nonnegative(b, x.a) and nonnegative(b, x.b),
    e.FloorMod: lambda b, x: nonnegative(b, x.b),
    e.Min: lambda b, x: nonnegative(b, x.a) and nonnegative(b, x.b),
    e.Max: lambda b, x: nonnegative(b, x.a) or nonnegative(b, x.b),
    e.Broadcast: lambda b, x: nonnegative(b, x.value),
    e.Ramp: lambda b, x: nonnegative(b, x.base) and nonnegative(b, x.stride),
    e.Call: lambda b, x: x.op in ("worker_id", "num_workers"),
}


@nested
def positive(b: FunctionBuilder, expr: Expr) -> bool:
    """True if the integer `expr` is known to be 1 at least: a constant, or what is made of such; a size may be 0."""
    if isinstance(expr, e.Broadcast):
        return positive(b, expr.value)
    if isinstance(expr, e.Mul):
        return positive(b, expr.a) and positive(b, expr.b)
    if isinstance(expr, (e.Add, e.Max)):
        one, other = positive(b, expr.a), positive(b, expr.b)
        either = isinstance(expr, e.Max) or (nonnegative(b, expr.a) and nonnegative(b, expr.b))
        return (one and other) or ((one or other) and either)
    return constant_lane(expr) > 0 or is_worker_count(expr)


def is_worker_count(expr: Expr) -> bool:
    """True of the number of workers, of which there is one at least."""
    return isinstance(expr, e.Call) and expr.op == "num_workers"
