"""A block's product by warpgroups: instructions of four warps that read both operands from shared memory.

    for each step along the depth:
        wait for the oldest copies, make them visible to the instructions, then wait for all threads
        products of the step, as a group                                  run while …
        copies for the step stages - 2 further on                         … these begin
        wait for the products of the step before

The slot that is copied to was read two steps ago: products of one step are running when the next begins (NVIDIA, PTX
ISA, "Asynchronous warpgroup level matrix instructions").
"""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import Stmt, seq
from tilewright.tir.tensor_core import COLUMNS, ROWS, effect
from tilewright.tir.transform.block_product import BlockProduct, barrier
from tilewright.tir.transform.operand_tile import unrolled

#: Warps that multiply together, their rows, and the bytes of a line of an operand.
_WARPS, _ROWS, _LINE = 4, 64, 128
#: Columns of the widest instruction.
_WIDEST = 256


class WarpgroupProduct(BlockProduct):
    """One block's tile, computed by warpgroups."""

    behind = 2
    transposes = False

    def _shares(self) -> tuple[int, int]:
        """The rows that one warp has in all its group's instructions, and its columns."""
        tiling = self.tiling
        groups = tiling.warps_rows // _WARPS
        columns = tiling.columns // tiling.warps_columns
        fitting = tiling.warps_rows % _WARPS == 0 and groups and tiling.rows % (groups * _ROWS) == 0
        if not fitting or columns * tiling.warps_columns != tiling.columns or columns % 8 or columns > _WIDEST:
            raise ScheduleError(
                f"{self.sums.name}: a tile cannot be shared out as {tiling}; a warpgroup takes multiples of {_ROWS} "
                f"rows and of 8 columns up to {_WIDEST}"
            )
        if tiling.depth * self.instruction.itemsize != _LINE or tiling.stages <= self.behind:
            raise ScheduleError(
                f"{self.sums.name}: warpgroups take steps of {_LINE} bytes of the depth and {self.behind + 1} stages "
                f"or more, not {tiling}"
            )
        return tiling.rows // tiling.warps_rows, columns

    def _step(self, step: Var, steps: Expr, sums: Buffer) -> Stmt:
        """One step along the depth."""
        stages = self.tiling.stages
        after = step + (stages - self.behind)
        return seq(
            effect("ptx_wait_group", stages - self.behind - 1),
            effect("ptx_fence_proxy"),
            barrier(),
            effect("ptx_wgmma_fence"),
            self._products(op.floormod(step, op.const(stages)), sums),
            effect("ptx_wgmma_commit"),
            self._ahead(after, op.floormod(after, op.const(stages)), steps),
            effect("ptx_wgmma_wait", 1),
        )

    def _drained(self) -> list[Stmt]:
        return [effect("ptx_wgmma_wait", 0)]

    def _products(self, slot: Expr, sums: Buffer) -> Stmt:
        """All products of a step."""
        inner, row = Var("inner"), Var("row")
        rows, columns = self.shares[0] // ROWS, self.shares[1]
        a, b = (
            copy.memory[
                slot * (copy.form.lines * copy.form.length) + start * copy.form.length + inner * self.instruction.depth
            ]
            for copy, start in zip(self.copies, (self._group_row(row), self._start(1)), strict=True)
        )
        first = row * (columns // COLUMNS * 4)
        product = effect("ptx_wgmma", sums[first], a, b, columns, self.instruction.kind)
        return unrolled(inner, self.tiling.depth // self.instruction.depth, unrolled(row, rows, product))

    def _group_row(self, row: Expr) -> Expr:
        """The row of the tile at which the instruction number `row` of this thread's warpgroup begins."""
        group = op.floordiv(self.warp, op.const(32 * _WARPS * self.tiling.warps_columns))
        return group * (self.shares[0] * _WARPS) + row * _ROWS

    def _first_row(self, row: Expr) -> Expr:
        warp = op.floormod(op.floordiv(self.warp, op.const(32)), op.const(_WARPS))
        return self._group_row(row) + warp * ROWS

    def _start(self, side: int) -> Expr:
        """The first column of this thread's warpgroup."""
        assert side == 1
        group = op.floordiv(self.warp, op.const(32 * _WARPS))
        return op.floormod(group, op.const(self.tiling.warps_columns)) * self.shares[1]
