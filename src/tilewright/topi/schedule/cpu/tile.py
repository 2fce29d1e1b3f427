"""Register tiles: how many output rows and vectors one innermost step of a convolution or matrix product keeps.

A step loads `vectors` vectors of weights, broadcasts `rows` activations and does `rows * vectors` fused
multiply-adds into as many accumulators. The tile must fit the register file, hide the latency of the multiply-add and
keep the load ports below the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.target import Target
from tilewright.topi.schedule.cpu.common import power_of_two_lanes

#: How sharply the longer of arithmetic and loads hides the shorter: the order of the mean of both.
_BALANCE = 4


@dataclass(frozen=True)
class RegisterTile:
    """`rows` positions times `blocks` channel blocks (or panels) per innermost step."""

    rows: int
    blocks: int


@dataclass(frozen=True)
class ImageTile:
    """`rows` by `columns` positions of an image times `blocks` channel blocks per innermost step."""

    rows: int
    columns: int
    blocks: int


def divisors(value: int, limit: int) -> list[int]:
    """Divisors of `value` up to `limit`, ascending."""
    return [d for d in range(1, min(value, limit) + 1) if value % d == 0]


def registers_of(rows: int, vectors: int) -> int:
    """Registers of a step: its accumulators, the vectors, and the value that is broadcast.

    That of a single vector is spread while it is multiplied and takes none, so one is left to spare.
    """
    return rows * vectors + vectors + 1


def fits(rows: int, vectors: int, target: Target) -> bool:
    """True if a step of `rows` by `vectors` vectors fits the registers."""
    return registers_of(rows, vectors) < target.vector_registers


def step_cycles(rows: int, vectors: int, target: Target) -> float:
    """Cycles of one innermost step with operands in the first-level cache: multiply-adds or loads, whichever are more.

    Near balance each kind waits for the other now and then: with two multiply-adds and two loads a cycle tiles of
    28 by 1 reach 80 % of the peak and those of 14 by 2 97 %.
    """
    machine = target.machine
    arithmetic = max(rows * vectors / machine.fma_per_cycle, machine.fma_latency)
    loads = vectors / machine.vector_loads + rows / machine.broadcast_loads
    return (arithmetic**_BALANCE + loads**_BALANCE) ** (1 / _BALANCE)


def efficiency(rows: int, vectors: int, extent: int, target: Target) -> float:
    """Estimated share of the multiply-add peak of a tile of `rows` by `vectors` vectors over `extent` rows (0 to 1)."""
    if not fits(rows, vectors, target):
        return 0.0
    accumulators = rows * vectors
    busy = accumulators / target.machine.fma_per_cycle / step_cycles(rows, vectors, target)
    whole = extent / (-(-extent // rows) * rows)
    tail_cost = 0.97 if extent % rows else 1.0
    overhead = accumulators / (accumulators + 0.5)
    # Weights stream from the second-level cache and are used once per row of the tile.
    streaming = 1 - 0.6 / rows if extent >= rows > 1 else 0.4
    return busy * whole * tail_cost * overhead * (streaming if extent > 1 else 1.0)


def choose(extent: int, blocks: int, block: int, target: Target, row_limit: int = 28) -> RegisterTile:
    """The best tile for `extent` rows and `blocks` channel blocks of `block` floats each."""
    vectors_per_block = block // power_of_two_lanes(block, target)
    candidates: Iterable[tuple[float, int, int]] = (
        (efficiency(rows, count * vectors_per_block, extent, target), rows, count)
        for count in divisors(blocks, 4)
        for rows in range(1, min(extent, row_limit) + 1)
    )
    best = max(candidates, key=lambda c: (round(c[0], 4), c[1]))
    return RegisterTile(best[1], best[2])


def choose_image(height: int, width: int, blocks: int, block: int, target: Target) -> ImageTile:
    """The best tile of an image: columns of one row, or several whole rows where rows are short.

    Short rows alone would use every weight vector for a few positions only, and stream the weights once per row.
    """
    vectors_per_block = block // power_of_two_lanes(block, target)
    one_row = choose(width, blocks, block, target)
    candidates = [
        (efficiency(one_row.rows, one_row.blocks * vectors_per_block, width, target), one_row.rows, 1, one_row.blocks)
    ]
    for rows in divisors(height, 8)[1:]:
        for count in divisors(blocks, 4):
            positions = rows * width
            candidates.append((efficiency(positions, count * vectors_per_block, positions, target), width, rows, count))
    _, columns, rows, count = max(candidates, key=lambda c: round(c[0], 4))
    return ImageTile(rows, columns, count)


def choose_plain(filters: int, pixels: int, lanes: int, target: Target) -> RegisterTile:
    """The best tile of `rows` of `filters` filters by `blocks` vectors of `lanes` pixels, for plain images."""

    def worth(rows: int, vectors: int) -> float:
        whole = pixels / (-(-pixels // (lanes * vectors)) * lanes * vectors)
        return efficiency(rows, vectors, rows, target) * whole

    tiles = [(rows, vectors) for rows in divisors(filters, 16) for vectors in range(1, 9)]
    best = max(tiles, key=lambda t: (round(worth(*t), 4), -t[1]))
    return RegisterTile(*best)


def dot_fits(rows: int, vectors: int, target: Target) -> bool:
    """True if a tile of `rows` by `vectors` sums of dot products of bytes fits the registers.

    Without an instruction for them, even and odd bytes of both operands are held apart, and their products apart.
    """
    if target.supports("avx512vnni") or target.supports("avxvnni") or target.supports("dotprod"):
        return True
    return rows * vectors + 2 * vectors + 3 <= max(target.vector_registers, 3 * vectors + 3)
