"""Vector index expressions: what arithmetic and comparisons of ramps and broadcasts yield, as ramps and broadcasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.linear import INDEX_TYPES
from tilewright.tir.arith.pattern import build
from tilewright.tir.expr import Broadcast, Expr, IntImm, Ramp

if TYPE_CHECKING:
    from tilewright.tir.arith.simplify import Simplifier


class Lanes(NamedTuple):
    """The vector base, base + stride, …"""

    base: Expr
    stride: Expr

    @property
    def uniform(self) -> bool:
        """True if all lanes are equal."""
        return op.is_const(self.stride, 0)


def lanes_of(x: Expr) -> Lanes | None:
    """`x` as base and stride, if it is a ramp or a broadcast."""
    if isinstance(x, Broadcast):
        return Lanes(x.value, op.const(0, x.value.dtype))
    return Lanes(x.base, x.stride) if isinstance(x, Ramp) else None


def simplify_vector(s: Simplifier, cls: type, a: Expr, b: Expr) -> Expr | None:
    """`cls(a, b)` of simplified vectors as a ramp or a broadcast; None if it is neither."""
    if isinstance(a, Broadcast) and isinstance(b, Broadcast):
        return Broadcast(s(cls(a.value, b.value)), a.lanes)
    first, second = lanes_of(a), lanes_of(b)
    if first is None or second is None or a.dtype.element not in INDEX_TYPES:
        return None
    rule = _RULES.get(cls)
    return None if rule is None else rule(s, cls, first, second, a.dtype.lanes)


def ramp(base: Expr, stride: Expr, lanes: int) -> Expr:
    """The vector base, base + stride, …: a broadcast if the stride is 0."""
    return Broadcast(base, lanes) if op.is_const(stride, 0) else Ramp(base, stride, lanes)


def _sum(s: Simplifier, cls: Any, a: Lanes, b: Lanes, lanes: int) -> Expr:
    return ramp(s(cls(a.base, b.base)), s(cls(a.stride, b.stride)), lanes)


def _product(s: Simplifier, cls: Any, a: Lanes, b: Lanes, lanes: int) -> Expr | None:
    if not b.uniform:
        a, b = b, a
    if not b.uniform:
        return None
    return ramp(s(cls(a.base, b.base)), s(cls(a.stride, b.base)), lanes)


def _quotient(s: Simplifier, cls: Any, a: Lanes, b: Lanes, lanes: int) -> Expr | None:
    """(ramp) // c and (ramp) % c: where c divides the stride, or no lane leaves the block of c that the first is in."""
    c, stride = op.as_const(b.base), op.as_const(a.stride)
    if not b.uniform or not isinstance(c, int) or not isinstance(stride, int) or c <= 0:
        return None
    quotient = cls is e.FloorDiv
    if stride % c == 0:
        step = op.const(stride // c if quotient else 0, a.base.dtype)
        return ramp(s(cls(a.base, b.base)), step, lanes)
    remainder = s(e.FloorMod(a.base, b.base))
    low, high = s.analyzer.const_int_bound(remainder)
    span = stride * (lanes - 1)
    if low is None or high is None or low + min(span, 0) < 0 or high + max(span, 0) >= c:
        return None
    return Broadcast(s(cls(a.base, b.base)), lanes) if quotient else Ramp(remainder, a.stride, lanes)


def _last(s: Simplifier, a: Lanes, lanes: int) -> Expr:
    return s(a.base + a.stride * (lanes - 1))


def _extreme(s: Simplifier, cls: Any, a: Lanes, b: Lanes, lanes: int) -> Expr | None:
    if a.stride is b.stride:
        return ramp(s(cls(a.base, b.base)), a.stride, lanes)
    ends = [(a.base, b.base), (_last(s, a, lanes), _last(s, b, lanes))]
    order = op.less_equal if cls is e.Min else op.greater_equal
    for chosen, pairs in ((a, ends), (b, [(q, p) for p, q in ends])):
        if all(op.is_const(s(order(p, q)), 1) for p, q in pairs):
            return ramp(chosen.base, chosen.stride, lanes)
    return None


def _comparison(s: Simplifier, cls: Any, a: Lanes, b: Lanes, lanes: int) -> Expr | None:
    """A comparison of straight lines: decided everywhere if it is decided alike at both ends (not so for equality)."""
    if a.stride is b.stride:
        return Broadcast(s(cls(a.base, b.base)), lanes)
    if cls in (e.EQ, e.NE):
        return None
    first = s(cls(a.base, b.base))
    if isinstance(first, IntImm) and s(cls(_last(s, a, lanes), _last(s, b, lanes))) is first:
        return Broadcast(first, lanes)
    return None


_RULES: dict[type, Callable[..., Expr | None]] = {
    e.Add: _sum, e.Sub: _sum, e.Mul: _product, e.FloorDiv: _quotient, e.FloorMod: _quotient,
    e.Min: _extreme, e.Max: _extreme,
    **dict.fromkeys((e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE), _comparison),
}  # fmt: skip


def simplify_same(x: Any, parts: list[Expr]) -> Expr | None:
    """A node whose `parts`, all its operands, are broadcasts: the node on scalars, broadcast. Of any dtype."""
    if not all(isinstance(part, Broadcast) for part in parts):
        return None
    values = [part.value for part in parts]  # type: ignore[attr-defined]
    lanes = x.dtype.lanes
    if isinstance(x, e.BinaryExpr):
        return Broadcast(build(type(x), *values), lanes)
    if isinstance(x, e.Cast):
        return Broadcast(op.cast(x.dtype.element, values[0]), lanes)
    return Broadcast(op.select(*values), lanes) if isinstance(x, e.Select) else None
