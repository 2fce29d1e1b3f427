"""Interleave virtual threads: one instruction stream that does the work of several (OSDI 2018 paper, section 4.4)."""

from __future__ import annotations

import itertools

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from tilewright.tir.intrinsics import written_through
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.visitor import Rewriter, StmtRewriter, collect, substitute

#: Pragmas and attributes whose statements become one instruction of a coprocessor, or are left out as one.
WHOLE = ("coproc_scope", "dma_copy", "alu", "skip_dma_copy", "skip_alu")


def is_virtual(tag: str) -> bool:
    """True for the thread axes that no hardware has: "vthread", "vthread.x", "cthread"."""
    return tag.split(".")[0] in ("vthread", "cthread")


def inject_virtual_thread(func: PrimFunc) -> PrimFunc:
    """`func` with each virtual thread axis as innermost loops around the statements that depend on it.

        for v in thread("vthread", 2):             T = allocate(float32[2, 8])
            T = allocate(float32[8])               for k in range(4):
            for k in range(4):             =>          for v in range(2):
                T[k] = A[v, k]                             T[v, k] = A[v, k]
                B[v, k] = T[k] * 2.0                   for v in range(2):
                                                           B[v, k] = T[v, k] * 2.0

    A buffer made inside the axis exists once a virtual thread, unless nothing stored to it depends on the axis: then
    all virtual threads share it, and it is filled once. Those of "cthread" share nothing, so that what one loads can
    come while another computes. What a coprocessor runs as one instruction (`WHOLE`) is
    repeated as a whole.
    """
    return _Axes()(func)


