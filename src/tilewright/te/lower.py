"""Lowering: from a schedule to the loop IR that code generators take, as one straight list of named stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.device_target import DeviceTarget
from tilewright.machine import machine_of
from tilewright.support.recursion import allow_deep_recursion
from tilewright.support.trace import span, tally
from tilewright.target import Target
from tilewright.te.accelerator import Accelerator
from tilewright.te.schedule import Schedule
from tilewright.te.schedule_to_tir import schedule_to_tir
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_threads import bind_threads, has_threads
from tilewright.tir.transform.check_bounds import check_bounds as insert_bound_checks
from tilewright.tir.transform.double_buffer import double_buffer
from tilewright.tir.transform.flatten_buffers import flatten_buffers
from tilewright.tir.transform.hoist_if import hoist_if
from tilewright.tir.transform.inject_prefetch import inject_prefetch
from tilewright.tir.transform.inject_virtual_thread import inject_virtual_thread
from tilewright.tir.transform.loop_partition import loop_partition
from tilewright.tir.transform.lower_intrinsics import lower_intrinsics
from tilewright.tir.transform.lower_packed_call import lower_packed_call
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.tir.transform.lower_thread_reduction import lower_thread_reduction
from tilewright.tir.transform.lower_warp_memory import lower_warp_memory
from tilewright.tir.transform.plan_allocations import plan_allocations
from tilewright.tir.transform.remove_no_op import remove_no_op
from tilewright.tir.transform.rolling_buffer import rolling_buffer
from tilewright.tir.transform.shift_last_tile import shift_last_tile
from tilewright.tir.transform.shrink_loops import shrink_loops
from tilewright.tir.transform.simplify import simplify
from tilewright.tir.transform.storage_rewrite import storage_rewrite
from tilewright.tir.transform.thread_sync import thread_sync
from tilewright.tir.transform.transpose_registers import transpose_registers
from tilewright.tir.transform.unroll_loop import unroll_loop
from tilewright.tir.transform.vectorize_loop import vectorize_loop
from tilewright.tir.transform.vectorize_reduction import vectorize_reduction

PASSES: tuple[Callable[[PrimFunc], PrimFunc], ...] = (
    rolling_buffer,
    double_buffer,  # while the part of a buffer is still one statement
    inject_prefetch,
    simplify,
    shrink_loops,  # for symbolic extents, which `loop_partition` cannot cut
    shift_last_tile,
    loop_partition,  # cuts off the tails of loops, so that the main part has no guards
    flatten_buffers,  # early: on rolled loops it is cheap, and flat indices vectorize in any dimension
    storage_rewrite,  # before barriers are placed
    hoist_if,
    vectorize_reduction,  # sums over lanes kept apart until the end
    vectorize_loop,  # while the vectorized loop is still one loop
    transpose_registers,  # loops of gathered vectors, now that these are formed
    lower_parallel,  # one function that all workers run
    plan_allocations,  # knows now which memory is a worker's own
    lower_packed_call,
    lower_intrinsics,
    unroll_loop,  # late, so that the passes before it walk less; copies whole vector statements
    remove_no_op,
)

#: The passes for a function with hardware threads. Its kernels are separated by `split_host_device`, when it is built.
THREAD_PASSES: tuple[Callable[[PrimFunc], PrimFunc], ...] = (
    rolling_buffer,
    simplify,
    inject_virtual_thread,  # while a buffer that each virtual thread needs is one dimension short
    bind_threads,
    lower_thread_reduction,
    double_buffer,
    loop_partition,
    flatten_buffers,
    storage_rewrite,  # before barriers are placed
    lower_warp_memory,  # on flat indices, which tell whose an element is
    hoist_if,
    vectorize_loop,
    thread_sync,  # on flat indices, which tell whether two accesses are the same element
    unroll_loop,
    simplify,
    remove_no_op,
)


#: Kinds of device whose languages have warp shuffles.
SHUFFLING_KINDS = ("cuda", "metal")


def _for_target(func: PrimFunc, target: Target | Accelerator | str | None) -> PrimFunc:
    made = Target(target) if isinstance(target, str) else target
    if not isinstance(made, DeviceTarget) or made.kind not in SHUFFLING_KINDS or made.thread_warp_size <= 1:
        return func
    return func.with_body(func.body, thread_warp_size=made.thread_warp_size)


def lower_stages(
    schedule: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    check_bounds: bool = False,
    target: Target | Accelerator | str | None = None,
) -> Iterator[tuple[str, PrimFunc]]:
    """The function after each stage of lowering, with the stage's name, in order; arguments as for `lower`."""
    allow_deep_recursion()
    with span("schedule_to_tir"):
        func = schedule_to_tir(schedule, args, name, binds)
    func = _for_target(func, target)
    yield "schedule_to_tir", func
    machine = machine_of("") if target is None or isinstance(target, Accelerator) else Target(target).machine
    passes = THREAD_PASSES if has_threads(func) else PASSES
    if isinstance(target, Accelerator):
        passes = target.passes()
    for transform in (insert_bound_checks, *passes) if check_bounds else passes:
        with span(transform.__name__):
            func = inject_prefetch(func, machine) if transform is inject_prefetch else transform(func)
        yield transform.__name__, func


def lower(
    schedule: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    check_bounds: bool = False,
    target: Target | Accelerator | str | None = None,
) -> PrimFunc:
    """The function `name` that runs `schedule` on `args` (tensors, buffers, scalar variables, in call order).

    With `check_bounds`, for debugging, all loops are serial and an access outside of its buffer makes the call raise
    `InputError`. With a `target` whose threads shuffle (CUDA), reductions over threads of one warp do without shared
    memory; the function is for targets of that kind only. With an `Accelerator` as target the result are its units'
    instructions, with the tokens that order them. See `schedule_to_tir` for the arguments and errors.
    """
    with tally():
        *_, (_, func) = lower_stages(schedule, args, name, binds, check_bounds, target)
    return func
