"""Put buffers of scope "warp" into the registers of a warp's threads: a read of another thread's part is a shuffle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Let, Select
from tilewright.tir.stmt import Allocate, BufferStore, For, IfThenElse, LetStmt, PrimFunc, SeqStmt, Stmt, While, seq
from tilewright.tir.transform.bind_threads import map_kernels, thread_extents
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.visitor import Rewriter, StmtRewriter, collect, collect_vars

LARGEST_CHOICE = 8  # registers among which a thread may choose by its own number


def lower_warp_memory(func: PrimFunc) -> PrimFunc:
    """`func` with each buffer of scope "warp" as registers of the threads that store to it.

        for t in thread("threadIdx.x", 32):              for t in thread("threadIdx.x", 32):
            W = allocate(float32[32], scope="warp")          W = allocate(float32[1], scope="local")
            W[t] = A[t]                           =>         W[0] = A[t]
            B[t] = W[31 - t]                                 R[0] = warp_shuffle(W[0], 31 - t, 32)
                                                             B[t] = R[0]

    Thread t of threadIdx.x has the elements that it stores: those at m*t + n for n < m, and again for every m times the
    number of threads; m is the factor of t in the indices of all stores. What a thread reads of another's is stored
    before the statement that uses it, outside of conditions on which threads disagree, since all must take part.
    Runs on flat buffers, after `bind_threads`; the function's attribute "thread_warp_size" says how large a warp is.

    Raises ScheduleError where the target has no warps, threadIdx.x neither divides a warp nor is a multiple of it, a
    thread stores to what is not its own, or a read goes beyond the warp or stands where not all threads come.
    """
    warp = func.attrs.get("thread_warp_size", 1)
    return map_kernels(func, lambda kernel: _kernel(kernel, warp))


def _kernel(kernel: For, warp: int) -> Stmt:
    buffers = [s.buffer for s in walk(kernel) if isinstance(s, Allocate) and s.buffer.scope == "warp"]
    return _Lowering(kernel, buffers, warp)(kernel) if buffers else kernel


@dataclass(frozen=True)
class _Part:
    """A thread's part of a warp buffer: `factor` neighbouring elements in each round of all threads."""

    buffer: Buffer
    factor: int


