"""Rebuilding an expression from changed children with constants folded, for the passes that substitute variables.

`map_children(x, go)` is `x` with `go` applied to its children: the same object if none changed, otherwise rebuilt
through `tir.op`, which folds constants; integer sums keep their constant last and merged: (x + 3) + 4 becomes x + 7.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr
from tilewright.tir.visitor import Rewriter

Go = Callable[[Expr], Expr]


class FoldingRewriter(Rewriter):
    """A `Rewriter` that folds constants in what it rebuilds."""

    def visit_Expr(self, x: Expr) -> Expr:
        """`x` from its rewritten children, folded."""
        return map_children(x, self)


def map_children(x: Expr, go: Go) -> Expr:
    """`x` with each child replaced by `go(child)`; `x` itself if nothing changed or it has no children."""
    rebuild = _REBUILD.get(type(x))
    return x if rebuild is None else rebuild(x, go)


def fold_add(a: Expr, b: Expr) -> Expr:
    """a + b of one dtype, integer constants merged and kept on the right."""
    if not a.dtype.is_int:
        return op.add(a, b)
    if isinstance(a, e.IntImm) and not isinstance(b, e.IntImm):
        a, b = b, a
    if isinstance(a, e.Add) and isinstance(a.b, e.IntImm):
        if isinstance(b, e.IntImm):
            return op.add(a.a, op.const(a.b.value + b.value, b.dtype))
        if isinstance(b, e.Add) and isinstance(b.b, e.IntImm):
            return op.add(op.add(a.a, b.a), op.const(a.b.value + b.b.value, b.dtype))
        return op.add(op.add(a.a, b), a.b)
    if isinstance(b, e.Add) and isinstance(b.b, e.IntImm):
        return op.add(op.add(a, b.a), b.b)
    return op.add(a, b)


def fold_subtract(a: Expr, b: Expr) -> Expr:
    """a - b of one dtype; minus an integer constant is plus its negative."""
    if isinstance(b, e.IntImm) and b.dtype.code == "int":
        return fold_add(a, op.const(-b.value, b.dtype))
    return op.subtract(a, b)


def _binary(build: Callable[[Any, Any], Expr]) -> Callable[[Any, Go], Expr]:
    def rebuild(x: Any, go: Go) -> Expr:
        a, b = go(x.a), go(x.b)
        return x if a is x.a and b is x.b else build(a, b)

    return rebuild


def _not(x: Any, go: Go) -> Expr:
    a = go(x.a)
    return x if a is x.a else op.logical_not(a)


def _cast(x: Any, go: Go) -> Expr:
    value = go(x.value)
    return x if value is x.value else op.cast(DType(x.dtype.element).with_lanes(value.dtype.lanes), value)


def _select(x: Any, go: Go) -> Expr:
    condition, a, b = go(x.condition), go(x.true_value), go(x.false_value)
    if condition is x.condition and a is x.true_value and b is x.false_value:
        return x
    return op.select(condition, a, b)


def _let(x: Any, go: Go) -> Expr:
    value, body = go(x.value), go(x.body)
    return x if value is x.value and body is x.body else e.Let(x.var, value, body)


def _ramp(x: Any, go: Go) -> Expr:
    base, stride = go(x.base), go(x.stride)
    return x if base is x.base and stride is x.stride else e.Ramp(base, stride, x.lanes)


def _broadcast(x: Any, go: Go) -> Expr:
    value = go(x.value)
    return x if value is x.value else e.Broadcast(value, x.lanes)


def _shuffle(x: Any, go: Go) -> Expr:
    vectors = tuple([go(v) for v in x.vectors])
    return x if same(vectors, x.vectors) else e.Shuffle(vectors, x.indices)


def _load(x: Any, go: Go) -> Expr:
    indices = tuple([go(i) for i in x.indices])
    return x if same(indices, x.indices) else e.BufferLoad(x.buffer, indices)


def _call(x: Any, go: Go) -> Expr:
    args = tuple([go(a) for a in x.args])
    if same(args, x.args):
        return x
    if x.op == "if_then_else" and isinstance(args[0], e.IntImm):
        return args[1] if args[0].value else args[2]
    if x.op == "likely" and isinstance(args[0], e.IntImm):
        return args[0]
    return e.Call(x.dtype, x.op, args)


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """True if both tuples hold the same objects."""
    return len(a) == len(b) and all(map(operator.is_, a, b))


_REBUILD: dict[type, Callable[[Any, Go], Expr]] = {
    e.Add: _binary(fold_add),
    e.Sub: _binary(fold_subtract),
    e.Mul: _binary(op.multiply),
    e.Div: _binary(lambda a, b: op.truncdiv(a, b)),
    e.Mod: _binary(op.truncmod),
    e.FloorDiv: _binary(op.floordiv),
    e.FloorMod: _binary(op.floormod),
    e.Min: _binary(op.minimum),
    e.Max: _binary(op.maximum),
    e.EQ: _binary(op.eq),
    e.NE: _binary(op.ne),
    e.LT: _binary(op.less),
    e.LE: _binary(op.less_equal),
    e.GT: _binary(op.greater),
    e.GE: _binary(op.greater_equal),
    e.And: _binary(op.logical_and),
    e.Or: _binary(op.logical_or),
    e.Not: _not,
    e.Cast: _cast,
    e.Select: _select,
    e.Let: _let,
    e.Ramp: _ramp,
    e.Broadcast: _broadcast,
    e.Shuffle: _shuffle,
    e.BufferLoad: _load,
    e.Call: _call,
}
