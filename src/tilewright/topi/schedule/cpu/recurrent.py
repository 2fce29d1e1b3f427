"""A recurrent layer as one kernel: a loop over time, in it blocks of units, each a register tile and its cell.

    for each step
      parallel (direction, block of units)
        for each tile of the batch
          products of the state with the weights of all gates, in registers       weights stream once a step
          the cell: gates, activations, next states
      barrier

A layer whose step is small runs on one worker, which needs no barriers: its weights then stay in that core's cache.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright import te
from tilewright.target import Target
from tilewright.te.scan import ScanOp
from tilewright.tir import IntImm
from tilewright.topi import tag
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import (
    computes,
    has_tag,
    is_reduction,
    shape_of,
    terms_of,
    vectorize_lanes,
)
from tilewright.topi.schedule.cpu.injective import schedule_pass

#: Multiply-adds of a step from which the workers share it: fewer take less time than the barrier at its end.
SHARED_STEP = 1 << 13

#: Widths of a block of units.
_BLOCKS = (16, 32, 48, 64)

#: Vectors of weights a step reads at least: weights that arrive from the level-2 cache keep more from being faster.
_VECTORS = 3

#: Rows of a tile of a symbolic batch: a batch of one, the usual one, computes each of them.
SYMBOLIC_ROWS = 2


def unit_block(hidden: int, gates: int, target: Target) -> int:
    """Units of a block of packed recurrent weights: the narrowest that suffices, without more padding than needed."""
    whole = -(-hidden // _BLOCKS[0]) * _BLOCKS[0]
    fitting = [b for b in _BLOCKS if whole % b == 0]
    lanes = target.machine.lanes()
    return next((b for b in fitting if gates * b // lanes >= _VECTORS), fitting[-1])


def schedule_recurrent(s: te.Schedule, scan: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule the `scan` (tag recurrent: [T + 1, D, B, units] for each state) and the outputs made of its states."""
    assert isinstance(scan.op, ScanOp)
    cells = [t for t in computes([scan]) if has_tag(t, tag.RECURRENT_CELL)]
    products = [t for t in computes([scan]) if has_tag(t, tag.RECURRENT_PRODUCT)]
    work = sum(math.prod(shape_of(t)[1:]) * terms_of(t) for t in products)
    for cell in cells:
        (product,) = [t for t in cell.op.input_tensors if t in products]
        _schedule_cell(s, cell, product, work >= SHARED_STEP, target)
    outputs = [tensor for op in s.outputs for tensor in op.outputs]
    for tensor in computes(outputs):
        inside = tensor in cells or is_reduction(tensor) or tensor.op is scan.op
        if not inside and not any(t in cells for t in tensor.op.outputs):
            schedule_pass(s, tensor, target)


def _schedule_cell(s: te.Schedule, cell: te.Tensor, product: te.Tensor, shared: bool, target: Target) -> None:
    """Tiles of the batch by blocks of units, with the product of a tile in registers just before its cell."""
    block = shape_of(product.op.input_tensors[-1])[-1]
    gates = shape_of(product)[3]
    _, direction, batch, unit = s[cell].op.axis
    rows = _tile_rows(cell.shape[2], gates * block, target)
    tiles, row = s[cell].split(batch, factor=rows)
    blocks, lane = s[cell].split(unit, factor=block)
    s[cell].reorder(direction, blocks, tiles, row, lane)
    s[cell].unroll(row)
    vectorize_lanes(s, cell, lane, block, target)
    where = s[cell].fuse(direction, blocks)
    if shared:
        s[cell].parallel(where)
    s[product].set_scope("local")
    s[product].compute_at(s[cell], tiles)
    step, direction, row, gate, unit = s[product].op.axis
    (k,) = s[product].op.reduce_axis
    s[product].reorder(step, direction, k, row, gate, unit)
    s[product].unroll(row)
    s[product].unroll(gate)
    vectorize_lanes(s, product, unit, block, target)


def _tile_rows(batch: Any, width: int, target: Target) -> int:
    """Rows of the batch in a register tile of `width` weights."""
    if isinstance(batch, IntImm):
        return tile.choose(int(batch.value), 1, width, target, row_limit=14).rows
    return SYMBOLIC_ROWS
