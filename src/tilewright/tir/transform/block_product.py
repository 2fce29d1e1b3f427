"""The statements by which a block of threads computes its tile of a product on tensor cores.

    copies of the first steps                        stages - 1 groups on the way
    for each step along the depth:
        wait for the oldest group, then for all threads
        copies for the step that is stages - 1 further on, into the slot that was read last
        for each instruction's depth: fragments of A and B, products
    sums to shared memory, over the operands

This is the multistage pipeline of CUTLASS ("Efficient GEMM in CUDA"): one barrier a step, copies without registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, For, ForKind, IfThenElse, Stmt, seq
from tilewright.tir.tensor_core import ALIGNMENT, COLUMNS, ROWS, Instruction, Tiling, effect, shared_bytes, sums_stride
from tilewright.tir.transform.fragments import LOADED, load_fragments
from tilewright.tir.transform.operand_tile import Operand, TileCopy, tile_form, unrolled
from tilewright.tir.visitor import substitute


@dataclass
class BlockProduct:
    """One block's tile: `sums` at `index`, by rows and columns, of two operands."""

    sums: Buffer
    index: tuple[Expr, ...]
    operands: tuple[Operand, Operand]
    instruction: Instruction
    tiling: Tiling
    analyzer: Analyzer
    copies: list[TileCopy] = field(init=False)
    #: Steps in shared memory that are not on the way: the one that is read, and those that may still be.
    behind = 1
    #: True if operands may lie in shared memory along their rows.
    transposes = True

    def __post_init__(self) -> None:
        tiling = self.tiling
        self.shares = self._shares()
        self.warp = Var("threadIdx.x")
        self.analyzer.bind(self.warp, (0, tiling.threads))
        old, stride = self.sums, sums_stride(tiling)
        shape, ones = (*old.shape[:-2], tiling.rows, tiling.columns), len(self.index)
        if not all(op.is_const(size, 1) for size in old.shape[:-2]):
            raise ScheduleError(f"{old.name}: a block has several tiles, {old!r}; compute the stage at one of them")
        strides = (*([tiling.rows * stride] * ones), stride, 1)
        self.sums = Buffer(old.name, shape, str(old.dtype), "shared.dyn", strides, ALIGNMENT)
        self.replaced = {old: self.sums}
        self.copies = []
        for operand, rows, side in zip(self.operands, (tiling.rows, tiling.columns), "ab", strict=True):
            form = tile_form(operand, rows, tiling.depth, self.analyzer, self.transposes)
            size, dtype = tiling.stages * rows * tiling.depth, str(operand.value.dtype)
            memory = Buffer(f"{old.name}_{side}", [size], dtype, "shared.dyn", None, ALIGNMENT)
            self.copies.append(TileCopy(form, memory, tiling.threads, self.analyzer))

    def _shares(self) -> tuple[int, int]:
        """The rows and columns of one warp. Raises ScheduleError where these are no whole instructions."""
        tiling = self.tiling
        rows, columns = tiling.rows // tiling.warps_rows, tiling.columns // tiling.warps_columns
        whole = rows * tiling.warps_rows == tiling.rows and columns * tiling.warps_columns == tiling.columns
        if not whole or rows % LOADED or columns % LOADED or tiling.depth % self.instruction.depth:
            raise ScheduleError(
                f"{self.sums.name}: a tile cannot be shared out as {tiling}; a warp takes multiples of {LOADED} rows "
                f"and columns, a step multiples of {self.instruction.depth}"
            )
        if tiling.stages <= self.behind:
            raise ScheduleError(
                f"{self.sums.name}: {tiling} has too few stages for asynchronous copies; use {self.behind + 1}"
            )
        return rows, columns

    # ---------------------------------------------------------------------------------------------------- memory
    def within(self, body: Stmt) -> Stmt:
        """`body`, which has the product and reads its sums, with the memory of both around."""
        body = substitute(body, {}, self.replaced)
        sizes = [copy.memory.constant_size() or 0 for copy in self.copies]
        starts = [0, sizes[0] * self.instruction.itemsize]
        size = shared_bytes(self.tiling, self.instruction.itemsize)
        arena = Buffer(f"{self.sums.name}_tiles", [size], "uint8", "shared.dyn", None, ALIGNMENT)
        views = [*zip((copy.memory for copy in self.copies), starts, strict=True), (self.sums, 0)]
        for buffer, start in views:
            body = DeclBuffer(buffer, Call("handle", "address_of", (arena[start],)), body)
        return Allocate(arena, body)

    # ------------------------------------------------------------------------------------------------- the pipeline
    def statement(self) -> Stmt:
        """The product, for all threads of the block."""
        tiling = self.tiling
        rows, columns = (share // side for share, side in zip(self.shares, (ROWS, COLUMNS), strict=True))
        sums = Buffer("sums", [rows * columns * 4], self.instruction.sums, "local")
        element = Var("element")
        zero = unrolled(element, rows * columns * 4, BufferStore(sums, op.const(0, self.instruction.sums), (element,)))
        steps = self.analyzer.simplify(
            op.floordiv(self.operands[0].extent + (tiling.depth - 1), op.const(tiling.depth))
        )
        first = [self._ahead(op.const(i), op.const(i), steps) for i in range(tiling.stages - self.behind)]
        step = Var("step")
        self.analyzer.bind(step, (0, steps))
        loop = For(step, op.const(0), steps, ForKind.SERIAL, self._step(step, steps, sums), "", {"unroll_hint": False})
        end = seq(*self._drained(), effect("ptx_wait_group", 0), barrier(), self._store(sums), barrier())
        whole: Stmt = Allocate(sums, seq(zero, *first, loop, end))
        threads = IntImm("int32", tiling.threads)
        return For(self.warp, op.const(0), threads, ForKind.THREAD_BINDING, whole, "threadIdx.x")

    def _step(self, step: Var, steps: Expr, sums: Buffer) -> Stmt:
        """One step along the depth."""
        stages = op.const(self.tiling.stages)
        rows, columns = (share // side for share, side in zip(self.shares, (ROWS, COLUMNS), strict=True))
        a, b = Buffer("a", [rows * 4], "uint32", "local"), Buffer("b", [columns * 2], "uint32", "local")
        after = step + (self.tiling.stages - 1)
        body = seq(
            effect("ptx_wait_group", self.tiling.stages - 2),
            barrier(),
            self._ahead(after, op.floormod(after, stages), steps),
            self._multiply(op.floormod(step, stages), a, b, sums),
        )
        return Allocate(a, Allocate(b, body))

    def _drained(self) -> list[Stmt]:
        """Statements after which the products of all steps are done."""
        return []

    def _ahead(self, step: Expr, slot: Expr, steps: Expr) -> Stmt:
        """The copies for a step, where there is one, as a group; an empty group where there is none."""
        copies = seq(*[copy.statement(self.warp, slot, step) for copy in self.copies])
        condition = self.analyzer.simplify(step < steps)
        if op.is_const(condition, 0):
            return effect("ptx_commit_group")
        return seq(copies if op.is_const(condition, 1) else IfThenElse(condition, copies), effect("ptx_commit_group"))

    def _multiply(self, slot: Expr, a: Buffer, b: Buffer, sums: Buffer) -> Stmt:
        """All products of a step."""
        inner, row, column = Var("inner"), Var("row"), Var("column")
        rows, columns = self.shares[0] // ROWS, self.shares[1] // COLUMNS
        product = effect(
            "ptx_mma", sums[(row * columns + column) * 4], a[row * 4], b[column * 2], self.instruction.kind
        )
        loads = [self._load(0, slot, inner, a), self._load(1, slot, inner, b)]
        products = unrolled(row, rows, unrolled(column, columns, product))
        return unrolled(inner, self.tiling.depth // self.instruction.depth, seq(*loads, products))

    def _load(self, side: int, slot: Expr, inner: Var, registers: Buffer) -> Stmt:
        """The fragments of one operand at one depth."""
        copy, turn, lane = self.copies[side], Var("turn"), op.floormod(self.warp, op.const(32))
        self.analyzer.bind(turn, (0, self.shares[side] // LOADED))
        self.analyzer.bind(inner, (0, self.tiling.depth // self.instruction.depth))
        start = self._start(side) + turn * LOADED
        load = load_fragments(copy, bool(side), lane, start, inner, slot, registers[turn * 4])
        return unrolled(turn, self.shares[side] // LOADED, load)

    def _start(self, side: int) -> Expr:
        """The first row, or column, of this thread's warp in the tile."""
        warp, columns = op.floordiv(self.warp, op.const(32)), op.const(self.tiling.warps_columns)
        number = op.floormod(warp, columns) if side else op.floordiv(warp, columns)
        return number * self.shares[side]

    def _first_row(self, row: Expr) -> Expr:
        """The row of the tile at which this warp's instruction number `row` begins."""
        return self._start(0) + row * ROWS

    def _store(self, sums: Buffer) -> Stmt:
        """The sums of each lane to shared memory, two neighbours at a time."""
        row, column, half = Var("row"), Var("column"), Var("half")
        rows, columns = self.shares[0] // ROWS, self.shares[1] // COLUMNS
        lane = op.floormod(self.warp, op.const(32))
        at_row = self._first_row(row) + half * 8 + op.floordiv(lane, op.const(4))
        at_column = self._start(1) + column * COLUMNS + op.floormod(lane, op.const(4)) * 2
        first = (row * columns + column) * 4 + half * 2
        one = op.const(1)
        value = BufferLoad(sums, (Ramp(first, one, 2),))
        store = BufferStore(self.sums, value, (*self.index, at_row, Ramp(at_column, one, 2)))
        return unrolled(row, rows, unrolled(column, columns, unrolled(half, 2, store)))


def barrier() -> Stmt:
    """All threads of the block are here."""
    return effect("storage_sync", "shared")