class _Axes(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """The loop, or what replaces a virtual thread axis, the innermost first."""
        loop: For = self.rebuild(node)
        if loop.kind is ForKind.THREAD_BINDING and is_virtual(loop.thread):
            return _Injector(loop).run()
        return loop


class _Injector(StmtRewriter):
    """One virtual thread axis."""

    def __init__(self, loop: For) -> None:
        super().__init__()
        if not isinstance(loop.extent, IntImm):
            raise ScheduleError(
                f"the virtual thread axis {loop.var.name} has the extent {loop.extent!r}; bind a constant one"
            )
        self.loop = loop
        self.inside = {s.buffer for s in walk(loop.body) if isinstance(s, Allocate)}
        self.touched: set[Var | Buffer] = {loop.var}
        self.apart = loop.thread.split(".")[0] == "cthread"
        if self.apart:
            self.touched |= self.inside
        while self._spread():
            pass
        self.copies = {b: _expanded(b, loop.extent) for b in self.inside if b in self.touched}

    def run(self) -> Stmt:
        """The statement that replaces the axis's loop."""
        if self.loop.extent.value == 1:  # type: ignore[attr-defined]
            return substitute(self.loop.body, {self.loop.var: op.const(0)})
        body = self(self.loop.body)
        return _Prefixed(self.copies, self.loop.var)(body) if self.copies else body

    # ------------------------------------------------------------------------------------------- what depends on it
    def _spread(self) -> bool:
        """One round of following the dependence; True if it reached anything new."""
        before = len(self.touched)
        for stmt in walk(self.loop.body):
            if isinstance(stmt, BufferStore) and self._depends(stmt.value, *stmt.indices):
                self.touched.add(stmt.buffer)
            elif isinstance(stmt, Evaluate) and self._depends(stmt.value):
                self.touched.update(_written(stmt.value))
            elif (isinstance(stmt, LetStmt) and self._depends(stmt.value)) or (
                isinstance(stmt, For) and self._depends(stmt.min, stmt.extent)
            ):
                self.touched.add(stmt.var)
            elif isinstance(stmt, IfThenElse | While) and self._depends(stmt.condition):
                self.touched.update(_made(stmt))
        return len(self.touched) > before

    def _depends(self, *exprs: Expr) -> bool:
        found = collect(exprs, Var, BufferLoad)
        return any((x.buffer if isinstance(x, BufferLoad) else x) in self.touched for x in found)

    # -------------------------------------------------------------------------------------------------- statements
    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """A store of each virtual thread."""
        own = stmt.buffer in self.inside or self._depends(stmt.value, *stmt.indices)
        return self._each(stmt) if own and stmt.buffer in self.touched else stmt

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        """A call of each virtual thread."""
        return self._each(stmt) if self._depends(stmt.value) else stmt

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        """Statements in order; of instructions of one kind in a row, a virtual thread does all of its own.

        So what the first one loads is there while the second one's still comes.
        """
        if not self.apart:
            return self.rebuild(stmt)
        made: list[Stmt] = []
        for kind, run in itertools.groupby(stmt.stmts, _kind):
            own = list(run)
            made += [self._each(seq(*own))] if kind else [self(one) for one in own]
        return seq(*made)

    def visit_Stmt(self, stmt: Stmt) -> Stmt:
        """Any other statement, repeated as a whole where it is one instruction or what it tests differs."""
        if _is_whole(stmt):
            own = not _made(stmt).isdisjoint(self.touched & self.inside)
            return self._each(stmt) if own or any(x in self.touched for x in _used(stmt)) else stmt
        heads = [v for v in stmt.fields() if isinstance(v, Expr) and not isinstance(v, Var)]
        if self._depends(*heads) and not isinstance(stmt, Allocate):
            return self._each(stmt)
        return self.rebuild(stmt)

    def _each(self, stmt: Stmt) -> Stmt:
        """`stmt` once for every virtual thread."""
        return For(self.loop.var, op.const(0), self.loop.extent, ForKind.UNROLLED, stmt, "", {})


def _kind(stmt: Stmt) -> tuple[str, bool] | None:
    """The kind of instruction of a statement: its mark, and True if it writes to memory that all see."""
    if not _is_whole(stmt):
        return None
    marks = stmt.key if isinstance(stmt, AttrStmt) else next(key for key in stmt.annotations if key in WHOLE)  # type: ignore[attr-defined]
    stores = [s.buffer for s in walk(stmt) if isinstance(s, BufferStore)]
    return marks, any(buffer.scope == "global" for buffer in stores)


def _is_whole(stmt: Stmt) -> bool:
    if isinstance(stmt, AttrStmt):
        return stmt.key in WHOLE
    return isinstance(stmt, For) and any(key in stmt.annotations for key in WHOLE)


def _made(stmt: Stmt) -> set[Var | Buffer]:
    """The buffers that `stmt` may write to."""
    made: set[Var | Buffer] = {s.buffer for s in walk(stmt) if isinstance(s, BufferStore)}
    return made.union(*[_written(s.value) for s in walk(stmt) if isinstance(s, Evaluate)])


def _written(value: Expr) -> set[Var | Buffer]:
    """The buffers that a call may write to by the addresses it gets."""
    calls = [call for call in collect(value, Call) if written_through(call)]
    return {load.buffer for call in calls for load in call.args if isinstance(load, BufferLoad)}


def _used(stmt: Stmt) -> set[Var | Buffer]:
    """The variables and buffers that are read anywhere in `stmt`."""
    found = collect(stmt, Var, BufferLoad)
    return {x.buffer if isinstance(x, BufferLoad) else x for x in found}  # type: ignore[misc]


def _expanded(buffer: Buffer, threads: Expr) -> Buffer:
    strides = None if buffer.strides is None else (buffer.shape[0] * buffer.strides[0], *buffer.strides)
    shape = (threads, *buffer.shape)
    return Buffer(buffer.name, shape, buffer.dtype, buffer.scope, strides, buffer.alignment)


class _Prefixed(Rewriter):
    """Accesses to the buffers in `copies` get the virtual thread as their first index."""

    def __init__(self, copies: dict[Buffer, Buffer], thread: Var) -> None:
        super().__init__()
        self.copies, self.thread = copies, thread

    def visit_BufferLoad(self, x: BufferLoad) -> Expr:
        indices = tuple(self(i) for i in x.indices)
        made = self.copies.get(x.buffer)
        return BufferLoad(x.buffer, indices) if made is None else BufferLoad(made, (self.thread, *indices))

    def visit_Call(self, x: Call) -> Expr:
        made: Call = self.rebuild(x)
        if made is x or made.op != "access_region" or len(made.args[1].indices) == len(made.args) - 2:  # type: ignore[attr-defined]
            return made
        return Call(made.dtype, made.op, (*made.args[:2], op.const(1), *made.args[2:]))

    def visit_BufferStore(self, x: BufferStore) -> Stmt:
        indices = tuple(self(i) for i in x.indices)
        made = self.copies.get(x.buffer)
        if made is None:
            return BufferStore(x.buffer, self(x.value), indices)
        return BufferStore(made, self(x.value), (self.thread, *indices))

    def visit_Allocate(self, x: Allocate) -> Stmt:
        return with_fields(x, buffer=self.copies.get(x.buffer, x.buffer), body=self(x.body))
