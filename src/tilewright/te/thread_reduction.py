"""Reductions that the threads of a block share: each reduces its part, then they reduce the parts among themselves.

    for i in threadIdx.y(8):
        for k in threadIdx.x(32):
            part = 0
            for k_inner in range(4):
                part = part + A[i, k * 4 + k_inner]
            with attribute("reduce_threads", [k], on=sum):
                B[i] = part

`tir.transform.lower_thread_reduction` defines the attribute's meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import ScheduleError
from tilewright.te.itervar import IterVar
from tilewright.te.loop_nest import Guard, Nest, guarded
from tilewright.tir import op as tir_op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, Reduce
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, ForKind, Stmt, seq

REDUCE_THREADS = "reduce_threads"


def thread_positions(nest: Nest, first: int) -> list[int]:
    """Positions among the loops of `nest`, from `first` on, of reduction axes bound to threads of a block."""
    return [
        p
        for p, iv in enumerate(nest.leaves)
        if p >= first and iv.iter_type is IterVar.REDUCE and nest.stage.attr(iv).kind is ForKind.THREAD_BINDING
    ]


def thread_guards(nest: Nest, first: int) -> list[Guard]:
    """Guards outside the loop at `first` that the threads of a block disagree on: no barrier may stand within them.

    Empty where no reduction axis is bound to threads.
    """
    if not thread_positions(nest, first):
        return []
    threads = {
        p
        for p, iv in enumerate(nest.leaves[:first])
        if (bound := nest.stage.attr(iv).thread) is not None and bound.thread_tag.startswith("threadIdx")
    }
    return [g for g in nest.guards if g.level < first and not g.depends.isdisjoint(threads)]


def reduce_by_threads(
    nest: Nest,
    positions: Sequence[int],
    threads: Sequence[int],
    reduce: Reduce,
    update: Callable[[list[Buffer]], Stmt],
    store: Callable[[list[Expr]], Stmt],
    at_loop: Callable[[int, Stmt], Stmt],
    outer: Sequence[Guard] = (),
) -> Stmt:
    """The loops at `positions`, those at `threads` outermost, around a thread's own part and what combines the parts.

    `update(parts)` combines the next element into the buffers of the parts; `store(values)` stores the result. The
    guards `outer` of `thread_guards` stand around both, not around the combining, where all threads meet. Raises
    ScheduleError where a data axis stands among the reduction axes: the threads would need a part for each element.
    """
    stage = nest.stage
    for position in positions:
        if nest.leaves[position].iter_type is not IterVar.REDUCE:
            raise ScheduleError(
                f"stage {stage.name}: the reduction over {nest.leaves[threads[0]].name}, bound to threads, has the "
                f"data axis {nest.leaves[position].name} inside of it; reorder the data axes outwards"
            )
    parts = [Buffer(f"{t.name}_part", [1], t.dtype, "local") for t in stage.outputs]
    zero = tir_op.const(0)
    start = [BufferStore(b, x, (zero,)) for b, x in zip(parts, reduce.init or reduce.combiner.identity, strict=True)]
    guards = [g for g in nest.guards if g.level >= positions[0]]
    inner = [p for p in positions if p not in threads]
    # The threads' loops move outwards past the others, so a guard's position is not where its level says.
    innermost = [g.condition for g in guards if not g.depends.isdisjoint(inner)]
    outside = [g.condition for g in guards if g.depends.isdisjoint(inner)]
    around = [g.condition for g in outer]
    at_inner, at_thread = _attached(inner, threads, at_loop)
    body = guarded([*around, *outside], nest.wrap(guarded(innermost, update(parts)), inner, [], at_inner))
    axes = Call("handle", "thread_axes", tuple(nest.loop_vars[p] for p in threads))
    stored = guarded(around, store([BufferLoad(b, (zero,)) for b in parts]))
    result = AttrStmt(REDUCE_THREADS, reduce.combiner, axes, stored)
    whole: Stmt = seq(*start, body, result)
    for part in reversed(parts):
        whole = Allocate(part, whole)
    return nest.wrap(whole, threads, [], at_thread)


def _attached(
    inner: Sequence[int], threads: Sequence[int], at_loop: Callable[[int, Stmt], Stmt]
) -> tuple[Callable[[int, Stmt], Stmt], Callable[[int, Stmt], Stmt]]:
    """Functions that add the attached stages at the loops `inner` and at `threads`, which are moved to their outside.

    Stages that stand at a thread's loop may depend on the loops that stood around it, so they move into the last of
    these.
    """
    within = {t: max((p for p in inner if p < t), default=None) for t in threads}

    def at_inner(position: int, body: Stmt) -> Stmt:
        for thread in reversed([t for t in threads if within[t] == position]):
            body = at_loop(thread, body)
        return at_loop(position, body)

    return at_inner, lambda position, body: at_loop(position, body) if within[position] is None else body
