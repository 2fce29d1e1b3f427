"""Features of one statement: its loops, the memory that it touches, and the level of memory that each part comes from.

    features, names = statement_features(statement, around, machine), STATEMENT_FEATURES

These are AutoTVM's context relation features (touched memory against reuse, for each loop: "Learning to Optimize Tensor
Programs", NeurIPS 2018) and Ansor's per-store ones (OSDI 2020, appendix B), for processors with caches: counts as
logarithms, and bytes by the level of the processor's memory that they come from, so that another one's are comparable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.corners import Touched
from tilewright.autotvm.feature.nest import OPERATIONS, Node, Statement, bodies, is_spread
from tilewright.machine import Machine
from tilewright.tir.stmt import ForKind

#: Buffers that a statement has features of one by one: those that it moves the most bytes of.
SLOTS = 4

#: Points on the curve of arithmetic intensity, from all loops to none.
CURVE = 8

_LEVELS = ("l1", "l2", "l3")

_OF_SLOT = (
    "read", "written", "accessed_bytes", "unique_bytes", "unique_lines", "positions", "stride_inner", "stride_vector",
    "reuse_kind", "reuse_count", "reuse_iterations", "reuse_bytes", *(f"lines_beyond_{level}" for level in _LEVELS),
)  # fmt: skip

_OF_LOOPS = (
    "iterations", *OPERATIONS, "loops", "lanes", "unrolled", "parallel", "reduction", "inner_extent", "inner_reduces",
    "body_vectors", "body_loads", "loads_a_multiply", "prefetch", "spread", *(f"fits_{level}" for level in _LEVELS),
    *(f"lines_beyond_{level}" for level in _LEVELS),
)  # fmt: skip

#: The name of each feature.
STATEMENT_FEATURES = (
    *_OF_LOOPS, *(f"intensity_{position}" for position in range(CURVE)),
    *(f"buffer_{slot}_{name}" for slot in range(SLOTS) for name in _OF_SLOT),
)  # fmt: skip

#: Kinds of reuse: none, by a loop that stands still on the buffer, by several positions read in one iteration.
_NO_REUSE, _BY_LOOP, _AT_ONCE = 0.0, 1.0, 2.0


def statement_features(statement: Statement, around: Sequence[Node], machine: Machine) -> NDArray[np.float32]:
    """The row of one statement; `around` are the nodes of the loops that it is in, from the root on."""
    inner = bodies(list(around), statement)
    beyond = traffic(statement, inner, machine)
    row = [
        *_loops_row(statement, inner, beyond, machine),
        *_curve(statement, inner),
    ]
    order = np.argsort([-one.nbytes[0] * one.positions for one in statement.touched], kind="stable")[:SLOTS]
    for number in order:
        row += _slot_row(statement, statement.touched[number], inner, beyond[number])
    row += [0.0] * (len(_OF_SLOT) * (SLOTS - len(order)))
    return np.array(row, np.float32)


def log(value: float) -> float:
    """Counts as their models see them: log2 of one more."""
    return math.log2(1.0 + max(0.0, value))


def traffic(statement: Statement, inner: NDArray[np.float64], machine: Machine) -> NDArray[np.float64]:
    """Lines that each of the statement's buffers brings from beyond L1, L2 and L3: one row a buffer.

    The innermost loops whose one iteration leaves in a level what it has touched bring each line once; what is outside
    of them brings it again each time.
    """
    sizes = (machine.l1.size, machine.l2.size, machine.l3.size)
    outside = np.cumprod([1.0, *(float(loop.extent) for loop in statement.loops)])
    rows = np.zeros((len(statement.touched), len(sizes)))
    for level, size in enumerate(sizes):
        depth = kept_from(inner, size)
        for number, one in enumerate(statement.touched):
            rows[number, level] = one.lines[depth] * outside[depth]
    return rows


def kept_from(inner: NDArray[np.float64], size: float) -> int:
    """The depth of the outermost loop of which one iteration's bytes fit into `size`; the innermost if none does."""
    for depth in range(len(inner) - 1):
        if inner[depth + 1] <= size:
            return depth
    return len(inner) - 1


