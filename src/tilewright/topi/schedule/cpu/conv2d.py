"""Dense convolution on channel-blocked activations: a register tile of output columns by output channel blocks.

The accumulators stay in registers over the whole reduction; the loop nest is

    parallel (batch, channel group, row)
      column tile
        accumulators = 0
        for input channel block, kernel row, kernel column, input channel in block
          accumulators[columns, channel blocks] += broadcast(data) * weight vector
        epilogue and store
"""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import inline_between, parallel_outer, shape_of
from tilewright.topi.schedule.cpu.pad import schedule_pad_at_root


def schedule_conv2d(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `conv` (tag conv2d_NCHWc: [N, O/b, H, W, b], reduced over channels and kernel) and its epilogue `out`."""
    schedule_pad_at_root(s, conv.op.input_tensors[0])
    shape = shape_of(out)
    chosen = tile.choose(shape[3], shape[1], shape[4], target)
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    group, block = s[out].split(channel, factor=chosen.blocks)
    columns, position = s[out].split(column, factor=chosen.rows)
    s[out].reorder(batch, group, row, columns, block, position, lane)
    s[out].vectorize(lane)
    s[out].unroll(position)
    s[out].unroll(block)
    parallel_outer(s, out, [batch, group, row])

    s[accumulator].compute_at(s[out], columns)
    batch, channel, row, column, lane = s[accumulator].op.axis
    # Columns outside channel blocks: each broadcast activation meets all its weight vectors at once, then is dead.
    s[accumulator].reorder(batch, row, *s[accumulator].op.reduce_axis, column, channel, lane)
    s[accumulator].vectorize(lane)
    s[accumulator].unroll(column)
    s[accumulator].unroll(channel)
