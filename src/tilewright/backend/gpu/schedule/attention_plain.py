"""The kernel of an attention on plain arithmetic: a block's rows of queries against all keys, tile by tile.

    the block's queries in shared memory
    for each tile of keys: keys and values to shared memory, by all threads
        scores of rows and keys that are each thread's own                  registers
        row maxima through shared memory; exponentials there; earlier sums scaled down to the new maxima
        sums += exponentials values, of rows and columns that are each thread's own

The online softmax is that of FlashAttention-2 (Dao, 2023); barriers stand where `thread_sync` puts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.backend.gpu.schedule.attention_parts import Parts, first_step, step_count
from tilewright.backend.gpu.schedule.attention_problem import Problem, grid, quotient, serial
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import Allocate, BufferStore, IfThenElse, Stmt, seq
from tilewright.tir.tensor_core import RESIDENT
from tilewright.tir.transform.operand_tile import unrolled

#: Below every score that is not hidden; the lowest float, as fill values of masks may be.
_LOWEST = -3.402823e38


@dataclass(frozen=True)
class PlainTiling:
    """A block has `threads_rows` x `threads_keys` threads; a thread has `rows` rows and `keys` keys of a tile.

    `parts` blocks share the keys of the same rows; rows of `stack` heads lie in one stack; so many blocks are
    `resident` on a multiprocessor (0: not stated).
    """

    threads_rows: int
    rows: int
    threads_keys: int
    keys: int
    parts: int
    stack: int
    resident: int = 0

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.threads_rows * self.rows

    @property
    def step(self) -> int:
        """Keys of a tile."""
        return self.threads_keys * self.keys

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.threads_rows * self.threads_keys


def plain_shared(depth: int, width: int, itemsize: int, tiling: PlainTiling) -> int:
    """Bytes of shared memory of a block."""
    elements = tiling.block_rows * (depth + tiling.step + tiling.threads_keys) + tiling.step * (depth + 1 + width)
    return elements * itemsize


class PlainAttention:
    """One kernel; `statement()` is its text."""

    def __init__(self, problem: Problem, tiling: PlainTiling, parts: Parts | None) -> None:
        self.problem, self.tiling, self.parts = problem, tiling, parts
        self.thread, self.tile, self.head, self.batch = (Var(n) for n in ("threadIdx.x", "tile", "head", "batch"))
        known = isinstance(problem.rows, int)
        self.all_rows: Any = (problem.rows if known else op.convert(problem.rows)) * tiling.stack
        self.tiles, self.stacks = quotient(self.all_rows, tiling.block_rows), problem.heads // tiling.stack
        self.steps = quotient(problem.columns, tiling.step)
        self.block_row = self.tile if tiling.parts == 1 else op.floordiv(self.tile, op.const(tiling.parts))
        self.row_start = self.block_row * tiling.block_rows
        self.thread_key = op.floormod(self.thread, op.const(tiling.threads_keys))
        self.thread_row = op.floordiv(self.thread, op.const(tiling.threads_keys))
        self.analyzer = Analyzer()
        wide, depth, width = problem.wide, problem.depth, problem.width
        self.widths = quotient(width, tiling.threads_keys)

        def shared(name: str, *shape: int) -> Buffer:
            return Buffer(f"{name}_tile", shape, wide, "shared")

        self.queries = shared("queries", tiling.block_rows, depth)
        self.keys = shared("keys", tiling.step, depth + 1)  # neighbouring keys in different banks
        self.values = shared("values", tiling.step, width)
        self.shares = shared("shares", tiling.block_rows, tiling.step)
        self.partial = shared("partial", tiling.block_rows, tiling.threads_keys)
        self.scores = Buffer("scores", [tiling.rows * tiling.keys], wide, "local")
        self.sums = Buffer("sums", [tiling.rows * self.widths], wide, "local")
        self.tops, self.totals, self.ratios = (
            Buffer(name, [tiling.rows], wide, "local") for name in ("tops", "totals", "ratios")
        )

    def statement(self) -> Stmt:
        """The kernel."""
        tiling, problem = self.tiling, self.problem
        step, element = Var("step"), Var("element")
        start = [
            unrolled(element, int(b.constant_size() or 0), BufferStore(b, op.const(x, problem.wide), (element,)))
            for b, x in ((self.sums, 0.0), (self.totals, 0.0), (self.tops, _LOWEST))
        ]
        loop = serial(step, self._count(), self._step(first_step(self.tile, self.steps, self.tiling.parts) + step))
        body = seq(self._load_queries(), *start, loop, self._finish())
        for buffer in (self.queries, self.keys, self.values, self.shares, self.partial, self.scores, self.sums,
                       self.tops, self.totals, self.ratios):  # fmt: skip
            body = Allocate(buffer, body)
        return grid(
            [(self.batch, problem.batch, "blockIdx.z"), (self.head, self.stacks, "blockIdx.y"),
             (self.tile, self.tiles * tiling.parts, "blockIdx.x"), (self.thread, tiling.threads, "threadIdx.x")],
            body,
            {RESIDENT: tiling.resident} if tiling.resident else None,
        )  # fmt: skip

    def _count(self) -> Expr:
        """The steps of this block: those of its part, and with `causal` none beyond its last row."""
        problem, tiling = self.problem, self.tiling
        seen = (
            quotient(self.row_start + tiling.block_rows, tiling.step) if problem.causal and tiling.stack == 1 else None
        )
        return step_count(self.tile, self.steps, tiling.parts, seen)

    # ------------------------------------------------------------------------------------------------------- tiles
    def _filled(self, memory: Buffer, lines: int, length: int, value: Any, inside: Any) -> Stmt:
        """`value(line, column)` for each element of a tile, by all threads; zero where `inside` fails."""
        turn, threads = Var("turn"), self.tiling.threads
        total = lines * length
        number = self.thread + turn * threads
        line, column = op.floordiv(number, op.const(length)), op.floormod(number, op.const(length))
        stored = op.cast(self.problem.wide, value(line, column))
        condition = inside(line)
        if condition is not None:
            stored = op.if_then_else(condition, stored, op.const(0.0, self.problem.wide))
        body: Stmt = BufferStore(memory, stored, (line, column))
        if total % threads:
            body = IfThenElse(op.less(number, op.const(total)), body)
        return serial(turn, quotient(total, threads), body)

    def _inside(self, number: Expr, size: Any, step: int) -> Expr | None:
        """The condition that there is such a row or key, where tiles do not end with the last."""
        return None if isinstance(size, int) and size % step == 0 else op.less(number, op.convert(size))

    def _load_queries(self) -> Stmt:
        problem, tiling = self.problem, self.tiling

        def value(line: Expr, column: Expr) -> Expr:
            at = problem.position(self.head, self.row_start + line, tiling.stack)
            return problem.query(self.batch, *at, column)

        return self._filled(
            self.queries, tiling.block_rows, problem.depth, value,
            lambda line: self._inside(self.row_start + line, self.all_rows, tiling.block_rows),
        )  # fmt: skip

    def _load_keys(self, at: Expr) -> Stmt:
        problem, step = self.problem, self.tiling.step
        shared = problem.group // self.tiling.stack
        head = self.head if shared == 1 else op.floordiv(self.head, op.const(shared))
        return seq(
            *(
                self._filled(
                    memory, step, length,
                    lambda line, column, read=read: read(self.batch, head, at * step + line, column),
                    lambda line: self._inside(at * step + line, problem.columns, step),
                )
                for memory, length, read in (
                    (self.keys, problem.depth, problem.key), (self.values, problem.width, problem.value)
                )
            )
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- a step
    def _step(self, at: Expr) -> Stmt:
        return seq(self._load_keys(at), self._products(), self._masked(at), self._exponentials(), self._weighted())

    def _products(self) -> Stmt:
        """Scores: the depth outermost, so that what is read from shared memory serves several."""
        tiling, zero = self.tiling, op.const(0.0, self.problem.wide)
        row, key, depth, element = (Var(name) for name in ("row", "key", "depth", "element"))
        index = row * tiling.keys + key
        product = (
            self.queries[self.thread_row * tiling.rows + row, depth]
            * self.keys[self.thread_key + key * tiling.threads_keys, depth]
        )
        body = unrolled(row, tiling.rows, unrolled(key, tiling.keys,
                        BufferStore(self.scores, self.scores[index] + product, (index,))))  # fmt: skip
        return seq(
            unrolled(element, tiling.rows * tiling.keys, BufferStore(self.scores, zero, (element,))),
            serial(depth, self.problem.depth, body),
        )

    def _masked(self, at: Expr) -> Stmt:
        """Scores scaled, with masks; what a row may not see, and what is behind the last key, hidden."""
        problem, tiling, wide = self.problem, self.tiling, self.problem.wide
        row, key = Var("row"), Var("key")
        index = row * tiling.keys + key
        number = self.row_start + self.thread_row * tiling.rows + row
        column = at * tiling.step + self.thread_key + key * tiling.threads_keys
        value: Expr = self.scores[index] * op.const(problem.scale, wide)
        inside = self._inside(column, problem.columns, tiling.step)
        if problem.mask is not None:
            ragged = self._inside(number, self.all_rows, tiling.block_rows)
            known = number if ragged is None else op.minimum(number, op.convert(self.all_rows) - 1)
            position = problem.position(self.head, known, tiling.stack)
            there = column if inside is None else op.minimum(column, op.convert(problem.columns) - 1)
            value = value + op.cast(wide, problem.mask(self.batch, *position, there))
        shown = [] if inside is None else [inside]
        if problem.causal:
            shown.append(column <= problem.position(self.head, number, tiling.stack)[1])
        if shown:
            value = op.select(op.all(*shown), value, op.const(_LOWEST, wide))
        return unrolled(row, tiling.rows, unrolled(key, tiling.keys, BufferStore(self.scores, value, (index,))))

    def _exponentials(self) -> Stmt:
        """The online softmax: exponentials to shared memory; maxima, totals and sums follow."""
        tiling, wide = self.tiling, self.problem.wide
        row, key, other, column = (Var(name) for name in ("row", "key", "other", "column"))
        at_row, index = self.thread_row * tiling.rows + row, row * tiling.keys + key
        top, nought = Buffer("top", [1], wide, "local"), (op.const(0),)
        own = seq(
            BufferStore(top, self.scores[row * tiling.keys], nought),
            unrolled(key, tiling.keys, BufferStore(top, op.maximum(top[0], self.scores[index]), nought)),
            BufferStore(self.partial, top[0], (at_row, self.thread_key)),
        )
        at_sum = row * self.widths + column
        rest = seq(
            BufferStore(top, self.tops[row], nought),
            serial(other, tiling.threads_keys,
                   BufferStore(top, op.maximum(top[0], self.partial[at_row, other]), nought)),
            BufferStore(self.ratios, op.exp(self.tops[row] - top[0]), (row,)),
            BufferStore(self.tops, top[0], (row,)),
            BufferStore(self.totals, self.totals[row] * self.ratios[row], (row,)),
            unrolled(key, tiling.keys, seq(
                BufferStore(self.scores, op.exp(self.scores[index] - top[0]), (index,)),
                BufferStore(self.totals, self.totals[row] + self.scores[index], (row,)),
                BufferStore(self.shares, self.scores[index],
                            (at_row, self.thread_key + key * tiling.threads_keys)),
            )),
            unrolled(column, self.widths, BufferStore(self.sums, self.sums[at_sum] * self.ratios[row], (at_sum,))),
        )  # fmt: skip
        return Allocate(top, seq(unrolled(row, tiling.rows, own), unrolled(row, tiling.rows, rest)))

    def _weighted(self) -> Stmt:
        """The exponentials times the values."""
        tiling, width = self.tiling, self.problem.width
        row, column, key = Var("row"), Var("column"), Var("key")
        index, at = row * self.widths + column, self.thread_key + column * tiling.threads_keys
        known = at if width % tiling.threads_keys == 0 else op.minimum(at, op.const(width - 1))
        product = self.shares[self.thread_row * tiling.rows + row, key] * self.values[key, known]
        store = BufferStore(self.sums, self.sums[index] + product, (index,))
        return serial(key, tiling.step, unrolled(row, tiling.rows, unrolled(column, self.widths, store)))

    # ------------------------------------------------------------------------------------------------------ the end
    def _finish(self) -> Stmt:
        """The totals of each row's threads added up, and the sums stored."""
        tiling, wide = self.tiling, self.problem.wide
        row, other = Var("row"), Var("other")
        at_row = self.thread_row * tiling.rows + row
        whole = seq(
            BufferStore(self.totals, op.const(0.0, wide), (row,)),
            serial(other, tiling.threads_keys,
                   BufferStore(self.totals, self.totals[row] + self.partial[at_row, other], (row,))),
        )  # fmt: skip
        return seq(
            unrolled(row, tiling.rows, BufferStore(self.partial, self.totals[row], (at_row, self.thread_key))),
            unrolled(row, tiling.rows, whole),
            unrolled(row, tiling.rows, self._stored(row, self.row_start + at_row)),
        )

    def _stored(self, row: Var, number: Expr) -> Stmt:
        """A row of the result, or of the part's, as far as it is this thread's."""
        tiling, width, column = self.tiling, self.problem.width, Var("column")
        at = self.thread_key + column * tiling.threads_keys
        value = self.sums[row * self.widths + column]
        if self.parts is None:
            position = self.problem.position(self.head, number, tiling.stack)
            stored = self.problem.store(self.batch, *position, at, value / self.totals[row])
            scalars: Stmt | None = None
        else:
            part = (self.batch, self.head, op.floormod(self.tile, op.const(tiling.parts)), number)
            stored = BufferStore(self.parts.sums, value, (*part, at))
            scalars = IfThenElse(
                op.eq(self.thread_key, op.const(0)),
                seq(
                    BufferStore(self.parts.tops, self.tops[row], part),
                    BufferStore(self.parts.totals, self.totals[row], part),
                ),
            )
        if width % tiling.threads_keys:
            stored = IfThenElse(op.less(at, op.const(width)), stored)
        body = seq(unrolled(column, self.widths, stored), scalars)
        inside = self._inside(number, self.all_rows, tiling.block_rows)
        return body if inside is None else IfThenElse(inside, body)


__all__ = ["PlainAttention", "PlainTiling", "plain_shared"]
