"""Bounds checks: an access outside of its buffer ends the call with an error, not with a wrong result."""

from __future__ import annotations

from typing import Any

from tilewright.support.recursion import nested
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Let
from tilewright.tir.position import Position
from tilewright.tir.stmt import AssertStmt, BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from tilewright.tir.visitor import Rewriter, children


def check_bounds(func: PrimFunc) -> PrimFunc:
    """`func`, of buffers with their shapes, with an assertion before each access that is not provably inside.

        for i in range(n):                for i in range(n):
            c[i] = a[i + 1]       =>          assert 0 <= i + 1 and i + 1 < 8, "… a[i + 1] …"
                                              c[i] = a[i + 1]

    For debugging: all loops become serial, so that a failure stops everything at once. What `if_then_else` guards is
    checked where its condition holds.
    """
    return func.with_body(_Checker()(func.body))


class _Checker(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self.position: Position | None = None  # of the innermost statement that has one

    def __call__(self, node: Any) -> Any:
        outer = self.position
        if isinstance(node, Stmt):
            self.position = node.position or outer
        made = super().__call__(node)
        self.position = outer
        return made

    def visit_For(self, node: For) -> Stmt:
        """The loop, in order, its bounds checked before it."""
        self.analyzer.bind(node.var, (node.min, node.extent))
        body = self(node.body)
        kind = node.kind if node.kind is ForKind.THREAD_BINDING else ForKind.SERIAL
        loop = For(node.var, node.min, node.extent, kind, body, node.thread, node.annotations)
        return self._checked(loop, node.min, node.extent)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        """The branches, under what the condition says."""
        with self.analyzer.constraint(node.condition):
            then_case = self(node.then_case)
        else_case = None if node.else_case is None else self(node.else_case)
        return self._checked(IfThenElse(node.condition, then_case, else_case), node.condition)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """The store after checks of what it reads and where it writes."""
        return self._checked(self._target(node), node.value, *node.indices)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """The binding after checks of its value."""
        return self._checked(self.rebuild(node), node.value)

    def generic(self, node: Any) -> Any:
        """Expressions stay; statements without a rule of their own keep theirs."""
        return node if isinstance(node, Expr) else self.rebuild(node)

    def _target(self, node: BufferStore) -> Stmt:
        return self._assertions(node, node.buffer, node.indices, op.const(True, "bool"))

    def _checked(self, stmt: Stmt, *values: Expr) -> Stmt:
        """`stmt` after assertions for all loads in `values`."""
        found: dict[tuple[BufferLoad, Expr], None] = {}
        for value in values:
            _guarded_loads(value, op.const(True, "bool"), found)
        for load, guard in reversed(found):
            stmt = self._assertions(stmt, load.buffer, load.indices, guard)
        return stmt

    def _assertions(self, stmt: Stmt, buffer: Buffer, indices: tuple[Expr, ...], guard: Expr) -> Stmt:
        for d, (index, size) in enumerate(zip(indices, buffer.shape, strict=True)):
            inside = op.all(index >= 0, index < size)
            with self.analyzer.constraint(guard):
                if self.analyzer.can_prove(index >= 0) and self.analyzer.can_prove(index < size):
                    continue
            access = f"{buffer.name}[{', '.join(map(repr, indices))}]"
            where = "" if self.position is None else f", in what is written at {self.position}"
            message = f"out of bounds: index {d} of {access} is outside [0, {size!r}){where}"
            stmt = AssertStmt(op.any(op.logical_not(guard), inside), message, stmt)
        return stmt


@nested
def _guarded_loads(x: Expr, guard: Expr, found: dict[tuple[BufferLoad, Expr], None]) -> None:
    """Adds every load in `x` with the condition under which it happens, inner loads first."""
    if isinstance(x, Call) and x.op == "if_then_else":
        condition, a, b = x.args
        _guarded_loads(condition, guard, found)
        _guarded_loads(a, op.all(guard, condition), found)
        _guarded_loads(b, op.all(guard, op.logical_not(condition)), found)
        return
    if isinstance(x, (IntImm, Let)) or (isinstance(x, Call) and x.op in ("address_of", "prefetch")):
        return
    for child in children(x):
        _guarded_loads(child, guard, found)
    if isinstance(x, BufferLoad):
        found[x, guard] = None
