"""Bind each kernel to one set of hardware threads, whatever loops of it were bound to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from tilewright.tir.transform.folding import substitute_var
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.visitor import StmtRewriter, collect, collect_vars, substitute

#: Hardware thread axes from the outermost to the innermost, as a kernel's loops stand.
THREAD_AXES = ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y", "threadIdx.x")


def bind_threads(func: PrimFunc) -> PrimFunc:
    """`func` with the thread loops of each kernel pulled to its outside, one per axis.

        for b in thread("blockIdx.x", 4):                    for b in thread("blockIdx.x", 4):
            for t in thread("threadIdx.x", 8):                   for t in thread("threadIdx.x", 8):
                S[t] = A[b, t]                       =>              S[t] = A[b, t]
            for u in thread("threadIdx.x", 4):                       if t < 4:
                B[b, u] = S[u] + S[u + 4]                                B[b, t] = S[t] + S[t + 4]

    A kernel is the outermost statement bound to a hardware thread. A statement that is not bound to an axis runs on all
    its threads; where it stores to memory that the threads share, one of them does.
    Raises ScheduleError where a grid axis has two extents, or a block axis one that is not a constant.
    """
    return map_kernels(func, lambda kernel: _Kernel(kernel, func).build())


def map_kernels(func: PrimFunc, rule: Callable[[For], Stmt]) -> PrimFunc:
    """`func` with each of its kernels, given as its outermost thread loop, replaced by what `rule` makes of it."""
    return _Kernels(rule)(func)


def is_thread_loop(stmt: Stmt) -> bool:
    """True for a loop over a hardware thread axis."""
    return isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING


def has_threads(func: PrimFunc) -> bool:
    """True if any loop of `func` is bound to a thread axis."""
    return any(is_thread_loop(stmt) for stmt in walk(func.body))


class _Kernels(StmtRewriter):
    def __init__(self, rule: Callable[[For], Stmt]) -> None:
        super().__init__()
        self.rule = rule

    def visit_For(self, node: For) -> Stmt:
        """The replacement of a kernel; loops of the host are searched."""
        return self.rule(node) if is_thread_loop(node) else self.rebuild(node)


class _Kernel(StmtRewriter):
    """One kernel: its axes, and its body in terms of them."""

    def __init__(self, root: For, func: PrimFunc) -> None:
        super().__init__()
        self.root = root
        self.name = func.name
        self.vars: dict[str, Var] = {}
        self.extents: dict[str, Expr] = {}
        self.notes: dict[str, Mapping[str, Any]] = {}
        made = [s.buffer for s in walk(root) if isinstance(s, Allocate)]
        self.tested: frozenset[Var] = frozenset()  # axes on which conditions around depend
        self.computed: dict[Var, frozenset[Var]] = {}  # what named values around are computed from
        self.own = {buffer for buffer in made if buffer.scope != "shared"}
        for stmt in walk(root):
            if is_thread_loop(stmt):
                assert isinstance(stmt, For)
                self._declare(stmt)

    def _declare(self, loop: For) -> None:
        tag = loop.thread
        if tag not in THREAD_AXES:
            names = ", ".join((*THREAD_AXES, "vthread"))
            raise ScheduleError(f"{self.name}: unknown thread axis {tag!r}; there are: {names}")
        known = self.extents.setdefault(tag, loop.extent)
        self.notes[tag] = {**self.notes.get(tag, {}), **loop.annotations}
        self.vars.setdefault(tag, Var(tag, loop.var.dtype))
        if tag.startswith("blockIdx"):
            if known is not loop.extent:
                raise ScheduleError(
                    f"{self.name}: {tag} has the extents {known!r} and {loop.extent!r} in one kernel; bind axes of one "
                    "extent to it"
                )
            return
        if not isinstance(loop.extent, IntImm) or not isinstance(known, IntImm):
            raise ScheduleError(
                f"{self.name}: {tag} has the extent {loop.extent!r}; split the axis by a constant, bind the inner one"
            )
        if loop.extent.value > known.value:
            self.extents[tag] = loop.extent

    def build(self) -> Stmt:
        """The thread loops around the kernel's body."""
        body: Stmt = self(self.root)
        for tag in reversed(THREAD_AXES):
            if tag in self.extents:
                var, extent = self.vars[tag], self.extents[tag]
                body = For(var, op.const(0, var.dtype), extent, ForKind.THREAD_BINDING, body, tag, self.notes[tag])
        return body

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        """A store to memory that threads share is one thread's."""
        return stmt if stmt.buffer in self.own else self._by_one(stmt)

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        """A temporary without a scope of its own is each thread's."""
        return self.rebuild(_local(stmt, self.own) if stmt.buffer.scope == "global" else stmt)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        """The guarded form of statements that depend on the condition's variables."""
        before, self.tested = self.tested, self.tested | self._sources(stmt.condition)
        made = self.rebuild(stmt)
        self.tested = before
        return made

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        """A named value, which stands for what it is computed from."""
        self.computed[stmt.var] = self._sources(stmt.value)
        return self.rebuild(stmt)

    def _sources(self, value: Expr) -> frozenset[Var]:
        """The variables in `value`, and those that named values in it are computed from."""
        found = frozenset(collect_vars(value))
        return found.union(*(self.computed[var] for var in found if var in self.computed))

    def visit_For(self, loop: For) -> Stmt:
        """A loop bound to an axis is its body in terms of the kernel's own."""
        if not is_thread_loop(loop):
            return self.rebuild(loop)
        var = self.vars[loop.thread]
        value = var if _is_zero(loop.min) else var + loop.min
        body: Stmt = self(substitute_var(loop.body, loop.var, value))
        whole = self.extents[loop.thread]
        return body if whole is loop.extent else IfThenElse(op.likely(op.less(var, loop.extent)), body)

    def _by_one(self, stmt: BufferStore) -> Stmt:
        """A store to memory that threads share, done by thread 0 of every axis that does not choose the element.

        Each block has shared memory of its own, so there only the threads of the block count. An index that a thread
        reads from memory of its own is chosen by all threads of the block.
        """
        axes = [
            tag for tag in self.extents if not stmt.buffer.scope.startswith("shared") or tag.startswith("threadIdx")
        ]
        chosen = self.tested.union(*(self._sources(index) for index in stmt.indices))
        if any(load.buffer in self.own for load in collect(stmt.indices, BufferLoad)):
            chosen |= {var for tag, var in self.vars.items() if tag.startswith("threadIdx")}
        others = [self.vars[tag] for tag in axes if self.vars[tag] not in chosen]
        if not others:
            return stmt
        return IfThenElse(op.all(*[op.eq(v, op.const(0, v.dtype)) for v in others]), stmt)


def _local(stmt: Allocate, own: set[Buffer]) -> Allocate:
    """A temporary made inside a kernel without a scope of its own is each thread's."""
    old = stmt.buffer
    made = Buffer(old.name, old.shape, old.dtype, "local", old.strides, old.alignment)
    own.add(made)
    return with_fields(stmt, buffer=made, body=substitute(stmt.body, {}, {old: made}))


def _is_zero(x: Expr) -> bool:
    return isinstance(x, IntImm) and x.value == 0


def thread_extents(kernel: Stmt) -> tuple[dict[str, For], Stmt]:
    """The thread loops of a kernel by axis, and the statement inside them."""
    loops: dict[str, For] = {}
    while is_thread_loop(kernel):
        assert isinstance(kernel, For)
        loops[kernel.thread] = kernel
        kernel = kernel.body
    return loops, kernel
