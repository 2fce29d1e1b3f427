"""Bind to threads of a device what a schedule bound to none: loops written by hand, scans, single elements."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Call, IntImm, Var
from tilewright.tir.stmt import (
    Allocate,
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
)
from tilewright.tir.transform.bind_threads import is_thread_loop
from tilewright.tir.transform.statements import walk, with_fields

#: Threads of a block that takes iterations of a parallel loop.
_THREADS = 64


def bind_loose_loops(func: PrimFunc) -> PrimFunc:
    """`func` with a kernel around each statement that computes outside of all threads.

        for i in parallel(n):                    for b in thread("blockIdx.x", (n + 63) // 64):
            B[i] = A[i]                              for t in thread("threadIdx.x", 64):
                                          =>             if b * 64 + t < n:
                                                             B[b * 64 + t] = A[b * 64 + t]

    The iterations of an outermost parallel loop are threads; what stands in none is one thread's. Loops around kernels
    stay the host's.
    """
    return func.with_body(_bound(func.body))


def _bound(stmt: Stmt) -> Stmt:
    if is_thread_loop(stmt):
        return stmt
    if isinstance(stmt, SeqStmt):
        return SeqStmt([_bound(part) for part in stmt.stmts])
    if isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL:
        return _threads(stmt)
    if isinstance(stmt, Allocate | LetStmt) and _scope(stmt) == "global":
        return with_fields(stmt, body=_bound(stmt.body))
    if any(is_thread_loop(inner) or _is_parallel(inner) for inner in walk(stmt)):
        if isinstance(stmt, For | Allocate):
            return with_fields(stmt, body=_bound(stmt.body))
        if isinstance(stmt, IfThenElse):
            other = None if stmt.else_case is None else _bound(stmt.else_case)
            return IfThenElse(stmt.condition, _bound(stmt.then_case), other)
    return _alone(stmt) if _computes(stmt) else stmt


def _scope(stmt: Allocate | LetStmt) -> str:
    """The scope of the memory that a statement makes; of a value that has none, the host's."""
    return stmt.buffer.scope if isinstance(stmt, Allocate) else "global"


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL


def _computes(stmt: Stmt) -> bool:
    """True for a statement that stores elements, or calls what may."""
    return any(
        isinstance(inner, BufferStore | While)
        or (isinstance(inner, Evaluate) and isinstance(inner.value, Call) and inner.value.op != "call_packed")
        for inner in walk(stmt)
    )


def _threads(loop: For) -> Stmt:
    """The iterations of a parallel loop as threads; parallel loops within are serial."""
    dtype = loop.var.dtype
    extent = loop.extent
    count = min(_THREADS, extent.value) if isinstance(extent, IntImm) else _THREADS
    block, thread = Var(f"{loop.var.name}_block", dtype), Var(f"{loop.var.name}_thread", dtype)
    position = block * count + thread
    body: Stmt = LetStmt(loop.var, position + loop.min, _serial(loop.body))
    body = IfThenElse(op.likely(op.less(position, extent)), body)
    body = _thread_loop(thread, op.const(max(count, 1), dtype), body, "threadIdx.x")
    return _thread_loop(block, (extent + (count - 1)) // max(count, 1), body, "blockIdx.x")


def _alone(stmt: Stmt) -> Stmt:
    return _thread_loop(Var("thread", "int32"), op.const(1), _serial(stmt), "threadIdx.x")


def _thread_loop(var: Var, extent: object, body: Stmt, tag: str) -> For:
    return For(var, op.const(0, var.dtype), op.convert(extent), ForKind.THREAD_BINDING, body, tag, {})


def _serial(stmt: Stmt) -> Stmt:
    """`stmt` with its parallel and vectorized loops serial: they are a thread's own."""
    if isinstance(stmt, SeqStmt):
        return SeqStmt([_serial(part) for part in stmt.stmts])
    if isinstance(stmt, For):
        kind = ForKind.SERIAL if stmt.kind in (ForKind.PARALLEL, ForKind.VECTORIZED) else stmt.kind
        return with_fields(stmt, kind=kind, body=_serial(stmt.body))
    if isinstance(stmt, Allocate | LetStmt | While):
        return with_fields(stmt, body=_serial(stmt.body))
    if isinstance(stmt, IfThenElse):
        other = None if stmt.else_case is None else _serial(stmt.else_case)
        return IfThenElse(stmt.condition, _serial(stmt.then_case), other)
    return stmt
