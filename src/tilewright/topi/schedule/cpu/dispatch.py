"""From the computation of one fused function to its CPU schedule: the anchor's tag picks the template.

A template with a search space takes a configuration of it: the given one, or the one that the space ranks first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright import te
from tilewright.errors import ScheduleError
from tilewright.target import Target
from tilewright.topi.schedule.cpu import product_spaces
from tilewright.topi.schedule.cpu import template_spaces as spaces
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
from tilewright.topi.schedule.cpu.dot_product import schedule_conv2d_dot, schedule_dense_dot
from tilewright.topi.schedule.cpu.fused_depthwise import schedule_fused_depthwise
from tilewright.topi.schedule.cpu.grouped_conv2d import grouped_conv2d_space, schedule_grouped_conv2d
from tilewright.topi.schedule.cpu.injective import schedule_injective
from tilewright.topi.schedule.cpu.pool import schedule_pool
from tilewright.topi.schedule.cpu.recurrent import schedule_recurrent
from tilewright.topi.schedule.cpu.reduce import schedule_reduce
from tilewright.topi.schedule.cpu.space import ConfigSpace
from tilewright.topi.schedule.cpu.winograd import schedule_conv2d_winograd

#: (schedule, anchor, output, target), and a `Config` where the template has a search space.
Template = Callable[..., None]
SpaceOf = Callable[[te.Tensor, te.Tensor, Target], ConfigSpace]

#: Tag of the anchor's compute -> template.
TEMPLATES: dict[str, Template] = {
    "conv2d_NCHWc": schedule_conv2d,
    "grouped_conv2d_NCHWc": schedule_grouped_conv2d,
    "depthwise_conv2d_NCHWc": schedule_depthwise_conv2d,
    "conv2d_winograd_NCHWc": schedule_conv2d_winograd,
    "conv2d_transpose_NCHWc": schedule_conv2d_transpose,
    "conv2d_nchw": schedule_conv2d_nchw,
    "conv2d_1x1_nchw": schedule_conv2d_1x1_nchw,
    "depthwise_conv2d_nchw": schedule_depthwise_conv2d_nchw,
    "conv2d_transpose_nchw": schedule_conv2d_transpose_nchw,
    "dense_pack": schedule_dense,
    "batch_matmul": schedule_batch_matmul,
    "dense_dot": schedule_dense_dot,
    "conv2d_dot_NCHWc": schedule_conv2d_dot,
    "attention": schedule_attention,
    "pool": schedule_pool,
    "recurrent": schedule_recurrent,
}


#: Tag of the anchor's compute -> the search space of its template.
SPACES: dict[str, SpaceOf] = {
    "conv2d_NCHWc": spaces.conv2d_space,
    "grouped_conv2d_NCHWc": grouped_conv2d_space,
    "depthwise_conv2d_NCHWc": spaces.depthwise_space,
    "conv2d_winograd_NCHWc": spaces.winograd_space,
    "conv2d_transpose_NCHWc": spaces.conv2d_transpose_space,
    "conv2d_nchw": spaces.conv2d_nchw_space,
    "conv2d_1x1_nchw": spaces.conv2d_1x1_nchw_space,
    "depthwise_conv2d_nchw": spaces.depthwise_nchw_space,
    "dense_pack": product_spaces.dense_space,
    "batch_matmul": product_spaces.batch_matmul_space,
    "dense_dot": product_spaces.dense_dot_space,
    "conv2d_dot_NCHWc": spaces.conv2d_dot_space,
}


def schedule(outs: list[te.Tensor], target: Target, config: Mapping[str, Any] | None = None) -> te.Schedule:
    """The schedule of the computation of `outs`, by its anchor, or as an injective or a reducing one.

    `config` gives a value for each knob of `space_of(outs, target)`. Raises ScheduleError where it is not in the space,
    or where there is none.
    """
    s = te.create_schedule([out.op for out in outs])
    stages = computes(outs)
    anchors = anchors_of(stages)
    space = space_of(outs, target)
    if space is None and config is not None:
        raise ScheduleError("a configuration is given, but the computation has no template with a search space")
    if space is not None:
        ((tag, anchor),) = anchors
        TEMPLATES[tag](s, anchor, outs[0], target, space.default if config is None else space.config(config))
    elif len(anchors) == 2:
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


def space_of(outs: list[te.Tensor], target: Target) -> ConfigSpace | None:
    """The search space of the schedule of `outs`; None where its template has none."""
    anchors = anchors_of(computes(outs))
    if len(anchors) != 1 or anchors[0][0] not in SPACES:
        return None
    ((tag, anchor),) = anchors
    return SPACES[tag](anchor, outs[0], target)


def anchors_of(stages: list[te.Tensor]) -> list[tuple[str, te.Tensor]]:
    """The stages that have a template, with their tags, in order: one, or a depthwise convolution and a 1x1."""
    tagged = [(next((tag for tag in t.op.tag.split(",") if tag in TEMPLATES), None), t) for t in stages]
    return [(tag, tensor) for tag, tensor in tagged if tag is not None]


__all__ = ["SPACES", "TEMPLATES", "anchors_of", "schedule", "space_of"]
