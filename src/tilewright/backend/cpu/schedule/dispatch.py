"""From the computation of one fused function to its CPU schedule: the anchor's tag picks the template.

A template with a search space takes a configuration of it: the given one, or the one that the space ranks first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import te
from tilewright.backend.cpu.schedule.injective import schedule_injective
from tilewright.backend.cpu.schedule.reduce import schedule_reduce
from tilewright.backend.cpu.schedule.registry import REGISTRY
from tilewright.errors import ScheduleError
from tilewright.target import Target
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, is_reduction
from tilewright.topi.schedule.template import Template


def schedule(outs: list[te.Tensor], target: Target, config: Mapping[str, Any] | None = None) -> te.Schedule:
    """The schedule of the computation of `outs`, by its anchor, or as an injective or a reducing one.

    `config` has a value for each knob of `space_of(outs, target)`. Raises ScheduleError where it is not in the space,
    or where there is none.
    """
    s = te.create_schedule([out.op for out in outs])
    space = space_of(outs, target)
    found = template_of(outs)
    if config is not None and (space is None or not space.knobs):
        raise ScheduleError("a configuration is given, but the computation has no template with a search space")
    if found is not None and space is not None:
        template, anchor = found
        template.schedule(s, anchor, outs[0], target, space.default if config is None else space.config(config))
    elif any(is_reduction(tensor) for tensor in computes(outs)):
        schedule_reduce(s, outs, target)
    else:
        schedule_injective(s, outs, target)
    return s


def space_of(outs: list[te.Tensor], target: Target) -> ConfigSpace | None:
    """The search space of the schedule of `outs`, ranked by cost; None where it has no template."""
    found = template_of(outs)
    if found is None:
        return None
    template, anchor = found
    return template.ranked(template.workload(anchor, outs[0]), target)


def template_of(outs: list[te.Tensor]) -> tuple[Template, te.Tensor] | None:
    """The template for the computation of `outs` and its anchor; None for an injective or a reducing computation, and
    for one of several anchors that have none together, as functions that programs call one kernel may be."""
    anchors = anchors_of(computes(outs))
    template = REGISTRY.get(",".join(tag for tag, _ in anchors))
    return None if template is None else (template, anchors[-1][1])


def anchors_of(stages: list[te.Tensor]) -> list[tuple[str, te.Tensor]]:
    """The stages that have a template, with their tags, in order: one, or a depthwise convolution and a 1x1."""
    tagged = [(next((tag for tag in t.op.tag.split(",") if tag in REGISTRY), None), t) for t in stages]
    return [(tag, tensor) for tag, tensor in tagged if tag is not None]


__all__ = ["anchors_of", "schedule", "space_of", "template_of"]
