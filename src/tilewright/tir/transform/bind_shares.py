"""Kernels of the parallel loops of a processor's schedule, for devices that are processors themselves."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IntImm, Var
from tilewright.tir.stmt import Allocate, For, ForKind, IfThenElse, LetStmt, PrimFunc, SeqStmt, Stmt, seq
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.visitor import StmtRewriter, substitute

#: Blocks that a parallel loop is divided into: enough for several on each core of a desktop's processor, whose threads
#: take one after the other; each costs the driver about what a hundred multiply-adds do.
_SHARES = 32


def bind_shares(func: PrimFunc) -> PrimFunc:
    """`func` with a kernel for each outermost parallel loop, of blocks of one thread that take contiguous shares of it.

        for i in parallel(n):                    for b in thread("blockIdx.x", 32):
            B[i] = A[i]                 =>           for t in thread("threadIdx.x", 1):
                                                         for i in range(n*b//32, n*(b + 1)//32):
                                                             B[i] = A[i]

    What stands in no parallel loop is one thread's. Memory made within a kernel is the thread's own, memory around
    kernels is the device's. Runs where processors have `lower_parallel`.
    """
    return func.with_body(_kernels(func.body))


def _kernels(stmt: Stmt) -> Stmt:
    """The statement with kernels for the parallel loops in it, and for all that computes between them."""
    if isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL:
        return _shares(stmt)
    if not any(_is_parallel(inner) for inner in walk(stmt)):
        return _thread(_Private()(stmt))
    if isinstance(stmt, SeqStmt):
        return _neighbours(stmt)
    if isinstance(stmt, Allocate):
        return _with_memory(stmt, "global", _kernels)
    if isinstance(stmt, LetStmt | For):
        return with_fields(stmt, body=_kernels(stmt.body))
    if isinstance(stmt, IfThenElse):
        other = None if stmt.else_case is None else _kernels(stmt.else_case)
        return IfThenElse(stmt.condition, _kernels(stmt.then_case), other)
    return stmt


def _neighbours(stmt: SeqStmt) -> Stmt:
    """The statements in order, those between parallel loops as one kernel."""
    made: list[Stmt] = []
    alone: list[Stmt] = []
    for part in (*stmt.stmts, None):
        if part is not None and not any(_is_parallel(inner) for inner in walk(part)):
            alone.append(part)
            continue
        if alone:
            made.append(_thread(_Private()(seq(*alone))))
            alone = []
        if part is not None:
            made.append(_kernels(part))
    return seq(*made)


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL


def _shares(loop: For) -> Stmt:
    """The kernel of a parallel loop."""
    dtype, extent = loop.var.dtype, loop.extent
    most = min(_SHARES, extent.value) if isinstance(extent, IntImm) else _SHARES
    block, count = Var("block", dtype), op.const(max(most, 1), dtype)
    first, end = op.floordiv(extent * block, count), op.floordiv(extent * (block + 1), count)
    own = For(loop.var, loop.min + first, end - first, ForKind.SERIAL, _Private()(loop.body)).at(loop.position)
    return _thread_loop(block, count, _thread(own), "blockIdx.x")


def _thread(stmt: Stmt) -> Stmt:
    """One thread that runs the statement."""
    return _thread_loop(Var("thread", "int32"), op.const(1), stmt, "threadIdx.x")


def _thread_loop(var: Var, extent: object, body: Stmt, tag: str) -> For:
    return For(var, op.const(0, var.dtype), op.convert(extent), ForKind.THREAD_BINDING, body, tag, {})


class _Private(StmtRewriter):
    """The statements of one thread: its loops are serial, its memory its own."""

    def visit_For(self, node: For) -> Stmt:
        """The loop, serial where it was parallel."""
        made: For = self.rebuild(node)
        return with_fields(made, kind=ForKind.SERIAL, thread="") if made.kind is ForKind.PARALLEL else made

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        """The memory, in the scope of the thread."""
        return _with_memory(stmt, "local", self)


def _with_memory(stmt: Allocate, scope: str, rule: object) -> Stmt:
    """The allocation in a scope, and its body by a rule."""
    old, body = stmt.buffer, stmt.body
    if old.scope != scope:
        made = Buffer(old.name, old.shape, old.dtype, scope, old.strides, old.alignment)
        stmt, body = with_fields(stmt, buffer=made), substitute(body, {}, {old: made})
    return with_fields(stmt, body=rule(body))  # type: ignore[operator]
