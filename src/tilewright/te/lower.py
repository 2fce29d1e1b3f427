"""Lowering: from a schedule to the loop IR that code generators take, by the stages of `tir/transform/pipeline.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.support.trace import span, tally
from tilewright.target import Target
from tilewright.te.accelerator import Accelerator
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_to_tir import schedule_to_tir
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_threads import has_threads
from tilewright.tir.transform.pipeline import ACCELERATOR, CHECKS, DEVICE, HOST, AfterStage, Pipeline, run


def lower_stages(
    schedule: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    check_bounds: bool = False,
    target: Target | str | None = None,
    after: AfterStage | None = None,
    keep_outputs: bool = False,
    pipeline: Pipeline | None = None,
) -> Iterator[tuple[str, PrimFunc]]:
    """The function after each stage of lowering, with the stage's name, in order; arguments as for `lower`.

    `pipeline` has the stages, where they are not those of the target's kind.
    """
    made = Target(target) if isinstance(target, str) else target
    with span("schedule_to_tir"):
        func = schedule_to_tir(schedule, args, name, binds, keep_outputs)
    if after is not None:
        func = after("schedule_to_tir", func)
    yield "schedule_to_tir", func
    if pipeline is None:
        pipeline = ACCELERATOR if isinstance(made, Accelerator) else DEVICE if has_threads(func) else HOST
    yield from run((*CHECKS, *pipeline.lower) if check_bounds else pipeline.lower, func, made, after)


def lower(
    schedule: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    check_bounds: bool = False,
    target: Target | str | None = None,
    after: AfterStage | None = None,
    keep_outputs: bool = False,
) -> PrimFunc:
    """The function `name` that runs `schedule` on `args` (tensors, buffers, scalar variables, in call order).

    With `check_bounds`, for debugging, all loops are serial and an access outside of its buffer makes the call raise
    `InputError`. With a `target` whose threads shuffle (CUDA), reductions over threads of one warp do without shared
    memory; the function is for targets of that kind only. With an `Accelerator` as target the result are its units'
    instructions, with the tokens that order them. `after(stage, func)` returns the function to go on with after each
    stage, changed by passes of the caller's own. See `schedule_to_tir` for the other arguments and errors.
    """
    with tally():
        *_, (_, func) = lower_stages(schedule, args, name, binds, check_bounds, target, after, keep_outputs)
    return func
