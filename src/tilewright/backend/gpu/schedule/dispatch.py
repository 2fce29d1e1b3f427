"""From the computation of one fused function to its schedule on a device of thread blocks.

An attention is one kernel; a computation with one product has the template of products, whose space is ranked by
cost; one with several reductions goes by rows or apart; one without is a pass over elements. Sorting and running sums
have kernels of their own, and recurrent layers a launch for each product of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import te
from tilewright.backend.gpu.schedule.attention import ATTENTION, fits_attention
from tilewright.backend.gpu.schedule.injective import schedule_injective
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.product import PRODUCT, fits
from tilewright.backend.gpu.schedule.recurrent import RECURRENT, fits_recurrent
from tilewright.backend.gpu.schedule.reduce import schedule_reduce
from tilewright.backend.gpu.schedule.reduction import fits_reduction, reduction_template
from tilewright.backend.gpu.schedule.register_product import REGISTER_PRODUCT, fits_register_product
from tilewright.backend.gpu.schedule.running import RUNNING, fits_running
from tilewright.backend.gpu.schedule.sort import SORT, fits_sort
from tilewright.backend.gpu.schedule.tensor_core import TENSOR_CORE, fits_tensor_core
from tilewright.backend.gpu.schedule.winograd import WINOGRAD, fits_winograd
from tilewright.errors import ScheduleError
from tilewright.target import DeviceTarget
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, is_reduction
from tilewright.topi.schedule.template import Template


def schedule(outs: list[te.Tensor], target: DeviceTarget, config: Mapping[str, Any] | None = None) -> te.Schedule:
    """The schedule of the computation of `outs`, with `config` of `space_of(outs, target)` where that is given.

    Raises `ScheduleError` for a configuration of a computation that has no choices.
    """
    s = te.create_schedule([out.op for out in outs])
    found, space = template_of(outs, target), space_of(outs, target)
    if config is not None and space is None:
        raise ScheduleError("a configuration is given, but the computation has no template with a search space")
    if found is not None and space is not None:
        template, anchor = found
        template.schedule(s, anchor, outs[0], target, space.default if config is None else space.config(config))
    elif all(isinstance(t.op, te.ComputeOp) and not is_reduction(t) for t in computes(outs)):
        schedule_injective(s, outs, target)
    else:
        schedule_reduce(s, outs, target)
    return s


def space_of(outs: list[te.Tensor], target: DeviceTarget) -> ConfigSpace | None:
    """The search space of the schedule of `outs`, ranked by cost; None where it has no choices."""
    found = template_of(outs, target)
    if found is None:
        return None
    template, anchor = found
    return template.ranked(template.workload(anchor, outs[0]), target)


def template_of(outs: list[te.Tensor], target: DeviceTarget) -> tuple[Template, te.Tensor] | None:
    """The template for the computation of `outs` and its anchor; None where it has no choices."""
    stages = computes(outs)
    layer = fits_recurrent(outs)
    if layer is not None:
        return RECURRENT, layer
    if len(outs) != 1:
        return None
    for template, find in ((SORT, fits_sort), (RUNNING, fits_running)):
        written = find(outs)
        if written is not None:
            return template, written
    if not all(isinstance(t.op, te.ComputeOp) for t in stages):
        return None
    attention = fits_attention(outs, target)
    if attention is not None:
        return ATTENTION, attention.product
    convolution = fits_winograd(outs)
    if convolution is not None:
        return WINOGRAD, convolution
    reductions = [t for t in stages if is_reduction(t)]
    if len(reductions) == 1 and fits_tensor_core(reductions[0], outs[0], target):
        return TENSOR_CORE, reductions[0]
    if len(reductions) == 1 and fits_register_product(reductions[0], outs[0], target):
        return REGISTER_PRODUCT, reductions[0]
    if len(reductions) == 1 and fits(reductions[0], outs[0], target):
        return PRODUCT, reductions[0]
    anchor = fits_reduction(outs[0], target)
    return None if anchor is None else (reduction_template(target), anchor)


def choice_of(outs: list[te.Tensor], target: DeviceTarget, config: Mapping[str, Any] | None = None) -> Choice:
    """The template and configuration for the computation of `outs`, and the time that it is expected to take."""
    found, space = template_of(outs, target), space_of(outs, target)
    if found is None or space is None:
        return Choice("reduce" if any(map(is_reduction, computes(outs))) else "injective")
    template, _ = found
    chosen = space.default if config is None else space.config(config)
    seconds = machine_of(target).seconds(space.cost(chosen).cycles)
    return Choice(template.tag, chosen.items_, round(seconds * 1e6, 2), round(seconds * 1e6, 2), "arithmetic")
