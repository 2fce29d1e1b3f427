"""Reductions, and operators on rows such as softmax, as a template: how many threads share the terms of an element.

The choice without tuning is the rule of `reduce`; the others are expected to take longer the farther they are from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.reduce import schedule_reduce, threads_of
from tilewright.target import DeviceTarget
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, is_reduction, shape_of, terms_of
from tilewright.topi.schedule.template import Template

#: What a step away from the rule's number of threads, twice as many or half, adds to the expected time.
_STEP = 0.25


@dataclass(frozen=True)
class ReductionWorkload:
    """`count` elements, whose reductions have so many `terms`, of elements of `itemsize` bytes.

    `threads` is the rule's number for each element, or each of the `rows`; `shared` that several may share the terms.
    """

    count: int
    terms: int
    itemsize: int
    threads: int
    rows: bool
    shared: bool


def fits_reduction(out: te.Tensor, target: DeviceTarget) -> te.Tensor | None:
    """The last reduction that `out` reads, where one launch computes them all; else None."""
    reductions = [t for t in computes([out]) if is_reduction(t)]
    return reductions[-1] if reductions and threads_of(out, reductions, target) is not None else None


def space(facts: ReductionWorkload, target: DeviceTarget) -> ConfigSpace:
    """Numbers of threads: one, where each element is computed alone, a warp, and multiples up to a block."""
    machine = machine_of(target)
    warp = machine.warp
    most = min(machine.together, target.max_threads_per_block, max(warp, 1 << max(facts.terms - 1, 0).bit_length()))
    several = (
        [warp << step for step in range(machine.together.bit_length()) if warp << step <= most] if facts.shared else []
    )
    numbers = {facts.threads, *several, *([] if facts.rows else [1])}
    found = ConfigSpace()
    found.define_knob("threads", sorted(numbers))
    return found


def cost(facts: ReductionWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles: the terms from memory by the rule, more for other numbers of threads."""
    machine = machine_of(target)
    seconds = facts.count * max(facts.terms, 1) * facts.itemsize / machine.dram_bytes + machine.latency
    steps = abs(math.log2(config["threads"] / facts.threads))
    return Cost(arithmetic=seconds * machine.clock * (1 + _STEP * steps), fixed=machine.launch * machine.clock)


def workload(anchor: te.Tensor, out: te.Tensor, target: DeviceTarget) -> ReductionWorkload:
    """The facts that the number of threads depends on."""
    reductions = [t for t in computes([out]) if is_reduction(t)]
    chosen = threads_of(out, reductions, target)
    assert chosen is not None
    count = math.prod(shape_of(anchor))
    return ReductionWorkload(count, max(terms_of(t) for t in reductions), anchor.dtype.itemsize, *chosen)


def schedule(s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config) -> None:
    """Apply a configuration of `space`."""
    schedule_reduce(s, [out], target, config["threads"])


def reduction_template(target: DeviceTarget) -> Template:
    """The template: the facts of a workload are those of a target, as the rule's choice is one of them."""
    return _templates.setdefault(
        target,
        Template("reduce", lambda anchor, out: workload(anchor, out, target), space, cost, schedule),  # type: ignore[arg-type]
    )


_templates: dict[DeviceTarget, Template] = {}
