"""Fused functions lowered for a target, and what was chosen for them, as the tuner and `inspect` look at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright import te
from tilewright.backend import backend_of
from tilewright.backend.lower import config_of, index_type_of, lower_task, to_compute
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.symbolic import size_vars
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.pipeline import pipeline_of, run
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.space import ConfigSpace


def lower_function(function: Function, name: str, target: Target, config: Mapping[str, Any] | None = None) -> PrimFunc:
    """`lower_task` for a target."""
    return lower_task(function, name, backend_of(target), config)


def loops_of(function: Function, target: Target, config: Mapping[str, Any] | None) -> PrimFunc:
    """The loops of a configuration as its schedule has them, before anything is made of them; None is the default."""
    with te.index_type(index_type_of(function)):
        fused, backend = to_compute(function), backend_of(target)
        args = [*fused.inputs, *fused.outputs, *size_vars(function)]
        stages = backend.lower_stages(backend.schedule(fused.outputs, config), args, "kernel")
        _, func = next(stages)
    return func


def search_space(function: Function, target: Target) -> ConfigSpace | None:
    """The configurations that the schedule of a fused function can take; None where its template has no choices."""
    with te.index_type(index_type_of(function)):
        return backend_of(target).search_space(to_compute(function).outputs)


def schedule_choice(function: Function, target: Target) -> Choice:
    """The choice of a fused function's schedule, without lowering it."""
    with te.index_type(index_type_of(function)):
        outs, backend = to_compute(function).outputs, backend_of(target)
        return backend.choice(outs, config_of(function, outs, backend))


def kernel_picture(function: Function, name: str, target: Target) -> str:
    """The schedule of a fused function as a picture (`te.schedule_picture`), the text of an SVG file."""
    with te.index_type(index_type_of(function)):
        fused = to_compute(function)
        args = [*fused.inputs, *fused.outputs, *size_vars(function)]
        backend = backend_of(target)
        schedule = backend.schedule(fused.outputs, config_of(function, fused.outputs, backend))
        return te.schedule_picture(schedule, args, name)


def lowering_stages(function: Function, name: str, target: Target) -> Iterator[tuple[str, PrimFunc]]:
    """The same and the code generator's own stages, one (stage name, function) at a time, for inspection."""
    with te.index_type(index_type_of(function)):
        fused, backend = to_compute(function), backend_of(target)
        args = [*fused.inputs, *fused.outputs, *size_vars(function)]
        schedule = backend.schedule(fused.outputs, config_of(function, fused.outputs, backend))
        stages = list(backend.lower_stages(schedule, args, name))
    yield from stages
    func = stages[-1][1]
    yield from run(pipeline_of(target).code, func, target)
