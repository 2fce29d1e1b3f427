"""Elementwise, broadcasting and data-moving operations: one pass over the output, vectorized, in parallel."""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu.common import computes, parallel_outer, shape_of, vector_lanes


def schedule_injective(s: te.Schedule, outs: list[te.Tensor], target: Target) -> None:
    """Inline everything into `outs` and run each output as one parallel, vectorized pass."""
    for tensor in computes(outs):
        if all(tensor.op is not out.op for out in outs):
            s[tensor].compute_inline()
    for out in outs:
        schedule_pass(s, out)


def schedule_pass(s: te.Schedule, out: te.Tensor) -> None:
    """Run the injective stage `out` over its own axes: vector lanes on the last one, workers over the others."""
    axes = list(s[out].op.axis)
    if not axes:
        return
    extent = shape_of(out)[-1]
    lanes = vector_lanes(extent)
    if lanes < extent:
        outer, inner = s[out].split(axes[-1], factor=lanes)
        s[out].vectorize(inner)
        parallel_outer(s, out, [*axes[:-1], outer] if len(axes) < 3 else axes[:-1])
    else:
        if lanes > 1:
            s[out].vectorize(axes[-1])
        if len(axes) > 1:
            parallel_outer(s, out, axes[:-1])
