"""Sums whose terms are divided among blocks (split-K): who adds up the parts, and what that takes.

On CUDA the last block of a tile does, in the same launch (`tir/transform/join_parts.py`); elsewhere, and where that is
quicker, a second launch.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.gpu.schedule.machine import GpuMachine
from tilewright.tir.transform.join_parts import PARTS

#: Answers of memory that the last block waits for: of its stores, of the counter, of the parts.
_ANSWERS = 3
#: Trips to global memory of a second launch: the parts are read, the sums written.
_TRIPS = 2
#: Bytes of shared memory that the count of blocks takes before arrays whose alignment is as large.
COUNT_BYTES = 1024
#: Bytes of a sum.
_SUM = 4


def add_up_last(s: te.Schedule, anchor: te.Tensor, out: te.Tensor) -> te.Tensor:
    """The parts of an element added up where `out`, an epilogue of `anchor`, computes it; its loops are bound after.

    Returns the tensor to hand to `note_parts` then.
    """
    return s.cache_write(out, "local") if anchor.op is out.op else anchor


def note_parts(s: te.Schedule, held: te.Tensor, out: te.Tensor, bound: te.IterVar, parts: int) -> None:
    """Have `join_parts` make the loops of `out`, of which `bound` is one of blocks or threads, the end of the sums."""
    s[held].compute_at(s[out], s[out].leaf_iter_vars[-1])  # an element: of fused axes more would be whole rows
    s[held].set_scope("local")
    s[out].pragma(bound, PARTS, parts)


def parts_cycles(machine: GpuMachine, parts: int, joined: bool, elements: int, tile: int) -> float:
    """Cycles of adding up `parts` of `elements` sums, which blocks have by tiles of `tile` elements."""
    if joined:
        seconds = _ANSWERS * machine.latency + _SUM * parts * tile / (machine.l2_bytes / machine.multiprocessors)
    else:
        moved = _SUM * (parts + 1) * elements
        seconds = machine.launch + _TRIPS * machine.latency + moved / machine.l2_bytes
    return seconds * machine.clock
