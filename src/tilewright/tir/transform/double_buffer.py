"""Double buffering: the next iteration's part of a buffer is made while this iteration's is read."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Var
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, IfThenElse, PrimFunc, Stmt, seq
from tilewright.tir.transform.accesses import accesses_of
from tilewright.tir.transform.statements import rebind
from tilewright.tir.visitor import Rewriter, StmtRewriter, collect_vars, substitute

KEY = "double_buffer"


def double_buffer(func: PrimFunc) -> PrimFunc:
    """`func` with the buffers that the attribute "double_buffer" names doubled, in the loop just around them.

    for i in range(8):                                t = allocate(float32[2, 4])
        t = allocate(float32[4])                      t[0, …] = a[0, …]
        with attribute("double_buffer", on=t):  =>    for i in range(8):
            t[…] = a[i, …]                                if i + 1 < 8: t[(i + 1) % 2, …] = a[i + 1, …]
        c[i] = t[0] + t[3]                                c[i] = t[i % 2, 0] + t[i % 2, 3]

    A buffer stays single where its part cannot be made ahead: the loop is not serial, what makes it reads what the
    same iteration computes, or its shape varies with the loop.
    """
    return func.with_body(_Doubler()(func.body))


class _Part(NamedTuple):
    """A loop's body taken apart: the conditions and allocations around the statement that makes `buffer`."""

    conditions: tuple[Expr, ...]
    buffers: tuple[Buffer, ...]
    buffer: Buffer
    make: Stmt
    rest: Stmt


class _Doubler(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """The loop with the first buffer it can double doubled, then the next."""
        loop: For = self.rebuild(node) if node.kind is not ForKind.VECTORIZED else node
        if loop.kind is not ForKind.SERIAL:
            return _Plain()(loop)
        part = _take_apart(loop)
        if part is None or not _can_run_ahead(part, loop):
            return _Plain()(loop)
        return _doubled(part, loop)


class _Plain(StmtRewriter):
    """Drops the attribute."""

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """The body alone."""
        made: AttrStmt = self.rebuild(node)
        return made.body if made.key == KEY else made


def _take_apart(loop: For) -> _Part | None:
    body: Stmt = loop.body
    conditions: list[Expr] = []
    buffers: list[Buffer] = []
    while True:
        if isinstance(body, IfThenElse) and body.else_case is None and not buffers:
            conditions.append(body.condition)
            body = body.then_case
        elif isinstance(body, Allocate):
            buffers.append(body.buffer)
            body = body.body
        else:
            break
    parts = getattr(body, "stmts", (body,))
    for at, part in enumerate(parts):
        if isinstance(part, AttrStmt) and part.key == KEY and part.target in buffers:
            rest = seq(*parts[:at], *parts[at + 1 :])
            return _Part(tuple(conditions), tuple(buffers), part.target, part.body, rest)
    return None


def _can_run_ahead(part: _Part, loop: For) -> bool:
    """True if making the buffer needs nothing that the rest of the iteration writes, nor a shape that varies."""
    made, rest = accesses_of(part.make), accesses_of(part.rest)
    if any(b in rest.writes for b in (*made.reads, *made.writes)):
        return False
    if any(b in made.reads or b in made.writes for b in part.buffers if b is not part.buffer):
        return False
    return all(loop.var not in collect_vars(size) for size in part.buffer.shape) and not part.buffer.strides


def _doubled(part: _Part, loop: For) -> Stmt:
    old = part.buffer
    both = Buffer(old.name, [2, *old.shape], old.dtype, old.scope, None, old.alignment)
    zero, end = op.const(0, loop.var.dtype), loop.min + loop.extent

    def make(at: Expr, slot: Expr, *conditions: Expr) -> Stmt:
        body: Stmt = _InSlot(old, both, slot)(substitute(part.make, {loop.var: at}))
        needed = [substitute(c, {loop.var: at}) for c in part.conditions]
        return _under((*conditions, *needed), body)

    some = () if isinstance(loop.extent, IntImm) else (loop.extent > 0,)
    first = make(loop.min, zero, *some)
    following = make(loop.var + 1, (loop.var + 1 - loop.min) % 2, loop.var + 1 < end)
    rest: Stmt = _InSlot(old, both, (loop.var - loop.min) % 2)(part.rest)
    for buffer in reversed([b for b in part.buffers if b is not old]):
        rest = Allocate(buffer, rest)
    fresh = Var(loop.var.name, loop.var.dtype)
    body = substitute(seq(following, _under(part.conditions, rest)), {loop.var: fresh})
    return Allocate(both, seq(first, rebind(loop, fresh, body)))


def _under(conditions: tuple[Expr, ...], body: Stmt) -> Stmt:
    """`body` where all the conditions hold, each tested within the ones before."""
    for condition in reversed(conditions):
        if not op.is_const(condition, 1):
            body = IfThenElse(condition, body)
    return body


class _InSlot(Rewriter):
    """Accesses of one buffer made accesses of half of another."""

    def __init__(self, old: Buffer, new: Buffer, slot: Expr) -> None:
        super().__init__()
        self.old, self.new, self.slot = old, new, slot

    def visit_BufferLoad(self, node: BufferLoad) -> Expr:
        """The load from the half."""
        indices = [self(i) for i in node.indices]
        if node.buffer is self.old:
            return BufferLoad(self.new, (self.slot, *indices))
        return BufferLoad(node.buffer, indices)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """The store to the half."""
        value, indices = self(node.value), tuple(self(i) for i in node.indices)
        if node.buffer is self.old:
            return BufferStore(self.new, value, (self.slot, *indices))
        return BufferStore(node.buffer, value, indices)
