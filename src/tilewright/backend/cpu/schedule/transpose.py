"""Outputs whose rows lie across the rows of an input: square blocks, so that every line of cache is used at once.

parallel (other axes, blocks of the axis along the input's rows)
  blocks of the output's last axis
    for i in block: store one vector of the output, gathered from as many rows of the input
"""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.cpu.schedule.common import line_elements, parallel_outer
from tilewright.target import Target
from tilewright.topi.schedule.access import flattened_axes, reads_through, stride
from tilewright.topi.schedule.stages import shape_of

#: Elements between neighbours, and neighbours along the other axis, from which a block is transposed in registers.
_LEAST = 4


def schedule_transpose(s: te.Schedule, out: te.Tensor, target: Target) -> bool:
    """Schedule `out` in blocks if it transposes what it mostly reads; False if it does not."""
    shape = list(shape_of(out))
    along = _axis_along_rows(out, target)
    if along is None:
        return False
    block_size = line_elements(target)  # a vector of output, a line of cache of input
    axes = list(s[out].op.axis)
    joined = min(flattened_axes(out), len(axes) - 1 - along) if shape[-1] < 2 * block_size else 1
    if joined > 1:
        axes[-joined:] = [s[out].fuse(*axes[-joined:])]
        shape[-joined:] = [math.prod(shape[-joined:])]
    *others, lane = axes
    across = flattened_axes(out, along) if joined == 1 and shape[along] % block_size else 1
    if across > 1:
        first = along - across + 1
        others[first : along + 1] = [s[out].fuse(*others[first : along + 1])]
        shape[first : along + 1] = [math.prod(shape[first : along + 1])]
        along = first
    others[along], row = s[out].split(others[along], factor=min(block_size, shape[along]))
    blocks = []
    if shape[-1] > block_size:
        block, lane = s[out].split(lane, factor=block_size)
        blocks = [block]
    s[out].reorder(*others, *blocks, row, lane)
    s[out].vectorize(lane)
    # Joined rows stay a loop of their own: only then do the quotients in their indices cancel.
    parallel_outer(s, out, others if joined > 1 else [*others, *blocks], target)
    return True


def _axis_along_rows(out: te.Tensor, target: Target) -> int | None:
    """The axis of `out` along which the largest input lies in memory, if that is not the last one of `out`."""
    axes, shape = list(out.op.axis), shape_of(out)
    if len(axes) < 2 or shape[-1] < _LEAST:
        return None
    reads = reads_through(out, lambda _: False)
    sizes = [_size(load.producer) for load in reads]
    load = next((x for x, size in zip(reads, sizes) if size == max(sizes)), None)
    if load is None or _size(load.producer) < target.machine.parallel_elements:
        return None
    step = stride(load, axes[-1], axes)
    if step is None or step < _LEAST:
        return None
    fitting = (d for d in range(len(axes) - 1) if shape[d] >= _LEAST and stride(load, axes[d], axes) == 1)
    return next(fitting, None)


def _size(tensor: te.Tensor) -> int:
    return math.prod(shape_of(tensor))
