"""The kernel of an attention on tensor cores: a block's rows of queries against all keys, step by step.

    copies of the queries and of the first keys and values         on the way, zeros beyond the last
    for each step over the keys:
        wait for the oldest copies; those of the step stages - 1 further on
        scores = queries keys^T in registers                       ldmatrix, mma.sync
        row maxima by shuffles; exponentials; earlier sums scaled down to the new maxima
        sums += exponentials values                                 the accumulators of scores are operands already
    what the warps of the same rows have, added up in shared memory; stored 16 bytes a thread

This is FlashAttention-2 (Dao, 2023), whose warps have rows of their own; here a block may also divide the keys of a
step among warps, so that few rows still keep a multiprocessor busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tilewright.backend.gpu.schedule.attention_parts import Parts, first_step, step_count
from tilewright.backend.gpu.schedule.attention_problem import Problem, grid, quotient, serial
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, Ramp, Var
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, For, ForKind, IfThenElse, Stmt, seq
from tilewright.tir.tensor_core import ALIGNMENT, CHUNK, COLUMNS, INSTRUCTIONS, RESIDENT, ROWS, effect
from tilewright.tir.transform.block_product import barrier
from tilewright.tir.transform.fragments import LOADED, load_fragments
from tilewright.tir.transform.operand_tile import Operand, TileCopy, tile_form, unrolled
from tilewright.tir.visitor import substitute

#: Below every score that is not hidden, and small enough to be scaled.
_LOWEST = -1e30
#: The same where a mask is added first, whose fill values may be as low as floats are.
_LOWEST_MASKED = -3.402823e38
_LOG2_E = 1 / math.log(2)


@dataclass(frozen=True)
class AttentionTiling:
    """A block has `warps_rows` times `row_tiles` times 16 rows; a step `warps_keys` times `keys` keys.

    `stages` steps are in shared memory at a time; `parts` blocks share the keys of the same rows; rows of `stack` heads
    lie in one stack. Registers are left for `resident` blocks on a multiprocessor. `held`: fragments of the queries
    stay in registers.
    """

    warps_rows: int
    row_tiles: int
    warps_keys: int
    keys: int
    stages: int
    parts: int
    stack: int
    resident: int
    held: bool

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.warps_rows * self.row_tiles * ROWS

    @property
    def step(self) -> int:
        """Keys of a step."""
        return self.warps_keys * self.keys

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_rows * self.warps_keys


def padded(size: int) -> int:
    """A depth or width in whole fragments."""
    return -(-size // LOADED) * LOADED


def shared_bytes(depth: int, width: int, tiling: AttentionTiling) -> int:
    """Bytes of shared memory that a block takes: the copies, or later the sums of its warps."""
    copies = tiling.stages * tiling.step * (padded(depth) + padded(width)) + tiling.rows * padded(depth)
    sums = tiling.warps_keys * tiling.rows * (_stride(width) + 2)
    return max(2 * copies, 4 * sums)


def _stride(width: int) -> int:
    """Elements between rows of sums, such that the lanes of a warp store to different banks."""
    return padded(width) + COLUMNS


class TensorCoreAttention:
    """One kernel; `statement()` is its text."""

    def __init__(self, problem: Problem, tiling: AttentionTiling, parts: Parts | None) -> None:
        self.problem, self.tiling, self.parts = problem, tiling, parts
        self.analyzer = Analyzer()
        self.instruction = INSTRUCTIONS[problem.dtype]
        self.thread, self.tile, self.head, self.batch = (Var(n) for n in ("threadIdx.x", "tile", "head", "batch"))
        self.all_rows: Any = problem.rows * tiling.stack if isinstance(problem.rows, int) else (
            op.convert(problem.rows) * tiling.stack
        )  # fmt: skip
        self.tiles = quotient(self.all_rows, tiling.rows)
        self.stacks = problem.heads // tiling.stack
        self.steps = quotient(problem.columns, tiling.step)
        for var, extent in ((self.thread, tiling.threads), (self.tile, self.tiles * tiling.parts),
                            (self.head, self.stacks), (self.batch, problem.batch)):  # fmt: skip
            self.analyzer.bind(var, (0, extent))
        self.block_row = self.tile if tiling.parts == 1 else op.floordiv(self.tile, op.const(tiling.parts))
        self.row_start = self.block_row * tiling.rows
        self.lane = op.floormod(self.thread, op.const(32))
        warp = op.floordiv(self.thread, op.const(32))
        self.warp_row = op.floordiv(warp, op.const(tiling.warps_keys))
        self.warp_key = op.floormod(warp, op.const(tiling.warps_keys))
        self.at = Var("at")  # the number of a step among those of all keys
        self.analyzer.bind(self.at, (0, self.steps))
        self.copies = [self._query(), self._key(), self._value()]
        tiles, columns = tiling.row_tiles, tiling.keys // COLUMNS
        self.scores = Buffer("scores", [tiles * columns * 4], "float32", "local")
        self.sums = Buffer("sums", [tiles * padded(problem.width) // COLUMNS * 4], "float32", "local")
        self.tops, self.totals = (Buffer(name, [tiles * 2], "float32", "local") for name in ("tops", "totals"))
        held = padded(problem.depth) // LOADED if tiling.held else 1
        self.queries = Buffer("queries", [tiles * held * 4], "uint32", "local")
        pre = problem.mask is not None or problem.scale <= 0
        self.scaled_first, self.factor = pre, _LOG2_E if pre else problem.scale * _LOG2_E
        self.lowest = _LOWEST_MASKED if pre else _LOWEST

    # --------------------------------------------------------------------------------------------------- operands
    def _query(self) -> TileCopy:
        problem, tiling = self.problem, self.tiling
        row, depth = Var("row"), Var("depth")
        self.analyzer.bind(row, (0, tiling.rows))
        self.analyzer.bind(depth, (0, padded(problem.depth)))
        number = self.row_start + row
        at = problem.position(self.head, number, tiling.stack)
        conditions = self._unless_whole(number, self.all_rows, tiling.rows)
        value = problem.query(self.batch, *at, depth)
        return self._copy(Operand(value, row, depth, op.const(problem.depth), conditions), tiling.rows,
                          padded(problem.depth), 1, "queries")  # fmt: skip

    def _key(self) -> TileCopy:
        problem, tiling = self.problem, self.tiling
        row, depth = Var("row"), Var("depth")
        self.analyzer.bind(row, (0, tiling.step))
        self.analyzer.bind(depth, (0, padded(problem.depth)))
        number = self.at * tiling.step + row
        value = problem.key(self.batch, self._group(), number, depth)
        conditions = self._unless_whole(number, problem.columns, tiling.step)
        return self._copy(Operand(value, row, depth, op.const(problem.depth), conditions), tiling.step,
                          padded(problem.depth), tiling.stages, "keys")  # fmt: skip

    def _value(self) -> TileCopy:
        problem, tiling = self.problem, self.tiling
        row, depth = Var("row"), Var("depth")
        self.analyzer.bind(row, (0, padded(problem.width)))
        self.analyzer.bind(depth, (0, problem.columns))
        value = problem.value(self.batch, self._group(), depth, row)
        conditions = self._unless_whole(row, problem.width, LOADED)
        return self._copy(Operand(value, row, depth, op.convert(problem.columns), conditions), padded(problem.width),
                          tiling.step, tiling.stages, "values")  # fmt: skip

    def _copy(self, operand: Operand, rows: int, depth: int, stages: int, name: str) -> TileCopy:
        form = tile_form(operand, rows, depth, self.analyzer)
        memory = Buffer(f"{name}_tile", [stages * rows * depth], self.problem.dtype, "shared.dyn", None, ALIGNMENT)
        return TileCopy(form, memory, self.tiling.threads, self.analyzer)

    def _group(self) -> Expr:
        """The head of the keys."""
        shared = self.problem.group // self.tiling.stack
        return self.head if shared == 1 else op.floordiv(self.head, op.const(shared))

    def _unless_whole(self, number: Expr, size: Any, step: int) -> tuple[Expr, ...]:
        """The condition that there is such a row or key, where tiles do not end with the last."""
        return () if isinstance(size, int) and size % step == 0 else (op.less(number, op.convert(size)),)

    # ------------------------------------------------------------------------------------------------- the pipeline
    def statement(self) -> Stmt:
        """The kernel."""
        tiling = self.tiling
        element = Var("element")
        start = [
            unrolled(element, _size(b), BufferStore(b, op.const(x, "float32"), (element,)))
            for b, x in ((self.sums, 0.0), (self.totals, 0.0), (self.tops, self.lowest))
        ]
        step, count = Var("step"), self._count()
        first = [self._ahead(op.const(i), count, i) for i in range(tiling.stages - 1)]
        first[:1] = [self.copies[0].statement(self.thread, op.const(0), op.const(0)), first[0]]
        ready = [effect("ptx_wait_group", tiling.stages - 2), barrier()]
        self.analyzer.bind(step, (0, self.steps))
        loop = serial(step, count, self._step(step, count))
        held = seq(*ready, self._load_queries()) if tiling.held else None
        body = seq(*start, *first, held, loop, effect("ptx_wait_group", 0), barrier(), self._leave(), barrier(),
                   self._finish())  # fmt: skip
        for buffer in (self.sums, self.totals, self.tops, self.queries):
            body = Allocate(buffer, body)
        return grid(
            [(self.batch, self.problem.batch, "blockIdx.z"), (self.head, self.stacks, "blockIdx.y"),
             (self.tile, self.tiles * tiling.parts, "blockIdx.x"), (self.thread, tiling.threads, "threadIdx.x")],
            self._within(body),
            {RESIDENT: tiling.resident},
        )  # fmt: skip

    def _count(self) -> Expr:
        """The steps of this block: those of its part, and with `causal` none beyond its last row."""
        problem, tiling = self.problem, self.tiling
        seen = quotient(self.row_start + tiling.rows, tiling.step) if problem.causal and tiling.stack == 1 else None
        return step_count(self.tile, self.steps, tiling.parts, seen)

    def _ahead(self, step: Expr, count: Expr, slot: Any) -> Stmt:
        """The copies of keys and values for a step, where there is one, as a group."""
        slot = op.convert(slot)
        at = first_step(self.tile, self.steps, self.tiling.parts) + step
        keys = substitute(self.copies[1].statement(self.thread, slot, op.const(0)), {self.at: at})
        values = self.copies[2].statement(self.thread, slot, at)
        condition = self.analyzer.simplify(op.less(step, count))
        body = seq(keys, values)
        if not op.is_const(condition, 1):
            body = IfThenElse(condition, body)
        return seq(body, effect("ptx_commit_group"))

    def _within(self, body: Stmt) -> Stmt:
        """`body` with the shared memory around: copies, and in their memory later the sums of the warps."""
        tiling, problem = self.tiling, self.problem
        size = shared_bytes(problem.depth, problem.width, tiling)
        arena = Buffer("attention_tiles", [size], "uint8", "shared.dyn", None, ALIGNMENT)
        position = 0
        for copy in (self.copies[1], self.copies[2], self.copies[0]):
            body = DeclBuffer(copy.memory, Call("handle", "address_of", (arena[position],)), body)
            position += _size(copy.memory) * self.instruction.itemsize
        kept = tiling.warps_keys * tiling.rows
        for buffer, start in ((self.left_sums, 0), (self.left_tops, kept * _stride(problem.width) * 4),
                              (self.left_totals, kept * (_stride(problem.width) + 1) * 4)):  # fmt: skip
            body = DeclBuffer(buffer, Call("handle", "address_of", (arena[start],)), body)
        return Allocate(arena, body)

    # ------------------------------------------------------------------------------------------------------- a step
    def _step(self, step: Var, count: Expr) -> Stmt:
        tiling = self.tiling
        stages = op.const(tiling.stages)
        slot, after = op.floormod(step, stages), step + (tiling.stages - 1)
        at = first_step(self.tile, self.steps, self.tiling.parts) + step
        body = seq(
            effect("ptx_wait_group", tiling.stages - 2),
            barrier(),
            self._ahead(after, count, op.floormod(after, stages)),
            self._products(slot),
            self._masked(at),
            self._exponentials(),
            self._weighted(slot),
        )
        return Allocate(self.scores, body)

    def _load_queries(self, inner: Expr | None = None) -> Stmt:
        """Fragments of this warp's queries: all along the depth, or those of one instruction."""
        row, all_depth = Var("row"), Var("inner")
        depth = padded(self.problem.depth) // LOADED
        start = (self.warp_row * self.tiling.row_tiles + row) * ROWS
        self.analyzer.bind(row, (0, self.tiling.row_tiles))
        self.analyzer.bind(all_depth, (0, depth))
        at = row * 4 if inner is not None else (row * depth + all_depth) * 4
        load = load_fragments(self.copies[0], False, self.lane, start, all_depth if inner is None else inner,
                              op.const(0), self.queries[at])  # fmt: skip
        body = unrolled(row, self.tiling.row_tiles, load)
        return unrolled(all_depth, depth, body) if inner is None else body

    def _products(self, slot: Expr) -> Stmt:
        """The scores of this warp's rows and keys."""
        tiling, columns = self.tiling, self.tiling.keys // COLUMNS
        inner, turn, row, half, element = (Var(name) for name in ("inner", "turn", "row", "half", "element"))
        depth = padded(self.problem.depth) // LOADED
        self.analyzer.bind(inner, (0, depth))
        self.analyzer.bind(turn, (0, tiling.keys // LOADED))
        keys = Buffer("key", [4], "uint32", "local")
        start = self.warp_key * tiling.keys + turn * LOADED
        load = load_fragments(self.copies[1], True, self.lane, start, inner, slot, keys[0])
        query = (row * depth + inner) * 4 if tiling.held else row * 4
        product = effect("ptx_mma", self.scores[(row * columns + turn * 2 + half) * 4], self.queries[query],
                         keys[half * 2], self.instruction.kind)  # fmt: skip
        body = seq(load, unrolled(row, tiling.row_tiles, unrolled(half, 2, product)))
        body = unrolled(turn, tiling.keys // LOADED, Allocate(keys, body))
        queries = None if tiling.held else self._load_queries(inner)
        zero = unrolled(element, _size(self.scores), BufferStore(self.scores, op.const(0.0, "float32"), (element,)))
        return seq(zero, unrolled(inner, depth, seq(queries, body)))

    def _each_score(self, rule: Any) -> Stmt:
        """`rule(index, row, key)` for each score of a lane: its index, and its row and key in the block's tile."""
        tiling, columns = self.tiling, self.tiling.keys // COLUMNS
        row, column, half, pair = (Var(name) for name in ("row", "column", "half", "pair"))
        index = (row * columns + column) * 4 + half * 2 + pair
        at_row = (self.warp_row * tiling.row_tiles + row) * ROWS + half * 8 + op.floordiv(self.lane, op.const(4))
        at_key = self.warp_key * tiling.keys + column * COLUMNS + op.floormod(self.lane, op.const(4)) * 2 + pair
        body = unrolled(pair, 2, rule(index, at_row, at_key))
        return unrolled(row, tiling.row_tiles, unrolled(column, columns, unrolled(half, 2, body)))

    def _masked(self, at: Expr) -> Stmt:
        """Masks added; what a row may not see, and what is behind the last key, hidden."""
        problem, tiling = self.problem, self.tiling
        parts: list[Stmt] = []
        hidden = op.const(-math.inf, "float32")
        if self.scaled_first:

            def add(index: Expr, row: Expr, key: Expr) -> Stmt:
                value = self.scores[index] * op.const(problem.scale, "float32")
                if problem.mask is not None:
                    number = self._clamped(self.row_start + row, self.all_rows, tiling.rows)
                    position = problem.position(self.head, number, tiling.stack)
                    column = self._clamped(at * tiling.step + key, problem.columns, tiling.step)
                    value = value + op.cast("float32", problem.mask(self.batch, *position, column))
                return BufferStore(self.scores, value, (index,))

            parts.append(self._each_score(add))
        end = (at + 1) * tiling.step
        if self._unless_whole(end, problem.columns, tiling.step):
            last = op.convert(problem.columns)

            def behind(index: Expr, row: Expr, key: Expr) -> Stmt:
                shown = op.select(op.less(at * tiling.step + key, last), self.scores[index], hidden)
                return BufferStore(self.scores, shown, (index,))

            parts.append(IfThenElse(op.less(last, end), self._each_score(behind)))
        if problem.causal:

            def later(index: Expr, row: Expr, key: Expr) -> Stmt:
                _, number = problem.position(self.head, self.row_start + row, tiling.stack)
                shown = op.select(at * tiling.step + key <= number, self.scores[index], hidden)
                return BufferStore(self.scores, shown, (index,))

            body = self._each_score(later)
            parts.append(IfThenElse(op.less(self.row_start, end), body) if tiling.stack == 1 else body)
        return seq(*parts)

    def _clamped(self, number: Expr, size: Any, step: int) -> Expr:
        whole = not self._unless_whole(number, size, step)
        return number if whole else op.minimum(number, op.convert(size) - 1)

    def _exponentials(self) -> Stmt:
        """The online softmax: scores become exponentials; maxima, totals and sums follow."""
        tiling, columns, widths = self.tiling, self.tiling.keys // COLUMNS, padded(self.problem.width) // COLUMNS
        row, half, column, pair, wide = (Var(name) for name in ("row", "half", "column", "pair", "wide"))
        which = row * 2 + half
        at_score = (row * columns + column) * 4 + half * 2 + pair
        score = self.scores[at_score]
        top, base, ratio = (Buffer(name, [1], "float32", "local") for name in ("top", "base", "ratio"))
        factor, nought = op.const(self.factor, "float32"), (op.const(0),)
        scaled = self.scaled_first
        exponent = (score - top[0]) * factor if scaled else Call("float32", "fma", (score, factor, base[0]))
        at_sum = (row * widths + wide) * 4 + half * 2 + pair

        def over_scores(body: Stmt) -> Stmt:
            return unrolled(column, columns, unrolled(pair, 2, body))

        body = seq(
            BufferStore(top, self.tops[which], nought),
            over_scores(BufferStore(top, _fmax(top[0], score), nought)),
            *[BufferStore(top, _fmax(top[0], self._shuffled(top[0], step)), nought) for step in (1, 2)],
            BufferStore(base, op.const(0.0, "float32") - top[0] * factor, nought),
            BufferStore(ratio, _exp2((self.tops[which] - top[0]) * factor), nought),
            BufferStore(self.tops, top[0], (which,)),
            BufferStore(self.totals, self.totals[which] * ratio[0], (which,)),
            over_scores(
                seq(
                    BufferStore(self.scores, _exp2(exponent), (at_score,)),
                    BufferStore(self.totals, self.totals[which] + score, (which,)),
                )
            ),
            unrolled(wide, widths, unrolled(pair, 2, BufferStore(self.sums, self.sums[at_sum] * ratio[0], (at_sum,)))),
        )
        body = Allocate(top, Allocate(base, Allocate(ratio, body)))
        return unrolled(row, tiling.row_tiles, unrolled(half, 2, body))

    def _shuffled(self, value: Expr, step: int) -> Expr:
        """The value of the lane whose number differs in one bit; four lanes have the scores of a row."""
        other = Call("int32", "bitwise_xor", (self.lane, op.const(step)))
        return Call("float32", "warp_shuffle", (value, other, op.const(32)))

    def _weighted(self, slot: Expr) -> Stmt:
        """The exponentials, as operands, times the values."""
        tiling, columns, widths = self.tiling, self.tiling.keys // COLUMNS, padded(self.problem.width) // COLUMNS
        inner, row, turn, half, part = (Var(name) for name in ("inner", "row", "turn", "half", "part"))
        self.analyzer.bind(inner, (0, tiling.keys // LOADED))
        self.analyzer.bind(turn, (0, widths // 2))
        shares = Buffer("shares", [tiling.row_tiles * 4], "uint32", "local")
        first = (row * columns + inner * 2 + op.floordiv(part, op.const(2))) * 4 + op.floormod(part, op.const(2)) * 2
        pack = effect("ptx_pack", shares[row * 4 + part], self.scores[first], self.scores[first + 1],
                      self.instruction.kind)  # fmt: skip
        values = Buffer("value", [4], "uint32", "local")
        depth = self.warp_key * (tiling.keys // LOADED) + inner
        load = load_fragments(self.copies[2], True, self.lane, turn * LOADED, depth, slot, values[0])
        product = effect("ptx_mma", self.sums[(row * widths + turn * 2 + half) * 4], shares[row * 4], values[half * 2],
                         self.instruction.kind)  # fmt: skip
        products = seq(load, unrolled(row, tiling.row_tiles, unrolled(half, 2, product)))
        body = seq(
            unrolled(row, tiling.row_tiles, unrolled(part, 4, pack)),
            unrolled(turn, widths // 2, Allocate(values, products)),
        )
        return unrolled(inner, tiling.keys // LOADED, Allocate(shares, body))

    # ------------------------------------------------------------------------------------------------------ the end
    @property
    def left_sums(self) -> Buffer:
        """The sums of each warp of the same rows, in shared memory."""
        return self._left("left_sums", [_stride(self.problem.width)])

    @property
    def left_tops(self) -> Buffer:
        """Their maxima."""
        return self._left("left_tops", [])

    @property
    def left_totals(self) -> Buffer:
        """Their sums of exponentials."""
        return self._left("left_totals", [])

    def _left(self, name: str, more: list[int]) -> Buffer:
        made: dict[str, Buffer] = self.__dict__.setdefault("_left_buffers", {})
        if name not in made:
            shape = [self.tiling.warps_keys, self.tiling.rows, *more]
            made[name] = Buffer(name, shape, "float32", "shared.dyn", None, ALIGNMENT)
        return made[name]

    def _leave(self) -> Stmt:
        """The stores of the sums that each warp has of its rows to shared memory."""
        tiling, widths = self.tiling, padded(self.problem.width) // COLUMNS
        row, half, wide = Var("row"), Var("half"), Var("wide")
        which = row * 2 + half
        at_row = (self.warp_row * tiling.row_tiles + row) * ROWS + half * 8 + op.floordiv(self.lane, op.const(4))
        at_column = wide * COLUMNS + op.floormod(self.lane, op.const(4)) * 2
        one = op.const(1)
        value = BufferLoad(self.sums, (Ramp((row * widths + wide) * 4 + half * 2, one, 2),))
        store = BufferStore(self.left_sums, value, (self.warp_key, at_row, Ramp(at_column, one, 2)))
        totals = [
            BufferStore(self.totals, self.totals[which] + self._shuffled(self.totals[which], step), (which,))
            for step in (1, 2)
        ]
        body = seq(
            *totals,
            unrolled(wide, widths, store),
            IfThenElse(
                op.eq(op.floormod(self.lane, op.const(4)), op.const(0)),
                seq(
                    BufferStore(self.left_tops, self.tops[which], (self.warp_key, at_row)),
                    BufferStore(self.left_totals, self.totals[which], (self.warp_key, at_row)),
                ),
            ),
        )
        return unrolled(row, tiling.row_tiles, unrolled(half, 2, body))

    def _finish(self) -> Stmt:
        """The warps' results added up and stored: of the block's rows, or of its part of the keys."""
        tiling, problem = self.tiling, self.problem
        lanes = math.gcd(problem.width, CHUNK // 4 if self.parts else CHUNK // self.instruction.itemsize)
        pieces = problem.width // lanes
        turn, warp, lane = Var("turn"), Var("warp"), Var("lane")
        total = tiling.rows * pieces
        times = quotient(total, tiling.threads)
        self.analyzer.bind(turn, (0, times))
        number = self.thread + turn * tiling.threads
        row, column = op.floordiv(number, op.const(pieces)), op.floormod(number, op.const(pieces)) * lanes
        top, sum_ = Buffer("top", [1], "float32", "local"), Buffer("total", [1], "float32", "local")
        share = Buffer("share", [tiling.warps_keys], "float32", "local")
        nought, factor = (op.const(0),), op.const(self.factor, "float32")
        weight = _exp2((self.left_tops[warp, row] - top[0]) * factor)
        value: Expr = op.const(0.0, "float32")
        for i in range(tiling.warps_keys):
            value = self.left_sums[i, row, column + lane] * share[i] + value
        whole = self.row_start + row
        body = seq(
            BufferStore(top, self.left_tops[0, row], nought),
            unrolled(warp, tiling.warps_keys, BufferStore(top, _fmax(top[0], self.left_tops[warp, row]), nought)),
            BufferStore(sum_, op.const(0.0, "float32"), nought),
            unrolled(
                warp,
                tiling.warps_keys,
                seq(
                    BufferStore(share, weight, (warp,)),
                    BufferStore(sum_, sum_[0] + self.left_totals[warp, row] * share[warp], nought),
                ),
            ),
            self._stored(whole, column, lane, lanes, value, top[0], sum_),
        )
        conditions = [*self._unless_whole(whole, self.all_rows, tiling.rows)]
        if total % tiling.threads:
            conditions.append(op.less(number, op.const(total)))
        if conditions:
            body = IfThenElse(op.all(*conditions), body)
        for buffer in (top, sum_, share):
            body = Allocate(buffer, body)
        return unrolled(turn, times, body)

    def _stored(
        self, row: Expr, column: Expr, lane: Var, lanes: int, value: Expr, top: Expr, total: Buffer
    ) -> Stmt:  # fmt: skip
        """Neighbouring elements of the result, or of the part's."""
        kind = ForKind.VECTORIZED if lanes > 1 else ForKind.SERIAL

        def each(body: Stmt) -> Stmt:
            return For(lane, op.const(0), op.const(lanes), kind, body)

        if self.parts is None:
            head, at_row = self.problem.position(self.head, row, self.tiling.stack)
            inverse = BufferStore(total, op.const(1.0, "float32") / total[0], (op.const(0),))
            return seq(inverse, each(self.problem.store(self.batch, head, at_row, column + lane, value * total[0])))
        at = (self.batch, self.head, op.floormod(self.tile, op.const(self.tiling.parts)), row)
        first = op.eq(column, op.const(0))
        scalars = seq(BufferStore(self.parts.tops, top, at), BufferStore(self.parts.totals, total[0], at))
        return seq(each(BufferStore(self.parts.sums, value, (*at, column + lane))), IfThenElse(first, scalars))

    def exponential(self, exponent: Expr) -> Expr:
        """The exponential of a difference of maxima."""
        return _exp2(exponent * op.const(self.factor, "float32"))


def _size(buffer: Buffer) -> int:
    size = buffer.constant_size()
    assert size is not None
    return size


def _fmax(a: Expr, b: Expr) -> Expr:
    return Call("float32", "fmax", (a, b))


def _exp2(x: Expr) -> Expr:
    return Call("float32", "exp2_approx", (x,))
