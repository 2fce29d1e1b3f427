"""Lowering: from a schedule to the loop IR that code generators take, as one straight list of named stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.support.recursion import allow_deep_recursion
from tilewright.support.trace import span
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_to_tir import schedule_to_tir
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.flatten_buffers import flatten_buffers
from tilewright.tir.transform.hoist_if import hoist_if
from tilewright.tir.transform.loop_partition import loop_partition
from tilewright.tir.transform.lower_intrinsics import lower_intrinsics
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.tir.transform.plan_allocations import plan_allocations
from tilewright.tir.transform.remove_no_op import remove_no_op
from tilewright.tir.transform.simplify import simplify
from tilewright.tir.transform.transpose_registers import transpose_registers
from tilewright.tir.transform.unroll_loop import unroll_loop
from tilewright.tir.transform.vectorize_loop import vectorize_loop
from tilewright.tir.transform.vectorize_reduction import vectorize_reduction

PASSES: tuple[Callable[[PrimFunc], PrimFunc], ...] = (
    simplify,
    loop_partition,  # cuts off the tails of loops, so that the main part has no guards
    flatten_buffers,  # early: on rolled loops it is cheap, and flat indices vectorize in any dimension
    hoist_if,
    vectorize_reduction,  # sums over lanes kept apart until the end
    vectorize_loop,  # while the vectorized loop is still one loop
    transpose_registers,  # loops of gathered vectors, now that these are formed
    lower_parallel,  # one function that all workers run
    plan_allocations,  # knows now which memory is a worker's own
    lower_intrinsics,
    unroll_loop,  # late, so that the passes before it walk less; copies whole vector statements
    remove_no_op,
)


def lower_stages(
    schedule: Schedule, args: Sequence[Any], name: str = "main", binds: Mapping[Tensor, Buffer] | None = None
) -> Iterator[tuple[str, PrimFunc]]:
    """The function after each stage of lowering, with the stage's name, in order."""
    allow_deep_recursion()
    with span("schedule_to_tir"):
        func = schedule_to_tir(schedule, args, name, binds)
    yield "schedule_to_tir", func
    for transform in PASSES:
        with span(transform.__name__):
            func = transform(func)
        yield transform.__name__, func


def lower(
    schedule: Schedule, args: Sequence[Any], name: str = "main", binds: Mapping[Tensor, Buffer] | None = None
) -> PrimFunc:
    """The function `name` that runs `schedule` on `args` (tensors, buffers, scalar variables, in call order).

    See `schedule_to_tir` for the arguments and errors.
    """
    *_, (_, func) = lower_stages(schedule, args, name, binds)
    return func
