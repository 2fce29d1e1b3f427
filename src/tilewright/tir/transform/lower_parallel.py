"""Write a function for many workers that all run it (SPMD): shares of parallel loops, and barriers between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.support.recursion import nested
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr
from tilewright.tir.stmt import Allocate, Evaluate, For, ForKind, IfThenElse, PrimFunc, SeqStmt, Stmt, While, seq
from tilewright.tir.transform.accesses import accesses_of
from tilewright.tir.transform.statements import child_stmts, with_fields
from tilewright.tir.visitor import StmtRewriter, substitute

WORKER_SHARE = "worker_share"  # annotation of the loop over one worker's share of a parallel loop


def lower_parallel(func: PrimFunc) -> PrimFunc:
    """`func` as every worker runs it: its contiguous share of each PARALLEL loop, worker 0 alone for the rest.

    A barrier stands between two regions where one writes what the other reads or writes, and at the end of a serial
    loop around them if its next iteration would conflict. The caller puts a barrier between functions.

        a[0] = x[0]                            if worker_id() == 0: a[0] = x[0]
        for i in parallel(n):        =>        barrier()
            b[i] = a[0]                        for i in range(n*id//workers, n*(id + 1)//workers):
                                                   b[i] = a[0]

    A parallel loop within another runs serially. An allocation around a parallel loop is shared by the workers,
    whatever its scope was. The attribute "parallel" says whether there is anything to share.
    """
    made = _Spmd(func.body)
    return func.with_body(made(func.body), spmd=True, parallel=bool(made.holds_parallel))


@dataclass(frozen=True, eq=False)
class _Region:
    """A stretch of code that runs without a barrier: in shares (`parallel`) or on worker 0."""

    parallel: bool
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]

    def conflicts(self, other: _Region) -> bool:
        """True if a barrier must separate the two: one worker may see what another writes."""
        if not self.parallel and not other.parallel:
            return False
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


class _Spmd(StmtRewriter):
    def __init__(self, body: Stmt) -> None:
        super().__init__()
        self.holds_parallel: set[Stmt] = set()
        self._find_parallel(body)
        self.pending: list[_Region] = []  # regions since the last barrier
        self.log: list[_Region] = []  # all regions

    @nested
    def _find_parallel(self, stmt: Stmt) -> bool:
        inside = [self._find_parallel(s) for s in child_stmts(stmt)]
        found = any(inside) or (type(stmt) is For and stmt.kind is ForKind.PARALLEL)
        if found:
            self.holds_parallel.add(stmt)
        return found

    def visit_Stmt(self, stmt: Stmt) -> Stmt:
        """`stmt` in the form that all workers run together."""
        if stmt not in self.holds_parallel:
            return self._on_main_worker(stmt)
        if type(stmt) is For:
            return self._share(stmt) if stmt.kind is ForKind.PARALLEL else self._loop(stmt)
        if type(stmt) is While:
            return self._loop(stmt)
        if type(stmt) is IfThenElse:
            return self._if(stmt)
        if type(stmt) is Allocate and stmt.buffer.scope == "local":
            stmt = _shared(stmt)
            self._find_parallel(stmt)
        before = self._enter(True, *[v for v in stmt.fields() if isinstance(v, Expr)])
        return seq(*before, self.rebuild(stmt))

    def visit_SeqStmt(self, stmt: SeqStmt) -> Stmt:
        """The statements, neighbours that one worker runs together."""
        result: list[Stmt] = []
        run: list[Stmt] = []
        for part in (*stmt.stmts, None):
            if part is not None and part not in self.holds_parallel:
                run.append(part)
                continue
            if run:
                result.append(self._on_main_worker(seq(*run)))
                run = []
            if part is not None:
                result.append(self(part))
        return seq(*result)

    def _on_main_worker(self, stmt: Stmt) -> Stmt:
        before = self._enter(False, stmt)
        return seq(*before, IfThenElse(op.eq(worker_id(), 0), stmt))

    def _share(self, loop: For) -> Stmt:
        before = self._enter(True, loop)
        workers = Call("int32", "num_workers", ())
        first = op.floordiv(loop.extent * worker_id(), workers)
        end = op.floordiv(loop.extent * (worker_id() + 1), workers)
        notes = {**loop.annotations, WORKER_SHARE: True}
        body = _Serial()(loop.body)
        share = For(loop.var, loop.min + first, end - first, ForKind.SERIAL, body, "", notes)
        return seq(*before, share.at(loop.position))

    def _loop(self, loop: Any) -> Stmt:
        """A loop that all workers run, around shared regions."""
        before = self._enter(True, *[v for v in loop.fields() if isinstance(v, Expr)])
        start = len(self.log)
        result = self.rebuild(loop)
        inside = self.log[start:]
        carried = [r for r in self.pending if any(r is x for x in inside)]
        if any(a.conflicts(b) for a in carried for b in inside):
            assert isinstance(result, (For, While))
            result = with_fields(result, body=seq(result.body, barrier()))
            self.pending = []
        return seq(*before, result)

    def _if(self, stmt: IfThenElse) -> Stmt:
        before = self._enter(True, stmt.condition)
        entry = list(self.pending)
        then_case = self(stmt.then_case)
        after_then, self.pending = self.pending, entry
        else_case = None if stmt.else_case is None else self(stmt.else_case)
        self.pending = [*self.pending, *[r for r in after_then if all(r is not x for x in self.pending)]]
        return seq(*before, IfThenElse(stmt.condition, then_case, else_case))

    def _enter(self, parallel: bool, *parts: Stmt | Expr) -> list[Stmt]:
        """Notes a region that runs `parts`; the barrier it needs first, if any."""
        found = accesses_of(*parts)
        region = _Region(parallel, frozenset(found.reads), frozenset(found.writes))
        if not region.reads and not region.writes:
            return []
        self.log.append(region)
        needed = any(region.conflicts(other) for other in self.pending)
        if needed:
            self.pending = []
        self.pending.append(region)
        return [barrier()] if needed else []


class _Serial(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """The loop, serial where it was parallel."""
        made: For = self.rebuild(node)
        return with_fields(made, kind=ForKind.SERIAL, thread="") if made.kind is ForKind.PARALLEL else made


def _shared(stmt: Allocate) -> Allocate:
    old = stmt.buffer
    shared = Buffer(old.name, old.shape, old.dtype, "global", old.strides, old.alignment)
    return Allocate(shared, substitute(stmt.body, {}, {old: shared}))


def worker_id() -> Expr:
    """The number of the worker that runs this, from 0."""
    return Call("int32", "worker_id", ())


def barrier() -> Stmt:
    """All workers meet here."""
    return Evaluate(Call("int32", "barrier", ()))
