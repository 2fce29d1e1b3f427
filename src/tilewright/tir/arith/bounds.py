"""Constant bounds and modular sets: one rule per node class, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.division_bounds import (
    and_bound,
    floormod_bound,
    quotient_bound,
    shifted,
    toward_zero,
    truncmod_bound,
)
from tilewright.tir.arith.linear import INDEX_TYPES, Linear
from tilewright.tir.expr import Expr, IntImm
from tilewright.tir.visitor import substitute

if TYPE_CHECKING:
    from tilewright.tir.arith.analyzer import Analyzer

Bound = tuple[int | None, int | None]
UNBOUNDED: Bound = (None, None)
Modular = tuple[int, int]
ANYTHING: Modular = (1, 0)


def type_bound(x: Expr) -> Bound:
    """The bound given by the dtype alone; int32 and int64 count as unbounded, because index arithmetic may not
    overflow.
    """
    if x.dtype.is_bool or (x.dtype.is_int and x.dtype.element not in INDEX_TYPES):
        return x.dtype.limits()
    return UNBOUNDED


def union_bound(first: Bound, second: Bound) -> Bound:
    """The smallest bound that holds both."""
    low = None if first[0] is None or second[0] is None else min(first[0], second[0])
    return low, None if first[1] is None or second[1] is None else max(first[1], second[1])


def meet_bound(first: Bound, second: Bound) -> Bound:
    """The intersection of two bounds."""
    lows = [v for v in (first[0], second[0]) if v is not None]
    highs = [v for v in (first[1], second[1]) if v is not None]
    return max(lows) if lows else None, min(highs) if highs else None


def _sum(a: Analyzer, x: Any) -> Bound:
    if x.dtype in INDEX_TYPES:
        return a.bound_of(Linear.of(x))
    (l1, h1), (l2, h2) = a.const_int_bound(x.a), a.const_int_bound(x.b)
    if isinstance(x, e.Sub):
        l2, h2 = None if h2 is None else -h2, None if l2 is None else -l2
    return within(x, (None if l1 is None or l2 is None else l1 + l2, None if h1 is None or h2 is None else h1 + h2))


def within(x: Expr, bound: Bound) -> Bound:
    """`bound` if arithmetic of the dtype of `x` stays inside it without wrapping, else that of the dtype."""
    if x.dtype.element in INDEX_TYPES:
        return bound
    low, high = type_bound(x)
    if low is None or high is None or bound[0] is None or bound[1] is None:
        return low, high
    return bound if low <= bound[0] and bound[1] <= high else (low, high)


def _product(a: Analyzer, x: Any) -> Bound:
    first, second = a.const_int_bound(x.a), a.const_int_bound(x.b)
    if x.a is x.b:
        ends = [abs(v) for v in first if v is not None]
        low = 0 if first[0] is None or first[1] is None or first[0] <= 0 <= first[1] else min(ends) ** 2
        return within(x, (low, max(ends) ** 2 if len(ends) == 2 else None))
    if None in first or None in second:
        if first[0] is not None and second[0] is not None and first[0] >= 0 and second[0] >= 0:
            return within(x, (first[0] * second[0], None))
        return type_bound(x)
    corners = [p * q for p in first for q in second]  # type: ignore[operator]
    return within(x, (min(corners), max(corners)))


def _floordiv(a: Analyzer, x: Any) -> Bound:
    return within(x, quotient_bound(a.const_int_bound(x.a), a.const_int_bound(x.b), lambda p, q: p // q))


def _truncdiv(a: Analyzer, x: Any) -> Bound:
    return within(x, quotient_bound(a.const_int_bound(x.a), a.const_int_bound(x.b), toward_zero))


def _floormod(a: Analyzer, x: Any) -> Bound:
    return floormod_bound(a.const_int_bound(x.a), a.const_int_bound(x.b))


def _truncmod(a: Analyzer, x: Any) -> Bound:
    return truncmod_bound(a.const_int_bound(x.a), a.const_int_bound(x.b))


def _min(a: Analyzer, x: Any) -> Bound:
    (l1, h1), (l2, h2) = a.const_int_bound(x.a), a.const_int_bound(x.b)
    return (None if l1 is None or l2 is None else min(l1, l2), meet_bound((None, h1), (None, h2))[1])


def _max(a: Analyzer, x: Any) -> Bound:
    (l1, h1), (l2, h2) = a.const_int_bound(x.a), a.const_int_bound(x.b)
    return (meet_bound((l1, None), (l2, None))[0], None if h1 is None or h2 is None else max(h1, h2))


def _ramp(a: Analyzer, x: Any) -> Bound:
    step = op.as_const(x.stride)
    low, high = a.const_int_bound(x.base)
    if not isinstance(step, int):
        return type_bound(x)
    span = step * (x.lanes - 1)
    return within(x, (None if low is None else low + min(span, 0), None if high is None else high + max(span, 0)))


def _cast(a: Analyzer, x: Any) -> Bound:
    if not (x.value.dtype.is_int or x.value.dtype.is_bool) or x.dtype.is_float:
        return type_bound(x)
    bound = a.const_int_bound(x.value)
    if x.dtype.is_bool or x.dtype.is_float or x.dtype.code == "handle":
        return type_bound(x)
    low, high = x.dtype.limits()
    fits = bound[0] is not None and bound[1] is not None and low <= bound[0] and bound[1] <= high
    widens = x.dtype.code == x.value.dtype.code == "int" and x.dtype.bits >= x.value.dtype.bits
    return bound if fits or widens else type_bound(x)


def _call(a: Analyzer, x: e.Call) -> Bound:
    if x.op == "if_then_else":
        return union_bound(a.const_int_bound(x.args[1]), a.const_int_bound(x.args[2]))
    if x.op == "likely":
        return a.const_int_bound(x.args[0])
    if x.op in ("bitwise_and", "shift_right"):
        first, second = map(a.const_int_bound, x.args)
        return meet_bound(type_bound(x), and_bound(first, second) if x.op == "bitwise_and" else shifted(first, second))
    return (0, None) if x.op == "worker_id" else (1, None) if x.op == "num_workers" else type_bound(x)


def _let(a: Analyzer, x: e.Let) -> Bound:
    return a.const_int_bound(substitute(x.body, {x.var: x.value}))


BOUNDS: dict[type, Callable[[Any, Any], Bound]] = {
    IntImm: lambda a, x: (x.value, x.value),
    e.SizeVar: lambda a, x: (0, None),
    e.Let: _let,
    e.Add: _sum,
    e.Sub: _sum,
    e.Mul: _product,
    e.Div: _truncdiv,
    e.Mod: _truncmod,
    e.FloorDiv: _floordiv,
    e.FloorMod: _floormod,
    e.Min: _min,
    e.Max: _max,
    e.Select: lambda a, x: union_bound(a.const_int_bound(x.true_value), a.const_int_bound(x.false_value)),
    e.Broadcast: lambda a, x: a.const_int_bound(x.value),
    e.Ramp: _ramp,
    e.Cast: _cast,
    e.Call: _call,
}


# ------------------------------------------------------------------------------------------------ modular sets
def union_modular(first: Modular, second: Modular) -> Modular:
    """The smallest set {coefficient * k + base} that holds both."""
    coefficient = math.gcd(first[0], second[0], first[1] - second[1])
    return (coefficient, first[1] % coefficient) if coefficient else first


def modular_of_sum(a: Analyzer, form: Linear) -> Modular:
    """(coefficient, base) of a sum; coefficient 0 means exactly base."""
    coefficient, base = 0, form.constant
    for atom, k in form.terms.items():
        step, offset = a.modular_set(atom)
        coefficient = math.gcd(coefficient, k * step)
        base += k * offset
    return (coefficient, base % coefficient) if coefficient else (0, base)


def _modular_product(a: Analyzer, x: Any) -> Modular:
    (m, p), (n, q) = a.modular_set(x.a), a.modular_set(x.b)
    coefficient = math.gcd(m * n, m * q, n * p)
    return (coefficient, p * q % coefficient) if coefficient else (0, p * q)


def _modular_floordiv(a: Analyzer, x: Any) -> Modular:
    c = op.as_const(x.b)
    coefficient, base = a.modular_set(x.a)
    if not isinstance(c, int) or c <= 0 or coefficient % c:
        return ANYTHING
    coefficient //= c
    return (coefficient, base // c % coefficient) if coefficient else (0, base // c)


def _modular_floormod(a: Analyzer, x: Any) -> Modular:
    c = op.as_const(x.b)
    if not isinstance(c, int) or c <= 0:
        return ANYTHING
    coefficient, base = a.modular_set(x.a)
    coefficient = math.gcd(coefficient, c)
    return (0, base % c) if coefficient == c else (coefficient, base % coefficient)


def _modular_extreme(a: Analyzer, x: Any) -> Modular:
    return union_modular(a.modular_set(x.a), a.modular_set(x.b))


def _modular_truncdiv(a: Analyzer, x: Any) -> Modular:
    """Of what is not negative, where rounding towards zero is rounding down, and of multiples of the divisor."""
    low, _ = a.const_int_bound(x.a)
    exact = a.modular_set(x.a)[1] == 0
    return _modular_floordiv(a, x) if exact or (low is not None and low >= 0) else ANYTHING


def _modular_call(a: Analyzer, x: Any) -> Modular:
    """A shift to the right by a number is a division that rounds down."""
    by = op.as_const(x.args[1]) if x.op == "shift_right" and x.dtype.is_int else None
    if not isinstance(by, int) or not 0 <= by < x.dtype.bits - 1:
        return ANYTHING
    return _modular_floordiv(a, e.FloorDiv(x.args[0], op.const(1 << by, x.dtype)))


def _modular_cast(a: Analyzer, x: Any) -> Modular:
    """Of integers to a type that holds them all."""
    wider = x.value.dtype.is_int and not x.value.dtype.is_bool and x.dtype.bits >= x.value.dtype.bits
    return a.modular_set(x.value) if wider and x.value.dtype in INDEX_TYPES else ANYTHING


def meet_modular(first: Modular, second: Modular) -> Modular:
    """The intersection of two residue classes by the Chinese remainder theorem; the first where it is empty."""
    (m, p), (n, q) = first, second
    if not m or not n:
        return second if not n else first
    common = math.gcd(m, n)
    if (q - p) % common:
        return first
    steps = (q - p) // common * pow(m // common, -1, n // common) % (n // common)
    whole = m // common * n
    return whole, (p + m * steps) % whole


MODULAR: dict[type, Callable[[Any, Any], Modular]] = {
    IntImm: lambda a, x: (0, x.value),
    e.Add: lambda a, x: modular_of_sum(a, Linear.of(x)),
    e.Sub: lambda a, x: modular_of_sum(a, Linear.of(x)),
    e.Mul: _modular_product,
    e.FloorDiv: _modular_floordiv,
    e.FloorMod: _modular_floormod,
    e.Div: _modular_truncdiv,
    e.Cast: _modular_cast,
    e.Call: _modular_call,
    e.Min: _modular_extreme,
    e.Max: _modular_extreme,
    e.Select: lambda a, x: union_modular(a.modular_set(x.true_value), a.modular_set(x.false_value)),
}
