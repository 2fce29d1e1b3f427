"""The pipelines of loop passes: one list of named stages for each kind of target, and none anywhere else.

A stage maps a function to a function, with what the code is for in hand: a target, for an accelerator its declaration,
for the kernels of a device the language that they are written in. `lower` is what `te.lower` runs on the loops of a
schedule; `code` is what a code generator then runs itself, in terms of what its language has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.machine import Machine
from tilewright.support.trace import span
from tilewright.target import Target
from tilewright.tir.float_vectors import has_masked_vector
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_shares import bind_shares
from tilewright.tir.transform.bind_threads import bind_threads
from tilewright.tir.transform.block_sums import PRODUCT_OF_DEVICE, block_sums
from tilewright.tir.transform.check_bounds import check_bounds
from tilewright.tir.transform.coproc_sync import coproc_sync
from tilewright.tir.transform.divide_by_constants import divide_by_constants
from tilewright.tir.transform.double_buffer import double_buffer
from tilewright.tir.transform.flatten_buffers import flatten_buffers
from tilewright.tir.transform.hoist_if import hoist_if
from tilewright.tir.transform.hoist_positions import hoist_positions
from tilewright.tir.transform.hoist_values import hoist_values
from tilewright.tir.transform.inject_copy_intrin import inject_copy_intrin
from tilewright.tir.transform.inject_prefetch import inject_prefetch
from tilewright.tir.transform.inject_virtual_thread import inject_virtual_thread
from tilewright.tir.transform.join_parts import join_parts
from tilewright.tir.transform.legalize_float16 import legalize_float16
from tilewright.tir.transform.loop_partition import loop_partition
from tilewright.tir.transform.lower_coproc_calls import lower_coproc_calls
from tilewright.tir.transform.lower_intrinsics import lower_intrinsics
from tilewright.tir.transform.lower_packed_call import lower_packed_call
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.tir.transform.lower_tensor_core import lower_tensor_core
from tilewright.tir.transform.lower_thread_reduction import lower_thread_reduction
from tilewright.tir.transform.lower_warp_memory import lower_warp_memory
from tilewright.tir.transform.note_warp_size import note_warp_size
from tilewright.tir.transform.own_passes import own_passes
from tilewright.tir.transform.plan_allocations import plan_allocations
from tilewright.tir.transform.remove_no_op import remove_no_op
from tilewright.tir.transform.rolling_buffer import rolling_buffer
from tilewright.tir.transform.round_by_bits import round_by_bits
from tilewright.tir.transform.scalarize_vectors import scalarize_vectors
from tilewright.tir.transform.shift_last_tile import shift_last_tile
from tilewright.tir.transform.shrink_loops import shrink_loops
from tilewright.tir.transform.simplify import simplify
from tilewright.tir.transform.storage_rewrite import storage_rewrite
from tilewright.tir.transform.thread_sync import thread_sync
from tilewright.tir.transform.transpose_registers import transpose_registers
from tilewright.tir.transform.unroll_loop import unroll_loop
from tilewright.tir.transform.vectorize_loop import vectorize_loop
from tilewright.tir.transform.vectorize_reduction import vectorize_reduction
from tilewright.tir.transform.verify_gpu_code import verify_gpu_code
from tilewright.tir.transform.widen_accesses import widen_accesses

#: What a program adds to a pipeline: the function as it shall be after the stage of this name.
AfterStage = Callable[[str, PrimFunc], PrimFunc]


@dataclass(frozen=True)
class Stage:
    """One step of a pipeline: its name, as `inspect --stage` takes it, and the function, given what the code is for."""

    name: str
    run: Callable[[PrimFunc, Any], PrimFunc]


@dataclass(frozen=True)
class Pipeline:
    """The stages of one kind of target: those of `te.lower`, and those that its code generator runs."""

    lower: tuple[Stage, ...]
    code: tuple[Stage, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of all stages, in order."""
        return [stage.name for stage in (*self.lower, *self.code)]


def stages(*passes: Callable[[PrimFunc], PrimFunc] | Stage) -> tuple[Stage, ...]:
    """Passes as stages; one that needs to know what the code is for comes as a `Stage`."""
    return tuple(one if isinstance(one, Stage) else _without_target(one) for one in passes)


def _without_target(one: Callable[[PrimFunc], PrimFunc]) -> Stage:
    return Stage(one.__name__, lambda func, _: one(func))


def run(
    passes: Sequence[Stage], func: PrimFunc, target: Any, after: AfterStage | None = None
) -> Iterator[tuple[str, PrimFunc]]:
    """The function after each stage, with the stage's name; `after`, where given, may change it behind each stage."""
    for stage in passes:
        with span(stage.name):
            func = stage.run(func, target)
        if after is not None:
            func = after(stage.name, func)
        yield stage.name, func


def result(passes: Sequence[Stage], func: PrimFunc, target: Any) -> PrimFunc:
    """`func` after all the stages."""
    for _, made in run(passes, func, target):
        func = made
    return func


#: For debugging, before all others.
CHECKS = stages(check_bounds)

