"""Elementwise, broadcasting and data-moving stages: neighbouring threads compute neighbouring elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright import te
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.target import DeviceTarget
from tilewright.topi.schedule.stages import computes, is_reduction, shape_of

#: Threads of a block that passes over elements.
THREADS = 256
#: Bytes that a thread loads at once where elements are neighbours in memory.
_VECTOR_BYTES = 16


def schedule_injective(s: te.Schedule, outs: list[te.Tensor], target: DeviceTarget) -> None:
    """Inline all but `outs`, each of which is a launch of its own."""
    ends = {out.op for out in outs}
    for tensor in computes(outs):
        if tensor.op not in ends and isinstance(tensor.op, te.ComputeOp) and not is_reduction(tensor):
            s[tensor].compute_inline()
    for out in outs:
        bind_elements(s, out, list(s[out].op.axis), target)


def bind_elements(s: te.Schedule, tensor: te.Tensor, axes: Sequence[te.IterVar], target: DeviceTarget) -> te.IterVar:
    """Assign elements of `tensor` along `axes`, its innermost, to threads; returns the axis of the threads."""
    fused = axes[0] if len(axes) == 1 else s[tensor].fuse(*axes)
    shape = shape_of(tensor)[len(shape_of(tensor)) - len(axes) :]
    count, width = math.prod(shape), _lanes(tensor, target)
    machine = machine_of(target)  # with fewer elements, not every multiprocessor would have work for all its threads
    if (
        count >= machine.multiprocessors * machine.threads
        and width > 1
        and shape[-1] % width == 0
        and not is_reduction(tensor)
    ):
        fused, lane = s[tensor].split(fused, factor=width)
        s[tensor].vectorize(lane)
        count //= width
    threads = min(THREADS, target.max_threads_per_block, 1 << max(count - 1, 0).bit_length())
    block, thread = s[tensor].split(fused, factor=threads)
    s[tensor].bind(block, te.thread_axis("blockIdx.x"))
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    return thread


def _lanes(tensor: te.Tensor, target: DeviceTarget) -> int:
    """Elements that a thread computes at once: the target takes vectors of so many of what they are computed from."""
    read = [source for stage in computes([tensor]) for source in stage.op.input_tensors]
    widest = max(t.dtype.itemsize for t in (tensor, *read))
    return min(_VECTOR_BYTES // max(tensor.dtype.itemsize, 1), target.max_vector_bytes // max(widest, 1))