class _Lowering(StmtRewriter):
    """The statements of one kernel."""

    def __init__(self, kernel: For, buffers: list[Buffer], warp: int) -> None:
        super().__init__()
        self.loops, _ = thread_extents(kernel)
        self.analyzer = Analyzer()
        _check_threads(self.loops.get("threadIdx.x"), ", ".join(dict.fromkeys(b.name for b in buffers)), warp)
        axis = self.loops["threadIdx.x"]
        assert isinstance(axis.extent, IntImm)
        self.thread, self.count = axis.var, axis.extent.value
        self.width = min(self.count, warp)
        self.varying = {loop.var for tag, loop in self.loops.items() if tag.startswith("threadIdx")}
        self.parts = {b: self._part(b, kernel) for b in buffers}
        self.divergent: Expr | None = None  # what threads disagree on around the statement at hand

    def _part(self, buffer: Buffer, kernel: For) -> _Part:
        """The layout of `buffer`, by the factor of the thread in the indices of all stores."""
        factors = {1} if self.count == 1 else set()
        for store in [s for s in walk(kernel) if isinstance(s, BufferStore) and s.buffer is buffer]:
            factor = 1 if self.count == 1 else Analyzer().linear(store.indices[0]).terms.get(self.thread, 0)
            if factor < 1:
                raise ScheduleError(
                    f"{buffer.name}: the index {store.indices[0]!r} of a store to the scope warp is no multiple of "
                    "threadIdx.x plus a rest; bind a loop of the stage to it"
                )
            factors.add(factor)
        if len(factors) != 1:
            listed = ", ".join(map(str, sorted(factors)))
            raise ScheduleError(
                f"{buffer.name}: stores to the scope warp have several factors of threadIdx.x: {listed}"
            )
        (factor,), size = factors, buffer.constant_size()
        if size is None:
            raise ScheduleError(f"{buffer.name}: its shape in the scope warp is symbolic; registers need a constant")
        own = -(-size // (factor * self.count)) * factor
        return _Part(Buffer(buffer.name, [own], buffer.dtype, "local"), factor)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """A warp buffer as each thread's part of it."""
        part = self.parts.get(node.buffer)
        return with_fields(node, buffer=part.buffer if part else node.buffer, body=self(node.body))

    def visit_For(self, node: For) -> Stmt:
        """A loop, whose iterations all threads run if they agree on its range."""
        self.analyzer.bind(node.var, (node.min, node.extent))
        return self._under(node, node.min, node.extent)

    def visit_While(self, node: While) -> Stmt:
        """A loop, whose iterations all threads run if they agree on its condition."""
        return self._under(node, node.condition)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        """A condition; where threads disagree on it, the shuffles for simple stores under it stand before it."""
        if self.disagree(node.condition) and self._is_simple(node):
            return self._after_shuffles(node, lazy=True)
        with self.analyzer.constraint(node.condition):
            return self._under(node, node.condition)

    def _is_simple(self, node: IfThenElse) -> bool:
        """True if what `node` reads of warp buffers is known before it."""
        inside = list(walk(node))
        stores = [s for s in inside if isinstance(s, BufferStore)]
        both = any(s.buffer in self.parts for s in stores) and any(
            x.buffer in self.parts for x in collect([s.value for s in stores], BufferLoad)
        )
        return not both and all(isinstance(s, SeqStmt | IfThenElse | BufferStore) for s in inside)

    def _under(self, node: Any, *heads: Expr) -> Stmt:
        """`node`, whose parts run as the expressions `heads` say."""
        read = [x.buffer.name for x in collect(heads, BufferLoad) if x.buffer in self.parts]
        if read:
            raise ScheduleError(f"{read[0]} in the scope warp decides a loop or condition; compute that in a stage")
        outside = self.divergent
        if outside is None:
            self.divergent = next((x for x in heads if self.disagree(x)), None)
        made = self.rebuild(node)
        self.divergent = outside
        return made

    def disagree(self, x: Expr) -> bool:
        """True if threads of a block may have different values of `x`."""
        return bool(collect(x, BufferLoad)) or any(v in self.varying for v in collect_vars(x))

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """The value after its shuffles, then the body."""
        if self.disagree(node.value):
            self.varying.add(node.var)
        return self._after_shuffles(node)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """A store after the shuffles of what it reads."""
        return self._after_shuffles(node)

    visit_Evaluate = visit_BufferStore

    def _after_shuffles(self, node: Stmt, lazy: bool = False) -> Stmt:
        """`node` with its reads of warp buffers, the shuffles for them before it; `lazy` if it may not run at all."""
        reads = _Reads(self, lazy)
        if isinstance(node, LetStmt):
            made: Stmt = LetStmt(node.var, reads(node.value), self(node.body))
        else:
            made = reads(node)
        whole = seq(*reads.shuffles, made)
        for shuffle in reversed(reads.shuffles):
            whole = Allocate(shuffle.buffer, whole)
        return whole


def _check_threads(loop: For | None, names: str, warp: int) -> None:
    if warp <= 1:
        raise ScheduleError(
            f"{names}: the scope warp needs a target whose threads shuffle, named when the function is lowered, as in "
            'te.lower(…, target="cuda"); the scope shared needs none'
        )
    if loop is None:
        raise ScheduleError(f"{names}: the scope warp is spread over threadIdx.x, to which no loop is bound")
    assert isinstance(loop.extent, IntImm)
    extent = loop.extent.value
    if extent % warp and warp % extent:
        raise ScheduleError(
            f"{names}: threadIdx.x has the extent {extent}; for the scope warp it must divide the {warp} threads of a "
            "warp, or be a multiple of them"
        )


class _Reads(Rewriter):
    """The accesses of warp buffers in one statement; `shuffles` are the stores that must stand before it."""

    def __init__(self, kernel: _Lowering, lazy: bool) -> None:
        super().__init__()
        self.kernel = kernel
        self.shuffles: list[BufferStore] = []
        self.lazy = lazy  # within what is evaluated on a condition, or names what only the expression binds

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """A store, to a register of the thread's own where it is to a warp buffer."""
        part, (index, *_) = self.kernel.parts.get(node.buffer), node.indices
        if part is None:
            return self.rebuild(node)
        owner, position = self._owner(index, part), self._position(index, part)
        if owner is not self.kernel.thread and self.kernel.count > 1:
            raise ScheduleError(
                f"{node.buffer.name}: a thread stores to {index!r} in the scope warp, which is not known to be an "
                "element of its own; set threadIdx.x to the extent of the loops bound to it"
            )
        return BufferStore(part.buffer, self(node.value), (position,))

    def visit_Call(self, node: Call) -> Expr:
        """A call; what a condition guards is not to be evaluated before it."""
        if node.op == "if_then_else" and self.kernel.disagree(node.args[0]):
            return self._guarded(node)
        return self.rebuild(node)

    def visit_Let(self, node: Let) -> Expr:
        """A name within an expression: no shuffle that reads it can stand before the statement."""
        return self._guarded(node)

    def _guarded(self, node: Expr) -> Expr:
        before, self.lazy = self.lazy, True
        made = self.rebuild(node)
        self.lazy = before
        return made

    def visit_BufferLoad(self, node: BufferLoad) -> Expr:
        """A register of the thread's own, or what a shuffle brought."""
        part = self.kernel.parts.get(node.buffer)
        if part is None:
            return self.rebuild(node)
        index = self(node.indices[0])
        owner, position = self._owner(index, part), self._position(index, part)
        if owner is self.kernel.thread or self.kernel.count == 1:
            return BufferLoad(part.buffer, (position,))
        self._check_read(node, owner)
        lane = self.kernel.analyzer.simplify(op.floormod(owner, self.kernel.width))
        if self.kernel.thread not in collect_vars(position) and not collect(position, BufferLoad):
            return self._shuffled(part, position, lane)
        return self._chosen(node, part, position, lane)

    def _shuffled(self, part: _Part, position: Expr, lane: Expr) -> Expr:
        value = BufferLoad(part.buffer, (position,))
        zero = (op.const(0),)
        call = Call(value.dtype, "warp_shuffle", (value, lane, op.const(self.kernel.width)))
        for known in self.shuffles:
            if known.value is call:
                return BufferLoad(known.buffer, zero)
        made = Buffer(f"{part.buffer.name}_{len(self.shuffles)}", [1], value.dtype, "local")
        self.shuffles.append(BufferStore(made, call, zero))
        return BufferLoad(made, zero)

    def _chosen(self, node: BufferLoad, part: _Part, position: Expr, lane: Expr) -> Expr:
        """The register that the thread reads differs: each one that it may be is brought, one is taken."""
        low, high = self.kernel.analyzer.const_int_bound(position)
        if low is None or high is None or high - low >= LARGEST_CHOICE:
            raise ScheduleError(
                f"{node.buffer.name}: a read at {node.indices[0]!r} in the scope warp may be of any of many registers "
                f"of another thread; at most {LARGEST_CHOICE} can be distinguished. Use the scope shared"
            )
        made = self._shuffled(part, op.const(high), lane)
        for register in range(high - 1, low - 1, -1):
            made = Select(op.eq(position, register), self._shuffled(part, op.const(register), lane), made)
        return made

    def _check_read(self, node: BufferLoad, owner: Expr) -> None:
        kernel, what = self.kernel, f"{node.buffer.name}: the read at {node.indices[0]!r} in the scope warp"
        if kernel.divergent is not None:
            raise ScheduleError(
                f"{what} stands under {kernel.divergent!r}, on which threads disagree, so that not all of them take "
                "part in the shuffle; choose extents of the thread axes that divide, or use the scope shared"
            )
        if kernel.count > kernel.width:
            warps = [op.floordiv(x, op.const(kernel.width)) for x in (owner, kernel.thread)]
            if not kernel.analyzer.can_prove(op.eq(*warps)):
                raise ScheduleError(
                    f"{what} may be of another warp's element: threadIdx.x has {kernel.count} threads, a warp "
                    f"{kernel.width}; split the axis by {kernel.width}, or use the scope shared"
                )
        if self.lazy and (collect(node.indices, BufferLoad) or not self._fits(node)):
            raise ScheduleError(f"{what} is evaluated on a condition only; compute it in a stage of its own")

    def _fits(self, node: BufferLoad) -> bool:
        """True if the index is known to be inside the buffer, or wraps around to a register that is."""
        part = self.kernel.parts[node.buffer]
        low, high = self.kernel.analyzer.const_int_bound(self._position(node.indices[0], part))
        size = part.buffer.constant_size()
        assert size is not None
        return low is not None and high is not None and low >= 0 and high < size

    def _owner(self, index: Expr, part: _Part) -> Expr:
        """The thread of threadIdx.x that has the element."""
        return self.kernel.analyzer.simplify(op.floormod(op.floordiv(index, part.factor), self.kernel.count))

    def _position(self, index: Expr, part: _Part) -> Expr:
        """The index of the element among its thread's."""
        rounds = op.floordiv(index, part.factor * self.kernel.count) * part.factor
        return self.kernel.analyzer.simplify(rounds + op.floormod(index, part.factor))
