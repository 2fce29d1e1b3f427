"""Dense convolution on channel-blocked activations: a register tile of output positions by output channel blocks.

The accumulators stay in registers over the whole reduction; the loop nest is

    parallel (batch, channel group, row)
      column tile
        accumulators = 0
        for input channel block, kernel row, kernel column, input channel in block
          accumulators[columns, channel blocks] += broadcast(data) * weight vector
        epilogue and store

Where the image is a single narrow column, as in a convolution over time, rows take the place of columns.
"""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import inline_between, parallel_outer, shape_of, vectorize_lanes
from tilewright.topi.schedule.cpu.pad import schedule_pad_at_root


def schedule_conv2d(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `conv` (tag conv2d_NCHWc: [N, O/b, H, W, b], reduced over channels and kernel) and its epilogue `out`."""
    schedule_pad_at_root(s, conv.op.input_tensors[0])
    _, blocks, height, width, block = shape_of(out)
    along_rows = width < 4 and height > width
    chosen = tile.choose(height if along_rows else width, blocks, block, target)
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    group, inner_block = s[out].split(channel, factor=chosen.blocks)
    tiled, still = (row, column) if along_rows else (column, row)
    tiles, position = s[out].split(tiled, factor=chosen.rows)
    s[out].reorder(batch, group, still, tiles, inner_block, position, lane)
    _keep_in_registers(s, out, [inner_block, position], lane, block, target)
    outer = [batch, group, still, tiles] if along_rows else [batch, group, still]
    work = parallel_outer(s, out, outer)

    s[accumulator].compute_at(s[out], work if along_rows else tiles)
    batch, channel, row, column, lane = s[accumulator].op.axis
    tiled, still = (row, column) if along_rows else (column, row)
    # Positions outside channel blocks: each broadcast activation meets all its weight vectors at once, then is dead.
    s[accumulator].reorder(batch, still, *s[accumulator].op.reduce_axis, tiled, channel, lane)
    _keep_in_registers(s, accumulator, [tiled, channel], lane, block, target)


def schedule_conv2d_transpose(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `conv` (tag conv2d_transpose_NCHWc) and its epilogue: each phase of the strides is a convolution of its own.

    Rows and columns are split by the strides; a register tile is columns of one phase.
    """
    for operand in conv.op.input_tensors:
        schedule_pad_at_root(s, operand)
    _, blocks, _, width, block = shape_of(out)
    row_stride, column_stride = conv.op.attrs["strides"]
    chosen = tile.choose(-(-width // column_stride), blocks, block, target)
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    group, inner_block = s[out].split(channel, factor=chosen.blocks)
    rows, row_phase = s[out].split(row, factor=row_stride)
    columns, column_phase = s[out].split(column, factor=column_stride)
    tiles, position = s[out].split(columns, factor=chosen.rows)
    s[out].reorder(batch, group, rows, row_phase, column_phase, tiles, inner_block, position, lane)
    _keep_in_registers(s, out, [inner_block, position], lane, block, target)
    parallel_outer(s, out, [batch, group, rows])

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, row_phase, column_phase, column, lane = s[accumulator].op.axis
    reduction = s[accumulator].op.reduce_axis
    s[accumulator].reorder(batch, row, row_phase, column_phase, *reduction, column, channel, lane)
    _keep_in_registers(s, accumulator, [column, channel], lane, block, target)


def _keep_in_registers(
    s: te.Schedule, tensor: te.Tensor, unrolled: list[te.IterVar], lane: te.IterVar, block: int, target: Target
) -> None:
    for axis in unrolled:
        s[tensor].unroll(axis)
    vectorize_lanes(s, tensor, lane, block, target)