def straight_from(statement: Statement) -> int:
    """The depth from which on all loops become straight code or lanes."""
    depth = len(statement.loops)
    while depth and is_spread(statement.loops[depth - 1]):
        depth -= 1
    return depth


def _product(statement: Statement, kind: ForKind) -> float:
    return math.prod([float(loop.extent) for loop in statement.loops if loop.kind is kind])


def _loops_row(
    statement: Statement, inner: NDArray[np.float64], beyond: NDArray[np.float64], machine: Machine
) -> list[float]:
    iterations, straight = statement.iterations, straight_from(statement)
    lanes = _product(statement, ForKind.VECTORIZED)
    last = statement.loops[straight - 1] if straight else None
    vectors = float(statement.written.elements[straight]) / lanes
    body = math.prod([float(loop.extent) for loop in statement.loops[straight:]]) / lanes
    reads = [one for one in statement.touched if one.reads and not one.writes]
    loads = sum(float(one.elements[straight]) / _lanes_of(one, lanes) for one in reads)
    fits = [1.0 - kept_from(inner, size.size) / max(1, len(inner) - 1) for size in (machine.l1, machine.l2, machine.l3)]
    return [
        log(iterations),
        *(log(iterations * count) for count in statement.operations),
        float(len(statement.loops)),
        log(lanes),
        log(_product(statement, ForKind.UNROLLED)),
        log(_product(statement, ForKind.PARALLEL)),
        log(math.prod([float(loop.extent) for loop, stays in zip(statement.loops, statement.stays) if stays])),
        log(0.0 if last is None else last.extent),
        float(last is not None and statement.stays[straight - 1]),
        vectors,
        loads,
        loads / max(1.0, body * max(1.0, statement.operations[1])),
        statement.attributes.get("prefetch", 0.0),
        statement.attributes.get("prefetch_spread", 0.0),
        *fits,
        *map(log, beyond.sum(axis=0)),
    ]


def _lanes_of(one: Touched, lanes: float) -> float:
    """Elements that one load brings: lanes where the vector loop moves along memory, else one."""
    return lanes if len(one.strides) and one.strides[-1] == 1 else 1.0


def _curve(statement: Statement, inner: NDArray[np.float64]) -> list[float]:
    """Operations for a byte touched, from all loops down to the innermost, at equal distances in iterations."""
    counts = np.cumprod([1.0, *(float(loop.extent) for loop in reversed(statement.loops))])[::-1]
    intensity = np.log2(1.0 + counts * (1.0 + sum(statement.operations)) / np.maximum(inner, 1.0))
    positions = np.linspace(np.log2(counts[0]), 0.0, CURVE)
    return [float(value) for value in np.interp(positions, np.log2(counts)[::-1], intensity[::-1])]


def _slot_row(
    statement: Statement, one: Touched, inner: NDArray[np.float64], beyond: NDArray[np.float64]
) -> list[float]:
    width = one.nbytes[-1] / max(1.0, one.elements[-1])
    accessed = statement.iterations * one.positions * width
    vector = next((int(s) for s, loop in zip(one.strides, statement.loops) if loop.kind is ForKind.VECTORIZED), 0)
    moving = [int(s) for s, loop in zip(one.strides, statement.loops) if loop.extent > 1]
    kind, count, iterations, nbytes = _reuse(statement, one, inner)
    return [
        float(one.reads),
        float(one.writes),
        log(accessed),
        log(float(one.nbytes[0])),
        log(float(one.lines[0])),
        log(one.positions),
        log(moving[-1] if moving else 0),
        log(vector),
        kind,
        log(count),
        log(iterations),
        log(nbytes),
        *map(log, beyond),
    ]


def _reuse(statement: Statement, one: Touched, inner: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """The reuse of the buffer by the innermost loop that reuses it: kind, count, iterations and bytes between."""
    between = 1.0
    for depth in range(len(statement.loops) - 1, -1, -1):
        extent = statement.loops[depth].extent
        if not one.moves[depth] and extent > 1:
            return _BY_LOOP, float(extent), between, float(inner[depth + 1])
        between *= extent
    if one.positions > 1:
        return _AT_ONCE, float(one.positions), 1.0, float(inner[-1])
    return _NO_REUSE, 0.0, 0.0, 0.0
