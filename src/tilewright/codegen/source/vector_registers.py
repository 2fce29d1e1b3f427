"""Arrays of a thread that can be variables, each of a vector: tiles of sums whose loops are unrolled."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Ramp
from tilewright.tir.stmt import Allocate, BufferStore
from tilewright.tir.visitor import collect


def register_vectors(stmt: Allocate) -> tuple[int, list[int]]:
    """The lanes of the vectors that an array consists of, and the first element of each that is read.

    No lanes where it is read or written otherwise, or by an index. Compilers keep such arrays in memory where they are
    too long to be looked through.
    """
    buffer, size = stmt.buffer, stmt.buffer.constant_size()
    if buffer.scope != "local" or not size:
        return 0, []
    accesses: list[BufferLoad | BufferStore] = [*collect(stmt.body, BufferLoad), *collect(stmt.body, BufferStore)]
    indices = {x.indices[0] if len(x.indices) == 1 else None for x in accesses if x.buffer is buffer}
    lanes = {_aligned_lanes(index) for index in indices}
    (width,) = lanes if len(lanes) == 1 else (0,)
    if not width or size % width:
        return 0, []
    read = {x.indices[0] for x in accesses if x.buffer is buffer and isinstance(x, BufferLoad)}
    bases = (index.base for index in read if isinstance(index, Ramp))
    firsts = {base.value for base in bases if isinstance(base, IntImm)}
    return (width, sorted(firsts)) if firsts else (0, [])


def _aligned_lanes(index: Expr | None) -> int:
    """The lanes of neighbours that start at a known multiple of their number; 0 for other indices."""
    if not isinstance(index, Ramp) or not isinstance(index.base, IntImm) or not op.is_const(index.stride, 1):
        return 0
    return 0 if index.base.value % index.lanes else index.lanes
