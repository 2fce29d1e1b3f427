"""Expressions as z3 terms over mathematical integers, single precision floats and an unknown type."""

from __future__ import annotations

from typing import Any

import z3

from tilewright.tir import expr as e
from tilewright.tir.arith.pattern import Hole

FLOAT = z3.FPSort(8, 24)
ANY = z3.DeclareSort("Any")
ROUND = z3.RNE()


class Terms:
    """Translates expressions, one lane of them at a time; `conditions` says when what was translated is defined."""

    def __init__(self) -> None:
        self.variables: dict[e.Var, Any] = {}
        self.conditions: list[Any] = []

    def __call__(self, x: Any, lane: int = 0) -> Any:
        if isinstance(x, e.Var):
            return self.variables.setdefault(x, self._variable(x))
        if isinstance(x, e.IntImm):
            return z3.BoolVal(bool(x.value)) if x.dtype.is_bool else z3.IntVal(x.value)
        if isinstance(x, e.FloatImm):
            return z3.FPVal(x.value, FLOAT)
        if isinstance(x, e.Not):
            return z3.Not(self(x.a, lane))
        if isinstance(x, e.Ramp):
            return self(x.base) + lane * self(x.stride)
        if isinstance(x, e.Broadcast):
            return self(x.value)
        if isinstance(x, e.Cast):
            return self(x.value, lane)
        if isinstance(x, e.Let):
            return z3.substitute(self(x.body, lane), (self(x.var), self(x.value)))
        if isinstance(x, e.Select | e.Call):
            parts = x.fields() if isinstance(x, e.Select) else x.args
            if len(parts) == 1:
                return self(parts[0], lane)
            scalar = lane if parts[0].dtype.lanes > 1 else 0
            return z3.If(self(parts[0], scalar), self(parts[1], lane), self(parts[2], lane))
        return self._binary(type(x), self(x.a, lane), self(x.b, lane))

    def _variable(self, x: e.Var) -> Any:
        kind = x.kind if isinstance(x, Hole) else "bool" if x.dtype.is_bool else "int"
        sort = {"bool": z3.BoolSort(), "int": z3.IntSort(), "float": FLOAT, "any": ANY}[kind]
        return z3.Const(f"{x.name}{len(self.variables)}", sort)

    def _binary(self, cls: type, a: Any, b: Any) -> Any:
        if cls in (e.FloorDiv, e.FloorMod, e.Div, e.Mod) and a.sort() != FLOAT:
            self.conditions.append(b != 0)
            down = z3.If(b > 0, a / b, (-a) / (-b))  # z3 rounds so that the remainder is not negative
            toward_zero = z3.If(a >= 0, a / b, -((-a) / b))
            quotient = down if cls in (e.FloorDiv, e.FloorMod) else toward_zero
            return quotient if cls in (e.FloorDiv, e.Div) else a - b * quotient
        return {
            e.Add: lambda: a + b,
            e.Sub: lambda: z3.fpSub(ROUND, a, b) if a.sort() == FLOAT else a - b,
            e.Mul: lambda: z3.fpMul(ROUND, a, b) if a.sort() == FLOAT else a * b,
            e.Div: lambda: z3.fpDiv(ROUND, a, b),
            e.Min: lambda: z3.If(a < b, a, b),
            e.Max: lambda: z3.If(a > b, a, b),
            e.EQ: lambda: a == b,
            e.NE: lambda: a != b,
            e.LT: lambda: a < b,
            e.LE: lambda: a <= b,
            e.GT: lambda: a > b,
            e.GE: lambda: a >= b,
            e.And: lambda: z3.And(a, b),
            e.Or: lambda: z3.Or(a, b),
        }[cls]()


def same(a: Any, b: Any) -> Any:
    """Equal as values; for floats NaN equals NaN and 0 differs from -0."""
    if a.sort() != FLOAT:
        return a == b
    nan = z3.And(z3.fpIsNaN(a), z3.fpIsNaN(b))
    return z3.Or(nan, z3.And(z3.fpEQ(a, b), z3.fpIsNegative(a) == z3.fpIsNegative(b)))


def proved(claim: Any, assumptions: list[Any], milliseconds: int = 10_000) -> bool:
    """True if z3 proves `claim` from the assumptions; what it cannot decide in time is not proved."""
    solver = z3.Solver()
    solver.set("timeout", milliseconds)
    solver.add(*assumptions, z3.Not(claim))
    return bool(solver.check() == z3.unsat)