#: Processors, by LLVM.
HOST = Pipeline(
    stages(
        rolling_buffer,
        double_buffer,  # while the part of a buffer is still one statement
        simplify,
        shrink_loops,  # for symbolic extents, which `loop_partition` cannot cut
        shift_last_tile,
        Stage("inject_prefetch", lambda func, target: inject_prefetch(func, *_lines(target))),  # of whole tiles
        loop_partition,  # cuts off the tails of loops, so that the main part has no guards
        flatten_buffers,  # early: on rolled loops it is cheap, and flat indices vectorize in any dimension
        storage_rewrite,  # before barriers are placed
        hoist_if,
        vectorize_reduction,  # sums over lanes kept apart until the end
        block_sums,  # of each lane for itself
        vectorize_loop,  # while the vectorized loop is still one loop
        transpose_registers,  # loops of gathered vectors, now that these are formed
        lower_parallel,  # one function that all workers run
        plan_allocations,  # knows now which memory is a worker's own
        lower_packed_call,
        Stage("divide_by_constants", lambda func, target: divide_by_constants(func) if _fuses(target) else func),
        lower_intrinsics,
        unroll_loop,  # late, so that the passes before it walk less; copies whole vector statements
        remove_no_op,
    )
)

#: Without a copy of each tile for each rim of an image: C compilers take a second or two for a thousand statements.
_TESTED_TAPS = Stage("loop_partition", lambda func, _: loop_partition(func, tests_taps=True))

#: Processors, by way of C, which has no 16-bit arithmetic, and whose compilers hoist no division. Of vectors arithmetic
#: of floats stays: GCC takes minutes for loops over lanes, which it unrolls and puts together again.
C = Pipeline(
    tuple(_TESTED_TAPS if stage.name == _TESTED_TAPS.name else stage for stage in HOST.lower),
    stages(
        legalize_float16,
        Stage(
            "scalarize_vectors",
            lambda func, target: scalarize_vectors(func, None if _is_board(target) else has_masked_vector),
        ),
        hoist_values,
    ),
)

#: Devices: functions with hardware threads. What checks a function before `split_host_device` takes its kernels out.
DEVICE = Pipeline(
    stages(
        Stage("note_warp_size", note_warp_size),
        rolling_buffer,
        simplify,
        inject_virtual_thread,  # while a buffer that each virtual thread needs is one dimension short
        lower_tensor_core,  # while its loops are those of the schedule
        bind_threads,
        lower_thread_reduction,
        double_buffer,
        loop_partition,
        flatten_buffers,
        storage_rewrite,  # before barriers are placed
        lower_warp_memory,  # on flat indices, which tell whose an element is
        hoist_if,
        Stage("block_sums", lambda func, _: block_sums(func, PRODUCT_OF_DEVICE)),
        vectorize_loop,
        thread_sync,  # on flat indices, which tell whether two accesses are the same element
        unroll_loop,
        simplify,
        remove_no_op,
        join_parts,  # kernels as they will be launched
    ),
    (Stage("verify_gpu_code", verify_gpu_code),),
)

#: Devices that are processors: the loops of a processor's schedule, whose parallel ones become blocks of one thread.
PROCESSOR_DEVICE = Pipeline(
    stages(
        rolling_buffer,
        double_buffer,
        simplify,
        shrink_loops,
        shift_last_tile,
        Stage("inject_prefetch", lambda func, target: inject_prefetch(func, *_lines(target))),
        loop_partition,
        flatten_buffers,
        storage_rewrite,
        hoist_if,
        vectorize_reduction,
        block_sums,
        vectorize_loop,
        bind_shares,  # where processors have `lower_parallel`
        unroll_loop,
        remove_no_op,
    ),
    DEVICE.code,
)

#: Each kernel of a device, given its language.
KERNEL = stages(
    Stage("hoist_positions", lambda func, language: hoist_positions(func) if language.hoists else func),
    Stage("widen_accesses", lambda func, language: widen_accesses(func, language.widest_access)),
    Stage("scalarize_vectors", lambda func, language: scalarize_vectors(func, language.has_vector)),
    legalize_float16,
    Stage("lower_intrinsics", lambda func, language: lower_intrinsics(func, language.native)),
    Stage("round_by_bits", lambda func, language: round_by_bits(func) if language.reorders_sums else func),
)

#: Accelerators, given their declaration (`te.Accelerator`).
ACCELERATOR = Pipeline(
    stages(
        Stage("own_passes", lambda func, machine: own_passes(func, machine.passes)),
        rolling_buffer,
        inject_virtual_thread,
        unroll_loop,
        Stage(
            "inject_copy_intrin",
            lambda func, machine: inject_copy_intrin(func, machine.copy_pragma, machine.copy, machine.copy_casts),
        ),
        Stage("coproc_sync", lambda func, machine: coproc_sync(func, machine.links)),
    ),
    stages(
        Stage("lower_coproc_calls", lambda func, machine: lower_coproc_calls(func, machine.functions)),
        flatten_buffers,
        simplify,
        lower_intrinsics,
    ),
)


def pipeline_of(target: Target) -> Pipeline:
    """The pipeline of a processor or a device."""
    return DEVICE if target.has_thread_blocks else C if target.kind == "c" else HOST


def _is_board(target: Target | None) -> bool:
    """True for a processor without vectors of floats that a compiler knows."""
    return target is not None and target.backend == "board"


def _fuses(target: Target | None) -> bool:
    """True for a processor that fuses multiply-adds, as far as its code generator can say so."""
    return target is not None and target.kind == "llvm" and target.has_fma


def _lines(target: Target | None) -> tuple[int, int]:
    """Bytes of the target's cache line, and how many of them a core waits for at a time."""
    machine = Machine if target is None or target.has_thread_blocks else target.machine
    return machine.line, int(machine.lines_in_flight)
