"""From the computation of one fused function to its CPU schedule: the anchor's tag picks the template."""

from __future__ import annotations

from collections.abc import Callable

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu.attention import schedule_attention
from tilewright.topi.schedule.cpu.common import computes, is_reduction
from tilewright.topi.schedule.cpu.conv2d import schedule_conv2d, schedule_conv2d_transpose
from tilewright.topi.schedule.cpu.conv2d_nchw import (
    schedule_conv2d_1x1_nchw,
    schedule_conv2d_nchw,
    schedule_conv2d_transpose_nchw,
)
from tilewright.topi.schedule.cpu.dense import schedule_batch_matmul, schedule_dense
from tilewright.topi.schedule.cpu.depthwise_conv2d import schedule_depthwise_conv2d
from tilewright.topi.schedule.cpu.depthwise_conv2d_nchw import schedule_depthwise_conv2d_nchw
from tilewright.topi.schedule.cpu.fused_depthwise import schedule_fused_depthwise
from tilewright.topi.schedule.cpu.injective import schedule_injective
from tilewright.topi.schedule.cpu.pool import schedule_pool
from tilewright.topi.schedule.cpu.recurrent import schedule_recurrent
from tilewright.topi.schedule.cpu.reduce import schedule_reduce
from tilewright.topi.schedule.cpu.winograd import schedule_conv2d_winograd

Template = Callable[[te.Schedule, te.Tensor, te.Tensor, Target], None]

#: Tag of the anchor's compute -> template.
TEMPLATES: dict[str, Template] = {
    "conv2d_NCHWc": schedule_conv2d,
    "depthwise_conv2d_NCHWc": schedule_depthwise_conv2d,
    "conv2d_winograd_NCHWc": schedule_conv2d_winograd,
    "conv2d_transpose_NCHWc": schedule_conv2d_transpose,
    "conv2d_nchw": schedule_conv2d_nchw,
    "conv2d_1x1_nchw": schedule_conv2d_1x1_nchw,
    "depthwise_conv2d_nchw": schedule_depthwise_conv2d_nchw,
    "conv2d_transpose_nchw": schedule_conv2d_transpose_nchw,
    "dense_pack": schedule_dense,
    "batch_matmul": schedule_batch_matmul,
    "attention": schedule_attention,
    "pool": schedule_pool,
    "recurrent": schedule_recurrent,
}


def schedule(outs: list[te.Tensor], target: Target) -> te.Schedule:
    """The schedule of the computation of `outs`, by its anchor, or as an injective or a reducing one."""
    s = te.create_schedule([out.op for out in outs])
    stages = computes(outs)
    anchors = anchors_of(stages)
    if len(anchors) == 2:
        (_, depthwise), (_, pointwise) = anchors
        schedule_fused_depthwise(s, depthwise, pointwise, outs[0], target)
    elif anchors:
        ((tag, anchor),) = anchors
        TEMPLATES[tag](s, anchor, outs[0], target)
    elif any(is_reduction(tensor) for tensor in stages):
        schedule_reduce(s, outs, target)
    else:
        schedule_injective(s, outs, target)
    return s


def anchors_of(stages: list[te.Tensor]) -> list[tuple[str, te.Tensor]]:
    """The stages that have a template, with their tags, in order: one, or a depthwise convolution and a 1x1."""
    tagged = [(next((tag for tag in t.op.tag.split(",") if tag in TEMPLATES), None), t) for t in stages]
    return [(tag, tensor) for tag, tensor in tagged if tag is not None]


__all__ = ["TEMPLATES", "anchors_of", "schedule"]
