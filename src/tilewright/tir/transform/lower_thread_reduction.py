"""Combine the parts of a reduction that the threads of a block hold, in a tree: by warp shuffles or shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, For, IfThenElse, LetStmt, PrimFunc, Stmt, While, seq
from tilewright.tir.transform.bind_threads import map_kernels, thread_extents
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.transform.subgroup_reduction import fits_subgroups, subgroup_reduction
from tilewright.tir.visitor import Rewriter, StmtRewriter, collect

#: Warps whose parts one thread adds up; a block has no more of them.
_MOST_WARPS = 32


def lower_thread_reduction(func: PrimFunc) -> PrimFunc:
    """`func` with every "reduce_threads" attribute as stores to shared memory and steps that halve the number of parts.

        with attribute("reduce_threads", thread_axes(t), on=sum):      R = allocate(float32[8], scope="shared")
            B[i] = part[0]                                             R[t] = part[0]
                                                                  =>   if t < 4:
                                                                           R[t] = R[t] + R[t + 4]
                                                                       if t < 2: …
                                                                       B[i] = R[0]

    The order in which parts are combined is fixed by the extent alone, so results do not vary. Runs after
    `bind_threads`; `thread_sync` adds the barriers.

    Where the function's attribute "thread_warp_size" says that the target shuffles, and the threads are a power of two
    of neighbours in one warp, all of whose threads get here, the same tree needs no memory:

        other[0] = warp_shuffle_down(part[0], 4, 8)      # part[0] of the thread 4 further on, among 8
        part[0] = part[0] + other[0]
        …
        part[0] = warp_shuffle(part[0], 0, 8)            # of the first thread
        B[i] = part[0]

    Threads of several whole warps leave one part a warp in shared memory, which each of them then adds up:

        …                                                # the tree within a warp of 32
        if t % 32 == 0:
            W[t // 32] = part[0]
        part[0] = W[0]
        part[0] = part[0] + W[1]                         # and so on: one barrier in all

    Where the attribute "subgroups" says that a device may have some, the tree stands beside `subgroup_reduction`:

        if has_subgroups():                              # a choice of the text that the device gets
            …
        else:
            …
    """
    warp, subgroups = func.attrs.get("thread_warp_size", 1), bool(func.attrs.get("subgroups"))
    return map_kernels(func, lambda kernel: _kernel(kernel, warp, subgroups))


def _kernel(node: For, warp: int, subgroups: bool) -> Stmt:
    """A kernel with its reductions lowered."""
    loops, body = thread_extents(node)
    extents: dict[Any, int] = {}
    for tag in ("threadIdx.z", "threadIdx.y", "threadIdx.x"):
        if tag in loops:
            assert isinstance(loops[tag].extent, IntImm)
            extents[loops[tag].var] = loops[tag].extent.value  # type: ignore[attr-defined]
    if any(isinstance(s, AttrStmt) and s.key == "reduce_threads" for s in walk(body)):
        whole = prod(extents.values()) % warp == 0  # a warp that is not full has lanes that cannot answer
        body = _Reductions(extents, warp if whole else 1, subgroups)(body)
    for loop in reversed(loops.values()):
        body = with_fields(loop, body=body)
    return body


class _Reductions(StmtRewriter):
    """Lowers reductions; `warp` threads shuffle, 1 where they may disagree, where there are no `subgroups` either."""

    def __init__(self, extents: dict[Var, int], warp: int, subgroups: bool) -> None:
        super().__init__()
        self.extents, self.warp, self.subgroups = extents, warp, subgroups

    def visit_AttrStmt(self, stmt: AttrStmt) -> Stmt:
        """The tree in place of a reduction."""
        return (
            _tree(stmt, self.extents, self.warp, self.subgroups) if stmt.key == "reduce_threads" else self.rebuild(stmt)
        )

    def visit_For(self, stmt: For | While | IfThenElse) -> Stmt:
        """Refuse statements that threads may run different numbers of times, or some of them not at all."""
        heads = [value for value in stmt.fields() if isinstance(value, Expr)]
        before = self.warp, self.subgroups
        if collect(heads, BufferLoad) or any(v in self.extents for v in collect(heads, Var)):
            self.warp, self.subgroups = 1, False
        made: Stmt = self.rebuild(stmt)
        self.warp, self.subgroups = before
        return made

    visit_While = visit_IfThenElse = visit_For


def _tree(stmt: AttrStmt, extents: dict[Var, int], warp: int, subgroups: bool) -> Stmt:
    named = [arg for arg in stmt.value.args if isinstance(arg, Var)]  # an axis of one thread has become 0
    axes = [axis for axis in extents if axis in named]
    if len(axes) != len(named):
        raise ScheduleError(f"a reduction is bound to {stmt.value!r}, of which some are no threads of its block")
    others = [axis for axis in extents if axis not in axes]
    count, groups = prod(extents[a] for a in axes), prod(extents[a] for a in others)
    position, group = _flat(axes, extents), _flat(others, extents)
    parts = list(dict.fromkeys(load.buffer for load in collect(stmt.body, BufferLoad) if load.buffer.scope == "local"))
    parts = parts[: len(stmt.target.identity)]
    neighbours = axes == list(extents)[-len(axes) :]
    if 1 < count <= warp and warp % count == 0 and neighbours:
        return _shuffled(stmt, parts, count)
    if 1 < warp < count <= warp * _MOST_WARPS and count % warp == 0 and neighbours:
        return _by_warps(stmt, parts, warp, (group * count + position, count * groups, count))
    shared = [Buffer(f"{p.name}s", [count * groups], p.dtype, "shared") for p in parts]
    threads, zero = (position, group * count, count), (op.const(0),)
    steps = _steps(stmt.target, parts, shared, threads)
    if subgroups and neighbours and fits_subgroups(parts, count):
        steps += [BufferStore(p, BufferLoad(s, (threads[1],)), zero) for s, p in zip(shared, parts, strict=True)]
        quick = subgroup_reduction(parts, shared, threads, lambda *found: _stored(stmt.target, *found))
        whole = seq(IfThenElse(Call("bool", "has_subgroups", ()), quick, seq(*steps)), stmt.body)
    else:
        whole = seq(*steps, _Replace(dict(zip(parts, shared, strict=True)), (threads[1],))(stmt.body))
    for buffer in reversed(shared):
        whole = Allocate(buffer, whole)
    return whole


def _steps(combiner: Any, parts: list[Buffer], shared: list[Buffer], threads: tuple[Expr, Expr, int]) -> list[Stmt]:
    """The tree in shared memory, whose result is where the first part was; `threads` are those of subgroups."""
    position, first, left = threads
    mine = (first + position,)
    steps: list[Stmt] = [
        BufferStore(s, BufferLoad(p, (op.const(0),)), mine) for s, p in zip(shared, parts, strict=True)
    ]
    while left > 1:
        half = (left + 1) // 2
        combine = _combine(combiner, shared, mine, (first + (position + half),))
        steps.append(IfThenElse(op.less(position, left - half), combine))
        left = half
    return steps


def _by_warps(stmt: AttrStmt, parts: list[Buffer], warp: int, threads: tuple[Expr, int, int]) -> Stmt:
    """The tree within each warp, then the warps' parts one after the other by each thread.

    `threads` are this thread's number, how many there are, and how many of these reduce together.
    """
    number, total, count = threads
    zero, first, warps = (op.const(0),), op.floordiv(number, op.const(count)) * (count // warp), count // warp
    shared = [Buffer(f"{p.name}s", [total // warp], p.dtype, "shared") for p in parts]
    mine = (op.floordiv(number, op.const(warp)),)
    leave = seq(*[BufferStore(s, BufferLoad(p, zero), mine) for s, p in zip(shared, parts, strict=True)])
    read = [BufferStore(p, BufferLoad(s, (first,)), zero) for s, p in zip(shared, parts, strict=True)]
    rest = [_combine(stmt.target, parts, zero, (first + i,), shared) for i in range(1, warps)]
    leads = op.eq(op.floormod(number, op.const(warp)), op.const(0))
    whole = _shuffled(stmt, parts, warp, seq(IfThenElse(leads, leave), *read, *rest, stmt.body))
    for buffer in reversed(shared):
        whole = Allocate(buffer, whole)
    return whole


def _shuffled(stmt: AttrStmt, parts: list[Buffer], count: int, after: Stmt | None = None) -> Stmt:
    """The tree among `count` neighbouring threads; every one of them has the result in `parts` after it.

    Where something comes `after` it, in place of the reduction's own body, only the first thread has.
    """
    zero = (op.const(0),)
    others = [Buffer(f"{part.name}o", [1], part.dtype, "local") for part in parts]

    def received(name: str, position: int) -> list[Stmt]:
        """The store of a received value before its use: no condition may come in between."""
        arguments = (op.const(position), op.const(count))
        return [
            BufferStore(mine, Call(part.dtype, name, (BufferLoad(part, zero), *arguments)), zero)
            for mine, part in zip(others, parts, strict=True)
        ]

    steps: list[Stmt] = []
    step = count // 2
    while step:
        steps += [*received("warp_shuffle_down", step), _combine(stmt.target, parts, zero, zero, others)]
        step //= 2
    if after is None:
        steps += received("warp_shuffle", 0)
        steps += [BufferStore(part, BufferLoad(mine, zero), zero) for part, mine in zip(parts, others, strict=True)]
    whole = seq(*steps, after or stmt.body)
    for buffer in reversed(others):
        whole = Allocate(buffer, whole)
    return whole


def _flat(axes: Sequence[Var], extents: dict[Var, int]) -> Expr:
    """The number of a thread within `axes`, the last one fastest."""
    index: Expr = op.const(0)
    for axis in axes:
        index = index * extents[axis] + axis
    return index


def _stored(combiner: Any, mine: Sequence[Buffer], at: Expr, others: Sequence[Buffer], there: Expr) -> Stmt:
    return _combine(combiner, list(mine), (at,), (there,), list(others))


def _combine(
    combiner: Any,
    buffers: list[Buffer],
    mine: tuple[Expr, ...],
    other: tuple[Expr, ...],
    others: list[Buffer] | None = None,
) -> Stmt:
    """`buffers` at `mine` combined with `others`, the same buffers unless given, at `other`."""
    old, new = [BufferLoad(b, mine) for b in buffers], [BufferLoad(b, other) for b in others or buffers]
    values = combiner.combine(old, new)
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], mine)
    names = [Var(f"{b.name}_next", v.dtype) for b, v in zip(buffers, values, strict=True)]
    body: Stmt = seq(*[BufferStore(b, n, mine) for b, n in zip(buffers, names, strict=True)])
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = LetStmt(name, value, body)
    return body


class _Replace(Rewriter):
    """Reads of the thread's own part become reads of the combined one."""

    def __init__(self, shared: dict[Buffer, Buffer], index: tuple[Expr, ...]) -> None:
        super().__init__()
        self.shared, self.index = shared, index

    def visit_BufferLoad(self, x: BufferLoad) -> Expr:
        made = self.shared.get(x.buffer)
        return self.rebuild(x) if made is None else BufferLoad(made, self.index)
