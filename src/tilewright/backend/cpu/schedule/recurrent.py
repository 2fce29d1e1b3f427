"""A recurrent layer as one kernel: a loop over time, in it blocks of units, each a register tile and its cell.

    for each step
      parallel (direction, block of units)
        for each tile of the batch
          products of the state with the weights of all gates, in registers       weights stream once a step
          the cell: gates, activations, next states
      barrier

Where the weights are bytes, a step begins with the range of the state and its bytes, on one worker, and the products
are dot products of bytes. A layer whose step is small runs on one worker, which needs no barriers: its weights then
stay in that core's cache. Which it is, and the rows of a tile, are chosen by cost (`recurrent_cost`).
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import power_of_two_lanes, vector_lanes, vectorize_lanes
from tilewright.backend.cpu.schedule.dot_intrin import dot_intrin
from tilewright.backend.cpu.schedule.injective import schedule_pass
from tilewright.backend.cpu.schedule.lanes import reduce_along
from tilewright.backend.cpu.schedule.recurrent_cost import (
    of_bytes,
    recurrent_cost,
    recurrent_space,
    recurrent_workload,
    unit_block_of,
)
from tilewright.target import Target
from tilewright.te.scan import ScanOp
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, has_tag, is_reduction, shape_of
from tilewright.topi.schedule.template import Template


def schedule_recurrent(s: te.Schedule, scan: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule the `scan` (tag recurrent: [T + 1, D, B, units] for each state) and the outputs made of its states."""
    assert isinstance(scan.op, ScanOp)
    cells = [t for t in computes([scan]) if has_tag(t, tag.RECURRENT_CELL)]
    products = [t for t in computes([scan]) if has_tag(t, tag.RECURRENT_PRODUCT)]
    ranges = [t for t in computes([scan]) if has_tag(t, tag.RECURRENT_RANGE)]
    codes = [t for t in computes([scan]) if has_tag(t, tag.RECURRENT_CODES)]
    for cell in cells:
        (product,) = [t for t in cell.op.input_tensors if t in products]
        _schedule_cell(s, cell, product, config, target)
    for tensor in ranges:
        if is_reduction(tensor):
            reduce_along(s, tensor, target)
    for tensor in codes:
        lanes = vector_lanes(shape_of(tensor)[-1], target)
        _, lane = s[tensor].split(s[tensor].op.axis[-1], factor=lanes)
        s[tensor].vectorize(lane)
    outputs = [tensor for op in s.outputs for tensor in op.outputs]
    for tensor in computes(outputs):
        inside = tensor in (*cells, *ranges, *codes) or is_reduction(tensor) or tensor.op is scan.op
        if not inside and not any(t in cells for t in tensor.op.outputs):
            schedule_pass(s, tensor, target)


def _schedule_cell(s: te.Schedule, cell: te.Tensor, product: te.Tensor, config: Config, target: Target) -> None:
    """Tiles of the batch by blocks of units, with the product of a tile in registers just before its cell."""
    block = unit_block_of(product)
    _, direction, batch, unit = s[cell].op.axis
    tiles, row = s[cell].split(batch, factor=config["tile_rows"])
    blocks, lane = s[cell].split(unit, factor=block)
    s[cell].reorder(direction, blocks, tiles, row, lane)
    s[cell].unroll(row)
    vectorize_lanes(s, cell, lane, block, target)
    where = s[cell].fuse(direction, blocks)
    if config["shared"]:
        s[cell].parallel(where)
    s[product].set_scope("local")
    s[product].compute_at(s[cell], tiles)
    step, direction, row, gate, *panel, unit = s[product].op.axis
    s[product].unroll(row)
    s[product].unroll(gate)
    if not of_bytes(product):
        (k,) = s[product].op.reduce_axis
        s[product].reorder(step, direction, k, row, gate, unit)
        vectorize_lanes(s, product, unit, block, target)
        return
    outer, inner = s[product].op.reduce_axis
    lanes = power_of_two_lanes(block, target)
    vectors, vector = s[product].split(unit, factor=lanes)
    s[product].reorder(step, direction, *panel, outer, row, gate, vectors, vector, inner)
    s[product].unroll(vectors)
    codes, weight = product.op.input_tensors
    s[product].tensorize(vector, dot_intrin(lanes, str(codes.dtype), str(weight.dtype)))


RECURRENT = Template("recurrent", recurrent_workload, recurrent_space, recurrent_cost, schedule_recurrent)
