"""Padding: written once into a padded copy, either for all workers at once or by each worker for its own tile."""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import parallel_outer, vector_lanes
from tilewright.target import Target
from tilewright.topi.schedule.stages import has_tag, inline_before, shape_of


def is_pad(tensor: te.Tensor) -> bool:
    """True if `tensor` is a computed padding stage."""
    return isinstance(tensor.op, te.ComputeOp) and has_tag(tensor, "pad")


def schedule_pad_at_root(s: te.Schedule, data: te.Tensor, target: Target) -> None:
    """Write the padded copy of `data` in a parallel loop of its own; does nothing if `data` is not a padding stage."""
    if is_pad(data):
        schedule_at_root(s, data, target)


def schedule_at_root(s: te.Schedule, data: te.Tensor, target: Target) -> None:
    """Write `data`, with what is computed before it inlined, in a parallel loop of its own."""
    inline_before(s, data)
    axes = list(s[data].op.axis)
    last = axes[-1]
    lanes = vector_lanes(shape_of(data)[-1], target)
    if lanes < shape_of(data)[-1]:
        _, last = s[data].split(last, factor=lanes)
    s[data].vectorize(last)
    parallel_outer(s, data, axes[: 3 if len(axes) == 5 else max(1, len(axes) - 2)], target)


def schedule_pad_at(s: te.Schedule, data: te.Tensor, consumer: te.Tensor, axis: te.IterVar, target: Target) -> None:
    """Let each worker write the padded rows it needs, at `axis` of `consumer`; nothing if `data` does not pad."""
    if not is_pad(data):
        return
    inline_before(s, data)
    s[data].compute_at(s[consumer], axis)
    lanes = vector_lanes(shape_of(data)[-1], target)
    last = s[data].op.axis[-1]
    if lanes < shape_of(data)[-1]:
        _, last = s[data].split(last, factor=lanes)
    s[data].vectorize(last)
