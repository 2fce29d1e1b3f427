"""Walking and rewriting: each distinct expression once, unchanged nodes the same object, bound variables left alone."""

from __future__ import annotations

from typing import Any

from tilewright import tir
from tilewright.tir.node import node
from tilewright.tir.position import Position
from tilewright.tir.stmt import Stmt
from tilewright.tir.visitor import (
    Rewriter,
    StmtRewriter,
    children,
    collect,
    collect_vars,
    post_order,
    rewrite,
    rewrite_expr,
    substitute,
    uses_var,
)

X, Y, Z = tir.Var("x"), tir.Var("y"), tir.Var("z")
A, B = tir.Buffer("A", (16,)), tir.Buffer("B", (16,))


def loop(var: tir.Var = X, body: Stmt | None = None) -> tir.For:
    store = tir.BufferStore(B, tir.BufferLoad(A, (var + Y,)), (var,))
    return tir.For(var, tir.const(0), Z, tir.ForKind.SERIAL, body or store)


def deep(depth: int) -> tir.Expr:
    """A DAG of `depth` nodes that is a tree of 2**depth."""
    x: tir.Expr = X
    for i in range(depth):
        x = tir.Min(x + i, x * 2)
    return x


def test_children_are_in_field_order_without_the_bound_variable() -> None:
    stmt = loop()
    assert children(stmt) == (tir.const(0), Z, stmt.body)
    assert children(tir.select(X < Y, X, Z)) == (X < Y, X, Z)
    assert children(tir.Let(X, Y, X + 1)) == (Y, X + 1)


def test_children_of_a_new_node_class() -> None:
    @node
    class Repeat(Stmt):
        """A statement class that the engine has not met."""

        count: tir.Expr
        name: str
        body: Stmt

    stmt = Repeat(X, "again", loop(Z))
    assert children(stmt) == (X, stmt.body)
    assert substitute(stmt, {X: Y}).count is Y


def test_post_order_visits_each_node_once_children_first() -> None:
    seen: list[Any] = []
    root = deep(200)
    post_order(root, seen.append)
    assert len(seen) == len(set(seen))
    assert seen[-1] is root
    position = {item: i for i, item in enumerate(seen)}
    assert all(position[child] < position[item] for item in seen for child in children(item))


def test_post_order_is_not_limited_by_recursion() -> None:
    x: tir.Expr = X
    for i in range(5000):
        x = tir.Max(x, Y + i)
    assert len(collect(x, tir.Max)) == 5000


def test_collect_vars_lists_what_is_read() -> None:
    func = tir.PrimFunc("f", [A, B, Y, Z], loop())
    assert list(collect_vars(func)) == [Z, X, Y]
    assert list(collect_vars([X + Y, Y + Z])) == [X, Y, Z]
    assert uses_var(X + Y, {Y}.__contains__)
    assert not uses_var(X + Y, {Z}.__contains__)


def test_substitute_keeps_what_does_not_change() -> None:
    stmt = loop()
    assert substitute(stmt, {tir.Var("other"): X}) is stmt
    assert substitute(stmt, {}) is stmt
    changed = substitute(stmt, {Y: tir.const(3)})
    assert changed.var is X
    assert changed.body.value is tir.BufferLoad(A, (X + 3,))
    assert changed.min is stmt.min


def test_substitute_replaces_buffers() -> None:
    other = tir.Buffer("C", (16,))
    changed = substitute(loop(), {}, {A: other, B: other})
    assert changed.body.buffer is other
    assert changed.body.value.buffer is other


def test_substitute_in_a_function_and_a_dag() -> None:
    func = tir.PrimFunc("f", [A, B, Y, Z], loop(), {"noalias": True})
    changed = substitute(func, {Y: tir.const(0)})
    assert changed.attrs == func.attrs
    assert substitute(func, {tir.Var("other"): X}) is func
    assert list(collect_vars(substitute(deep(80), {X: Y}))) == [Y]


def test_rules_apply_from_the_leaves_up() -> None:
    halve = {tir.Mul: lambda m: m.a if tir.is_const(m.b, 2) else None}
    assert rewrite_expr(X * 2 * 2 + Y, halve) is X + Y
    unchanged = X * 3
    assert rewrite_expr(unchanged, halve) is unchanged


def test_rules_drop_and_flatten_statements() -> None:
    empty = tir.Evaluate(tir.const(0))
    one, two = tir.Evaluate(tir.const(1)), tir.Evaluate(tir.const(2))
    body = tir.SeqStmt((empty, one, tir.IfThenElse(X < Y, two, None)))
    made = rewrite(body, {tir.IfThenElse: lambda s: tir.seq(s.then_case, s.then_case)})
    assert made.stmts == (empty, one, two, two)


class Renumber(Rewriter):
    """Adds one to integer constants; counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def visit_IntImm(self, x: tir.IntImm) -> tir.Expr:
        self.calls += 1
        return tir.const(x.value + 1, x.dtype)

    def visit_CompareExpr(self, x: tir.CompareExpr) -> tir.Expr:
        made = self.rebuild(x)
        return tir.logical_not(made)


def test_rewriter_dispatches_by_class_and_base_class() -> None:
    renumber = Renumber()
    assert renumber(X < Y + 1) is tir.Not(tir.LT(X, Y + 2))
    assert renumber(tir.select(X >= 1, X, 1)) is tir.Select(tir.Not(X >= 2), X, tir.const(2))
    assert renumber.calls == 1


def test_statement_rewriter_hands_over_whole_expressions() -> None:
    class Doubled(StmtRewriter):
        def visit_Expr(self, node: tir.Expr) -> tir.Expr:
            return node * 2 if node is X else node

    store = tir.BufferStore(B, X, (X + 1,))
    made = Doubled()(store)
    assert made.value is X * 2 and made.indices == (X + 1,)
    assert StmtRewriter()(loop(X, tir.seq(store, store))).body.stmts == (store, store)


def test_rebuilt_statements_keep_their_position() -> None:
    class Twice(StmtRewriter):
        def visit_BufferStore(self, node: tir.BufferStore) -> Stmt:
            return tir.seq(node, tir.BufferStore(node.buffer, node.value, node.indices))

    here = Position("model.py", 3)
    made = Twice()(loop().at(here))
    assert made.position is here and len(made.body.stmts) == 2
    assert substitute(loop(body=loop(Z).at(here)), {Y: Z}).body.position is here


def test_attributes_name_buffers_too() -> None:
    other = tir.Buffer("C", (16,))
    stmt = tir.AttrStmt("pragma", A, tir.const(1), loop())
    assert substitute(stmt, {}, {A: other}).target is other
