"""Tiles of a Winograd convolution: the register tile of its matrix products and the group of tiles a worker takes.

The unit is one tile of outputs; the image is a grid of them. A register tile is some rows and columns of the
grid by some blocks of output channels; a group is a rectangle of register tiles, whose products stay in the level-2
cache until they are transformed back.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import power_of_two_lanes

#: Share of its time that a product of one row spends waiting for weights; it falls with the rows of a group.
_WAIT_FOR_WEIGHTS = 0.3

#: Groups of more tiles than this gain nothing.
_TILES_PER_GROUP = 56


@dataclass(frozen=True)
class WinogradGrid:
    """The workload in units of the grid: `batch` images of `rows` by `columns` tiles of `points` products each."""

    batch: int
    rows: int
    columns: int
    points: int
    in_channels: int
    out_blocks: int
    out_block: int

    @property
    def tiles(self) -> int:
        """Tiles of one image."""
        return self.rows * self.columns

    @property
    def tile_bytes(self) -> int:
        """Bytes of the transformed input of one tile, all channels."""
        return 4 * self.points * self.in_channels

    @property
    def weight_bytes(self) -> int:
        """Bytes of the transformed weights."""
        return self.tile_bytes * self.out_blocks * self.out_block


@dataclass(frozen=True)
class WinogradTile:
    """A register tile of `rows` by `columns` tiles by `blocks` channel blocks, and a group of tiles.

    `shared`: the transformed input of the whole image is computed first, by all workers for all; otherwise each worker
    transforms what its group of tiles needs, for all output channels.
    """

    rows: int
    columns: int
    blocks: int
    group_rows: int
    group_columns: int
    shared: bool

    @property
    def spelling(self) -> tuple[int, int, int, int, int, bool]:
        """The fields in order."""
        return self.rows, self.columns, self.blocks, self.group_rows, self.group_columns, self.shared


def product_share(grid: WinogradGrid, rows: int, columns: int, blocks: int, target: Target) -> float:
    """The estimated share of peak of the matrix products with this register tile, where it hangs over the grid too."""
    vectors = blocks * grid.out_block // power_of_two_lanes(grid.out_block, target)
    share = tile.efficiency(rows * columns, vectors, rows * columns, target)
    return share * grid.tiles / (_up(grid.rows, rows) * _up(grid.columns, columns))


@functools.lru_cache(maxsize=4096)
def choose(grid: WinogradGrid, target: Target) -> WinogradTile:
    """The tiles for `grid` on `target` of the best estimate: busy registers, few reads of weights, busy cores."""
    shared = keeps_shared(grid, target)
    _, _, best = max(
        (round(estimate(grid, chosen, target), 3), chosen.group_rows * chosen.group_columns, chosen.spelling)
        for chosen in candidates(grid, shared, target)
    )
    return WinogradTile(*best)


@functools.lru_cache(maxsize=1024)
def choose_group(grid: WinogradGrid, sizes: tuple[tuple[int, int], ...], target: Target) -> tuple[int, int]:
    """Rows and columns of the group that does best in the mean over `sizes`, rows and columns of grids like `grid`.

    Each grid is rounded up to whole groups.
    """

    def worth(rows: int, columns: int) -> float:
        tile_rows, tile_columns, blocks = whole_tile(grid, (rows, columns), target)
        share = product_share(replace(grid, rows=rows, columns=columns), tile_rows, tile_columns, blocks, target)
        used = [r * c / (_up(r, rows) * _up(c, columns)) for r, c in sizes]
        return share * (1 - _WAIT_FOR_WEIGHTS / (rows * columns)) * sum(used) / len(used)

    most = min(_TILES_PER_GROUP, target.l2 // 4 // (4 * grid.points * grid.out_block))
    groups = [(r, c) for r in range(1, 5) for c in range(1, 17) if r * c <= max(most, 1)]
    return max(groups, key=lambda group: (round(worth(*group), 3), group[0] * group[1]))


def whole_tile(grid: WinogradGrid, group: tuple[int, int], target: Target) -> tuple[int, int, int]:
    """Rows, columns and blocks of the best register tile that divides `group`."""
    rows, columns = group
    whole = replace(grid, rows=rows, columns=columns)
    tiles = [(1, c, b) for c in tile.divisors(columns, columns) for b in tile.divisors(grid.out_blocks, 4)]
    tiles += [(r, columns, b) for r in tile.divisors(rows, rows) for b in tile.divisors(grid.out_blocks, 4)]
    return max(tiles, key=lambda t: (product_share(whole, t[0], t[1], t[2], target), t))


def keeps_shared(grid: WinogradGrid, target: Target) -> bool:
    """Whether the transformed input of the whole image is computed first, by all workers for all.

    It is unless it exceeds both the level-2 cache, so that it would be written to and read from the next level, and the
    weights, which every group of tiles reads again if it is not.
    """
    return grid.tile_bytes * grid.tiles * grid.batch <= max(target.l2, grid.weight_bytes)


def candidates(grid: WinogradGrid, shared: bool, target: Target) -> Iterator[WinogradTile]:
    """All tiles whose group stays in the level-2 cache; where none does, those of one register tile per group."""
    within = _register_tiles(grid, target)
    limit = min(_TILES_PER_GROUP, target.l2 // 2 // grid.tile_bytes if not shared else _TILES_PER_GROUP)
    for rows, columns, blocks in within:
        most = min(limit, target.l2 // 4 // (4 * grid.points * blocks * grid.out_block))
        wide = [c for c in range(columns, grid.columns + columns, columns) if c * rows <= most]
        for group_columns in wide or [columns]:
            yield WinogradTile(rows, columns, blocks, rows, group_columns, shared)
            for group_rows in range(2 * rows, grid.rows + 1, rows):
                if group_columns >= grid.columns and group_rows * group_columns <= most:
                    yield WinogradTile(rows, columns, blocks, group_rows, group_columns, shared)


def _register_tiles(grid: WinogradGrid, target: Target) -> list[tuple[int, int, int]]:
    """(rows, columns, blocks) that fit the register file; several rows only if they are whole."""
    shapes = [(1, c) for c in range(1, grid.columns + 1)] + [(r, grid.columns) for r in range(2, grid.rows + 1)]
    return [
        (rows, columns, blocks)
        for rows, columns in shapes
        if rows * columns < target.vector_registers
        for blocks in tile.divisors(grid.out_blocks, 4)
        if blocks == 1 or product_share(grid, rows, columns, blocks, target) > 0
    ]


def estimate(grid: WinogradGrid, chosen: WinogradTile, target: Target) -> float:
    """The share of the peak of all cores, without the transforms."""
    share = product_share(grid, chosen.rows, chosen.columns, chosen.blocks, target)
    tiles = chosen.group_rows * chosen.group_columns
    groups = grid.batch * -(-grid.rows // chosen.group_rows) * -(-grid.columns // chosen.group_columns)
    if chosen.shared:
        groups *= grid.out_blocks // chosen.blocks
        tiles *= chosen.blocks
    work = grid.batch * grid.tiles * (grid.out_blocks if chosen.shared else 1)
    longest = min(work, max(work / target.cores, -(-groups // target.cores) * tiles))
    return share * (1 - _WAIT_FOR_WEIGHTS / (chosen.group_rows * chosen.group_columns)) * work / target.cores / longest


def _up(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step`."""
    return -(-value // step) * step
