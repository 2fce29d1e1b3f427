"""The rewriter that folds constants in what it rebuilds, for the passes that substitute variables.

Expressions are rebuilt through `tir.op`, which folds; integer sums keep their constant last and merged: (x + 3) + 4
becomes x + 7.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import Stmt
from tilewright.tir.visitor import Rewriter

S = TypeVar("S", bound=Stmt)


def fold_add(a: Expr, b: Expr) -> Expr:
    """a + b of one dtype, integer constants merged and kept on the right."""
    if not a.dtype.is_int:
        return op.add(a, b)
    if isinstance(b, e.Call) and b.op == "dp4a":  # adds as it multiplies
        return e.Call(b.dtype, b.op, (fold_add(a, b.args[0]), *b.args[1:]))
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


Rule = Callable[[Any, Any], Expr]  # a rewriter, and the node that it shall rebuild


def _binary(build: Callable[[Any, Any], Expr]) -> Rule:
    def rebuild(go: Rewriter, x: Any) -> Expr:
        a, b = go(x.a), go(x.b)
        return x if a is x.a and b is x.b else build(a, b)

    return rebuild


def _not(go: Rewriter, x: Any) -> Expr:
    a = go(x.a)
    return x if a is x.a else op.logical_not(a)


def _cast(go: Rewriter, x: Any) -> Expr:
    value = go(x.value)
    return x if value is x.value else op.cast(DType(x.dtype.element).with_lanes(value.dtype.lanes), value)


def _select(go: Rewriter, x: Any) -> Expr:
    condition, a, b = go(x.condition), go(x.true_value), go(x.false_value)
    if condition is x.condition and a is x.true_value and b is x.false_value:
        return x
    return op.select(condition, a, b)


def _let(go: Rewriter, x: Any) -> Expr:
    value, body = go(x.value), go(x.body)
    return x if value is x.value and body is x.body else e.Let(x.var, value, body)


def _ramp(go: Rewriter, x: Any) -> Expr:
    base, stride = go(x.base), go(x.stride)
    return x if base is x.base and stride is x.stride else e.Ramp(base, stride, x.lanes)


def _broadcast(go: Rewriter, x: Any) -> Expr:
    value = go(x.value)
    return x if value is x.value else e.Broadcast(value, x.lanes)


def _shuffle(go: Rewriter, x: Any) -> Expr:
    vectors = tuple([go(v) for v in x.vectors])
    return x if same(vectors, x.vectors) else e.Shuffle(vectors, x.indices)


def _load(go: Rewriter, x: Any) -> Expr:
    buffer, indices = go.visit_buffer(x.buffer), tuple([go(i) for i in x.indices])
    return x if buffer is x.buffer and same(indices, x.indices) else e.BufferLoad(buffer, indices)


def _call(go: Rewriter, x: Any) -> Expr:
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


_RULES: dict[type, Rule] = {
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


class FoldingRewriter(Rewriter):
    """A `Rewriter` that folds constants in what it rebuilds."""

    def rebuild(self, node: Any) -> Any:
        """`node` from its rewritten children, folded; the same object if none changed."""
        rule = _RULES.get(node.__class__)
        return Rewriter.rebuild(self, node) if rule is None else rule(self, node)

    generic = rebuild

    def _default(self, node_class: type) -> Any:
        return _RULES.get(node_class, type(self).generic)


def substitute_var(stmt: S, var: Var, value: Expr) -> S:
    """`stmt` with `var` replaced by `value` and constants folded."""
    rewriter = FoldingRewriter()
    rewriter.memo[var] = value
    made: S = rewriter(stmt)
    return made
