"""Arrays of a thread that can be variables, each of a vector: tiles of sums whose loops are unrolled."""

from __future__ import annotations

from tilewright.tir.expr import BufferLoad, IntImm, Ramp
from tilewright.tir.stmt import Allocate, BufferStore
from tilewright.tir.visitor import collect


def register_lanes(stmt: Allocate) -> int:
    """The lanes of the vectors that an array consists of; 0 where it is read or written otherwise, or by an index.

    Compilers keep such arrays in memory where they are too long to be looked through.
    """
    buffer, size = stmt.buffer, stmt.buffer.constant_size()
    if buffer.scope != "local" or not size:
        return 0
    accesses: list[BufferLoad | BufferStore] = [*collect(stmt.body, BufferLoad), *collect(stmt.body, BufferStore)]
    indices = {x.indices[0] if len(x.indices) == 1 else None for x in accesses if x.buffer is buffer}
    lanes = {index.lanes if isinstance(index, Ramp) and isinstance(index.base, IntImm) else 0 for index in indices}
    (width,) = lanes if len(lanes) == 1 else (0,)
    if not width or size % width or any(index.base.value % width for index in indices):  # type: ignore[union-attr]
        return 0
    return width if all(index.stride.value == 1 for index in indices) else 0  # type: ignore[union-attr]
