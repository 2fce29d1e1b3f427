"""Fragments of an operand's tile: what one `ldmatrix` brings from shared memory to a warp's registers."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Expr
from tilewright.tir.stmt import Stmt
from tilewright.tir.tensor_core import effect
from tilewright.tir.transform.operand_tile import TileCopy

#: Rows of the operand that one load of four tiles brings: of A as of B.
LOADED = 16


def load_fragments(
    copy: TileCopy, is_right: bool, lane: Expr, start: Expr, inner: Expr, slot: Expr, registers: Expr
) -> Stmt:
    """Sixteen rows from `start` on, at the instruction number `inner` along the depth, to four `registers`.

    The four tiles of a load are, for the left operand, the two halves of the rows, then the same at the other half of
    the depth; for the right one, whose fragments are eight columns, both halves of the depth, then the next eight.
    """
    form, analyzer = copy.form, copy.analyzer
    within, tile = op.floormod(lane, op.const(8)), op.floordiv(lane, op.const(8))
    halves = [op.floormod(tile, op.const(2)), op.floordiv(tile, op.const(2))]
    rows_half, depth_half = halves[::-1] if is_right else halves
    if form.transposed:
        line = inner * LOADED + depth_half * 8 + within
        chunk = op.floordiv(start, op.const(form.chunk)) + rows_half
    else:
        line = start + rows_half * 8 + within
        chunk = inner * 2 + depth_half
    offset = form.offset(line, analyzer.simplify(chunk), analyzer) + slot * (form.lines * form.length)
    return effect("ptx_ldmatrix", registers, copy.memory[offset], int(form.transposed))
