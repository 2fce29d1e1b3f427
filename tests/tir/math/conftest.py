"""A small evaluator of loop IR expressions over NumPy arrays: one array element stands for one evaluation."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.tir import expr as e

_BINARY: dict[type, Callable[..., Any]] = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.Div: operator.truediv,
    e.Min: lambda a, b: np.where(a < b, a, b),
    e.Max: lambda a, b: np.where(a > b, a, b),
    e.EQ: operator.eq,
    e.NE: operator.ne,
    e.LT: operator.lt,
    e.LE: operator.le,
    e.GT: operator.gt,
    e.GE: operator.ge,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}


def _fma(a: Any, b: Any, c: Any) -> Any:
    if a.dtype == np.float64:
        return a * b + c
    return (a.astype(np.float64) * b + c).astype(a.dtype)


_CALLS: dict[str, Callable[..., Any]] = {
    "fma": _fma,
    "fabs": np.abs,
    "floor": np.floor,
    "sqrt": np.sqrt,
    "shift_left": operator.lshift,
    "shift_right": operator.rshift,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "if_then_else": np.where,
}


def _evaluate(root: e.Expr, values: dict[e.Var, np.ndarray]) -> np.ndarray:
    memo: dict[e.Expr, Any] = dict(values)

    def go(x: Any) -> Any:
        if x in memo:
            return memo[x]
        if isinstance(x, (e.IntImm, e.FloatImm)):
            out: Any = x.dtype.numpy.type(x.value)
        elif isinstance(x, e.Broadcast):
            out = go(x.value)
        elif isinstance(x, e.Cast):
            out = go(x.value).astype(x.dtype.numpy)
        elif isinstance(x, e.Select):
            out = np.where(go(x.condition), go(x.true_value), go(x.false_value))
        elif isinstance(x, e.Not):
            out = ~go(x.a)
        elif isinstance(x, e.Call) and x.op == "reinterpret":
            out = np.asarray(go(x.args[0])).view(x.dtype.numpy)
        elif isinstance(x, e.Call):
            out = _CALLS[x.op](*[go(a) for a in x.args])
        else:
            out = _BINARY[type(x)](go(x.a), go(x.b))
        memo[x] = out
        return out

    with np.errstate(all="ignore"):
        return np.asarray(go(root))


@pytest.fixture
def evaluate() -> Callable[[e.Expr, dict[e.Var, np.ndarray]], np.ndarray]:
    """The evaluator: (expression, {variable: array}) -> array."""
    return _evaluate
