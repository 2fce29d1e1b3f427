"""Attention whose keys are divided among blocks: the results of the parts in memory, and the kernel that adds them up.

A part leaves for each row the sums of its exponentials times values, the maximum that these are relative to and the
sum of the exponentials ("Flash-Decoding", Dao et al., 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.backend.gpu.schedule.attention_problem import Problem, grid, quotient, serial
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import Allocate, BufferStore, IfThenElse, Stmt, seq


@dataclass(frozen=True)
class Parts:
    """Memory of the results of `count` parts of the keys, for each batch, stack of heads and row of a stack."""

    count: int
    sums: Buffer
    tops: Buffer
    totals: Buffer

    @staticmethod
    def of(problem: Problem, count: int, stacks: int, rows: Any) -> Parts:
        shape = [problem.batch, stacks, count, rows]
        sums = Buffer("attention_sums", [*shape, problem.width], problem.wide)
        tops, totals = (Buffer(f"attention_{name}", shape, problem.wide) for name in ("tops", "totals"))
        return Parts(count, sums, tops, totals)

    def around(self, body: Stmt) -> Stmt:
        """`body` with the memory allocated."""
        return Allocate(self.sums, Allocate(self.tops, Allocate(self.totals, body)))


def first_step(tile: Expr, steps: Any, parts: int) -> Expr:
    """The first of the steps over the keys that block `tile` does; `parts` blocks divide them."""
    return op.const(0) if parts == 1 else op.floormod(tile, op.const(parts)) * quotient(steps, parts)


def step_count(tile: Expr, steps: Any, parts: int, seen: Expr | None) -> Expr:
    """The steps of block `tile`: those of its part, and only the first `seen` where causal rows see no further keys."""
    total = op.convert(steps) if seen is None else op.minimum(op.convert(steps), seen)
    if parts == 1:
        return total
    return op.minimum(total - first_step(tile, steps, parts), op.convert(quotient(steps, parts)))


def parts_kernel(problem: Problem, parts: Parts, stack: int, threads: int, exponential: Callable[[Expr], Expr]) -> Stmt:
    """A thread for each element of the result: the parts' sums relative to the greatest of their maxima."""
    width, wide = problem.width, problem.wide
    stacks, rows = problem.heads // stack, op.convert(problem.rows) * stack
    block, thread, head, batch = Var("block"), Var("threadIdx.x"), Var("head"), Var("batch")
    number = block * threads + thread
    row, column = op.floordiv(number, op.const(width)), op.floormod(number, op.const(width))
    top, total, value, part = *(Buffer(name, [1], wide, "local") for name in ("top", "total", "value")), Var("part")
    at = (batch, head, part, row)
    share = exponential(parts.tops[at] - top[0])
    actual = problem.position(head, row, stack)
    body = seq(
        BufferStore(top, parts.tops[batch, head, 0, row], (op.const(0),)),
        serial(part, parts.count, BufferStore(top, op.maximum(top[0], parts.tops[at]), (op.const(0),))),
        BufferStore(total, op.const(0.0, wide), (op.const(0),)),
        BufferStore(value, op.const(0.0, wide), (op.const(0),)),
        serial(
            part,
            parts.count,
            seq(
                BufferStore(value, value[0] + parts.sums[(*at, column)] * share, (op.const(0),)),
                BufferStore(total, total[0] + parts.totals[at] * share, (op.const(0),)),
            ),
        ),
        problem.store(batch, *actual, column, value[0] / total[0]),
    )
    body = IfThenElse(op.likely(op.less(number, rows * width)), body)
    body = Allocate(top, Allocate(total, Allocate(value, body)))
    blocks = quotient(problem.rows * stack * width if isinstance(problem.rows, int) else rows * width, threads)
    return grid(
        [(batch, problem.batch, "blockIdx.z"), (head, stacks, "blockIdx.y"), (block, blocks, "blockIdx.x"),
         (thread, threads, "threadIdx.x")],
        body,
    )  # fmt: skip
