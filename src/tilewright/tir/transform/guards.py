"""May an expression be evaluated where its guard is false? What decides between a lazy if_then_else and a select."""

from __future__ import annotations

from tilewright.tir import expr as e
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import Expr, IntImm
from tilewright.tir.visitor import collect

_UNSAFE_CALLS = frozenset({"call_extern", "prefetch", "barrier", "address_of"})


def safe_to_evaluate(x: Expr, analyzer: Analyzer) -> bool:
    """True if `x` cannot fault: every load is within its buffer, no integer is divided by what may be zero.

    `analyzer` knows the ranges of the loop variables in scope.
    """
    return all(_safe_node(node, analyzer) for node in collect(x, Expr))


def _safe_node(x: Expr, analyzer: Analyzer) -> bool:
    if isinstance(x, e.BufferLoad):
        return load_in_bounds(x, analyzer)
    if isinstance(x, (e.FloorDiv, e.FloorMod, e.Div, e.Mod)) and x.dtype.is_int:
        divisor = x.b.value if isinstance(x.b, e.Broadcast) else x.b
        return isinstance(divisor, IntImm) and divisor.value != 0
    return not (isinstance(x, e.Call) and x.op in _UNSAFE_CALLS)


def load_in_bounds(load: e.BufferLoad, analyzer: Analyzer) -> bool:
    """True if every index of `load` is provably within its dimension."""
    for index, size in zip(load.indices, load.buffer.shape, strict=True):
        if not isinstance(size, IntImm) or index.dtype.lanes > 1:
            return False
        low, high = analyzer.const_int_bound(analyzer.simplify(index))
        if low is None or high is None or low < 0 or high >= size.value:
            return False
    return True
