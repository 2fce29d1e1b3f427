"""Put barriers where threads of a block read what others wrote to shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.support.recursion import nested
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from tilewright.tir.stmt import BufferStore, Evaluate, For, IfThenElse, LetStmt, PrimFunc, Stmt, While, seq
from tilewright.tir.transform.bind_threads import map_kernels, thread_extents
from tilewright.tir.transform.injective import injective
from tilewright.tir.transform.statements import child_stmts, with_fields
from tilewright.tir.visitor import StmtRewriter, collect
from tilewright.tir.warp_matrix import is_fragment_call, written_position

#: The annotation of a loop whose stores are of different elements, whichever thread and iteration they are of.
DISTINCT = "distinct_stores"


def thread_sync(func: PrimFunc, scope: str = "shared") -> PrimFunc:
    """`func` with a `storage_sync(scope)` wherever one is needed and none where it is not.

        for t in thread("threadIdx.x", 8):               for t in thread("threadIdx.x", 8):
            S[t] = A[t]                                      S[t] = A[t]
            B[t] = S[7 - t]                     =>           storage_sync("shared")
                                                             B[t] = S[7 - t]

    A thread that reads back only what it stored itself, at the same index, needs no barrier. A barrier stands at the
    end of a loop's body where the next iteration would overtake a slower thread. Runs on flat buffers, after
    `bind_threads`.

    Raises ScheduleError where a barrier would have to stand under a condition on which threads of a block disagree.
    """
    return map_kernels(func, lambda kernel: _kernel(kernel, scope))


def _kernel(node: For, scope: str) -> Stmt:
    """A kernel with its barriers."""
    loops, body = thread_extents(node)
    threads = {loop.var: _size(loop) for tag, loop in loops.items() if tag.startswith("threadIdx")}
    body = _Synchronizer(scope, threads)(body)
    for loop in reversed(loops.values()):
        body = with_fields(loop, body=body)
    return body


@dataclass(frozen=True, eq=False)
class _Access:
    """The accesses of one stretch of code without a barrier in the scope: the indices of each buffer."""

    reads: dict[Buffer, set[tuple[Expr, ...]]]
    writes: dict[Buffer, set[tuple[Expr, ...]]]

    def conflicts(self, later: _Access, ranges: Mapping[Var, int], moving: Var | None = None) -> bool:
        """True if a barrier must stand between the two; the loop variable `moving` changes in between."""
        pairs = [(self.writes, later.reads), (self.writes, later.writes), (self.reads, later.writes)]
        return any(_clash(a[b], c[b], ranges, moving) for a, c in pairs for b in a.keys() & c.keys())


def _clash(
    first: set[tuple[Expr, ...]], second: set[tuple[Expr, ...]], ranges: Mapping[Var, int], moving: Var | None
) -> bool:
    """True unless both are one element that no other thread touches, in whatever iteration.

    The position of a fragment is a whole tile, written with its index twice, so that it never passes for one element.
    """
    if len(first) != 1 or first != second:
        return True
    (indices,) = first
    if collect(indices, BufferLoad) or len(indices) != 1:
        return True
    if moving is not None and not any(v is moving for v in collect(indices, Var)):
        ranges = {v: n for v, n in ranges.items() if v is not moving}
    return not injective(indices[0], ranges)


class _Synchronizer(StmtRewriter):
    """Walks one kernel's body in order."""

    def __init__(self, scope: str, threads: dict[Var, int]) -> None:
        super().__init__()
        self.scope = scope
        self.threads = threads  # variables whose value differs between threads, with their extents
        self.varying: set[Var] = set()  # named values that differ, too
        self.pending: list[_Access] = []  # since the last barrier
        self.log: list[_Access] = []
        self.marks: list[int] = []  # how long the log was at each barrier that is always met

    def visit_Evaluate(self, stmt: Evaluate) -> Stmt:
        """A call and the barrier before it, or a barrier."""
        if isinstance(stmt.value, Call) and stmt.value.op == "storage_sync":
            self._met()
            return stmt
        return self.visit_BufferStore(stmt)

    def visit_BufferStore(self, stmt: BufferStore | Evaluate) -> Stmt:
        """A store and the barrier before it."""
        return seq(*self._enter(stmt), stmt)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        """A named value, and the barrier before it."""
        before = self._enter(stmt.value)
        self._name(stmt)
        return seq(*before, with_fields(stmt, body=self(stmt.body)))

    def _name(self, stmt: LetStmt) -> None:
        if any(v in self.threads or v in self.varying for v in collect(stmt.value, Var)):
            self.varying.add(stmt.var)

    def _uniform(self, *exprs: Expr) -> bool:
        known = any(v in self.threads or v in self.varying for v in collect(exprs, Var))
        return not known and not collect(exprs, BufferLoad)

    def visit_For(self, loop: For | While) -> Stmt:
        """A loop with the barriers it needs inside and before it."""
        if isinstance(loop, For) and DISTINCT in loop.annotations:
            return seq(*self._enter(loop), loop)
        heads = [v for v in loop.fields() if isinstance(v, Expr) and not isinstance(v, Var)]
        if not self._uniform(*heads):
            return self._divergent(loop)
        before = [self._barrier()] if self._blocked(loop) else []
        start, marks, entry = len(self.log), len(self.marks), list(self.pending)
        body = self(loop.body)
        inside = self.log[start:]
        carried = [a for a in self.pending if any(a is x for x in inside)]
        first = self.log[start : self.marks[marks]] if len(self.marks) > marks else inside
        if self._overtakes(loop, carried, first):
            body = seq(body, self._barrier())
        if not (isinstance(loop, For) and isinstance(loop.extent, IntImm) and loop.extent.value > 0):
            self._join(entry)
            del self.marks[marks:]
        return seq(*before, with_fields(loop, body=body))

    visit_While = visit_For

    def _overtakes(self, loop: For | While, carried: list[_Access], first: list[_Access]) -> bool:
        """True if a thread in the next iteration may disturb one that is still in this."""
        if isinstance(loop, While):
            return bool(carried and first)
        ranges = {**self.threads, loop.var: _size(loop)}
        return any(a.conflicts(b, ranges, loop.var) for a in carried for b in first)

    def _join(self, other: list[_Access]) -> None:
        """Accesses may be pending that were so on another way here."""
        self.pending = [*self.pending, *[a for a in other if all(a is not x for x in self.pending)]]

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        """A condition with the barriers it needs inside and before it."""
        if not self._uniform(stmt.condition):
            return self._divergent(stmt)
        before = self._enter(stmt.condition)
        entry, marks = list(self.pending), len(self.marks)
        then_case = self(stmt.then_case)
        after_then, self.pending = self.pending, entry
        else_case = None if stmt.else_case is None else self(stmt.else_case)
        self._join(after_then)
        del self.marks[marks:]
        return seq(*before, IfThenElse(stmt.condition, then_case, else_case))

    def _divergent(self, stmt: Stmt) -> Stmt:
        """Code that not all threads run: no barrier may stand inside."""
        inner = _Synchronizer(self.scope, self.threads)
        inner.varying |= self.varying
        inner._note(stmt)
        if inner.marks:
            raise ScheduleError(
                f"{self.scope} memory is written and read by several threads under a condition that they disagree on, "
                "where no barrier may stand; choose extents of the thread axes that divide the loops bound to them"
            )
        return seq(*self._enter(stmt), stmt)

    @nested
    def _note(self, stmt: Stmt) -> None:
        """Enter the statements of divergent code in order.

        The two sides of a condition are alternatives: each thread stores on one of them, as if it were one store.
        """
        if isinstance(stmt, BufferStore | Evaluate):
            self._enter(stmt)
        elif isinstance(stmt, IfThenElse) and stmt.else_case is not None:
            entry = list(self.pending)
            self._note(stmt.then_case)
            one, other = self._accesses((stmt.then_case,)), self._accesses((stmt.else_case,))
            if _Access(one.reads, {}).conflicts(other, self.threads) or one.conflicts(
                _Access(other.reads, {}), self.threads
            ):
                self._met()
            after, self.pending = self.pending, entry
            self._note(stmt.else_case)
            self._join(after)
        else:
            if isinstance(stmt, LetStmt):
                self._name(stmt)
            for child in child_stmts(stmt):
                self._note(child)

    def _enter(self, *roots: Stmt | Expr) -> list[Stmt]:
        """Notes what `roots` access; the barrier it needs first, if any."""
        access = self._accesses(roots)
        if not access.reads and not access.writes:
            return []
        made = [self._barrier()] if self._blocked(*roots) else []
        self.log.append(access)
        self.pending.append(access)
        return made

    def _blocked(self, *roots: Stmt | Expr) -> bool:
        """True if a barrier must stand before `roots`; for a loop, so that none need stand inside."""
        access = self._accesses(roots)
        return any(other.conflicts(access, self.threads) for other in self.pending)

    def _accesses(self, roots: tuple[Stmt | Expr, ...]) -> _Access:
        reads: dict[Buffer, set[tuple[Expr, ...]]] = {}
        writes: dict[Buffer, set[tuple[Expr, ...]]] = {}
        for x in collect(roots, BufferLoad, BufferStore):
            if x.buffer.scope == self.scope:  # type: ignore[attr-defined]
                (reads if isinstance(x, BufferLoad) else writes).setdefault(x.buffer, set()).add(x.indices)  # type: ignore[attr-defined]
        for call in collect(roots, Call):
            if is_fragment_call(call):
                for position in collect(call, BufferLoad):
                    if position.buffer.scope == self.scope:
                        side = writes if position is written_position(call) else reads
                        side.setdefault(position.buffer, set()).add((*position.indices, *position.indices))
        return _Access(reads, writes)

    def _barrier(self) -> Stmt:
        self._met()
        return Evaluate(Call("int32", "storage_sync", (StringImm(self.scope),)))

    def _met(self) -> None:
        self.pending = []
        self.marks.append(len(self.log))


def _size(loop: For) -> int:
    """The number of iterations where it is a constant; else more than any step can span."""
    return loop.extent.value if isinstance(loop.extent, IntImm) else 2**62
