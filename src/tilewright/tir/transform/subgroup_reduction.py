"""Reductions over threads where it is the device that knows how many threads can read each other's registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr
from tilewright.tir.stmt import Allocate, BufferStore, IfThenElse, Stmt, seq

#: Types that subgroups move.
_MOVED = ("float32", "float16", "int32", "uint32")
#: Threads of a subgroup (W3C, WebGPU Shading Language, section on `subgroup_size`).
_FEWEST, _MOST = 4, 128


def fits_subgroups(parts: Sequence[Buffer], count: int) -> bool:
    """True if `count` neighbouring threads can combine such parts by subgroups."""
    return count > 1 and count & (count - 1) == 0 and all(str(part.dtype) in _MOVED for part in parts)


def subgroup_reduction(
    parts: Sequence[Buffer],
    shared: Sequence[Buffer],
    threads: tuple[Expr, Expr, int],
    combine: Callable[[Sequence[Buffer], Expr, Sequence[Buffer], Expr], Stmt],
) -> Stmt:
    """Combine the `parts` of `count` neighbouring threads, a power of two, in the tree of `lower_thread_reduction`.

    `threads` are this thread's position among them, the index of the first one's part in `shared`, and `count`;
    `combine(mine, at, others, from)` stores to `mine`. Every thread has the result in `parts` after it.

        if subgroup_size() < 8:                          # of 8 threads
            R[t] = part[0]
            if subgroup_size() <= 4:
                if t < 4:
                    R[t] = R[t] + R[t + 4]
            part[0] = R[subgroup_lane()]                 # each subgroup goes on with the same parts
        if 4 < subgroup_size():
            other[0] = subgroup_shuffle_down(part[0], 4)
            part[0] = part[0] + other[0]
        …                                                # by 2 and 1, as subgroups have at least 4 threads
        part[0] = subgroup_shuffle(part[0], subgroup_lane() - subgroup_lane() % 8)

    Which parts are added to which depends on `count` alone: results have the same bits whatever a subgroup's size is,
    and with none. Where a subgroup has several rows, its lanes are taken to be in the order of the block's threads.
    """
    position, first, count = threads
    zero, size, lane = op.const(0), Call("int32", "subgroup_size", ()), Call("int32", "subgroup_lane", ())
    others = [Buffer(f"{part.name}o", [1], part.dtype, "local") for part in parts]
    halves = [count >> step for step in range(1, count.bit_length())]
    leave = [BufferStore(s, BufferLoad(p, (zero,)), (first + position,)) for s, p in zip(shared, parts, strict=True)]
    steps: list[Stmt] = []
    for half in [half for half in halves if half >= _FEWEST]:
        pair = combine(shared, first + position, shared, first + position + half)
        steps.append(IfThenElse(op.less_equal(size, half), IfThenElse(op.less(position, half), pair)))
    read = [BufferStore(p, BufferLoad(s, (first + lane,)), (zero,)) for s, p in zip(shared, parts, strict=True)]

    def received(name: str, number: Expr) -> list[Stmt]:
        return [
            BufferStore(other, Call(part.dtype, name, (BufferLoad(part, (zero,)), number)), (zero,))
            for other, part in zip(others, parts, strict=True)
        ]

    shuffles: list[Stmt] = []
    for half in [half for half in halves if half < _MOST]:
        step = seq(*received("subgroup_shuffle_down", op.const(half)), combine(parts, zero, others, zero))
        shuffles.append(step if half < _FEWEST else IfThenElse(op.less(half, size), step))
    leader = lane - Call("int32", "bitwise_and", (lane, op.const(count - 1)))
    shuffles += received("subgroup_shuffle", leader)
    shuffles += [BufferStore(p, BufferLoad(o, (zero,)), (zero,)) for p, o in zip(parts, others, strict=True)]
    by_memory = [IfThenElse(op.less(size, count), seq(*leave, *steps, *read))] if count > _FEWEST else []
    whole = seq(*by_memory, *shuffles)
    for buffer in reversed(others):
        whole = Allocate(buffer, whole)
    return whole
