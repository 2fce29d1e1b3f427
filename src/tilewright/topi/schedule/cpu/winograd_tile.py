"""Tiles of a Winograd convolution: the register tile of its matrix products and the group of tiles a worker takes.

The unit is one tile of m by m outputs; the image is a grid of them. A register tile is some rows and columns of the
grid by some blocks of output channels; a group is a rectangle of register tiles, whose products stay in the level-2
cache until they are transformed back.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import power_of_two_lanes

#: Rows of the matrix product per group from which on the weights, read once per group, cost little.
_ROWS_PER_GROUP = 28

#: Groups per core that keep all workers busy to the end.
_GROUPS_PER_CORE = 4


@dataclass(frozen=True)
class WinogradGrid:
    """The workload in units of the grid: `batch` images of `rows` by `columns` tiles of `points` by `points` inputs."""

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
        return 4 * self.points**2 * self.in_channels

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


def register_tile(grid: WinogradGrid, target: Target) -> tuple[float, int, int, int]:
    """The estimated share of peak of the best register tile, and its rows, columns and blocks."""
    vectors = grid.out_block // power_of_two_lanes(grid.out_block, target)
    shapes = [(1, c) for c in range(1, grid.columns + 1)] + [(r, grid.columns) for r in range(2, grid.rows + 1)]

    def estimate(rows: int, columns: int, blocks: int) -> float:
        share = tile.efficiency(rows * columns, blocks * vectors, rows * columns, target)
        covered = -(-grid.rows // rows) * rows * -(-grid.columns // columns) * columns
        return share * grid.tiles / covered

    return max(
        (round(estimate(rows, columns, blocks), 3), rows, columns, blocks)
        for rows, columns in shapes
        if rows * columns < target.vector_registers
        for blocks in tile.divisors(grid.out_blocks, 4)
    )


def choose(grid: WinogradGrid, target: Target) -> WinogradTile:
    """The tiles for `grid` on `target`.

    The transformed input is shared unless it exceeds both the level-2 cache, so that it would be written to and read
    from the next level, and the weights, which every group of tiles reads again if it is not.
    """
    _, rows, columns, blocks = register_tile(grid, target)
    image = grid.tile_bytes * grid.tiles * grid.batch
    shared = image <= max(target.l2, grid.weight_bytes)
    limit = target.l2 // 4 // (4 * grid.points**2 * blocks * grid.out_block)
    if not shared:
        limit = min(limit, target.l2 // 2 // grid.tile_bytes)
    limit = min(limit, _ROWS_PER_GROUP)
    channel_groups = grid.out_blocks // blocks if shared else 1

    def fits(group_rows: int, group_columns: int) -> bool:
        groups = -(-grid.rows // group_rows) * -(-grid.columns // group_columns) * channel_groups * grid.batch
        return group_rows * group_columns <= limit and groups >= _GROUPS_PER_CORE * target.cores

    group_columns = columns
    while group_columns < grid.columns and fits(rows, group_columns + columns):
        group_columns += columns
    group_rows = rows
    if group_columns >= grid.columns:
        taller = [r for r in range(rows, grid.rows + 1, rows) if grid.rows % r == 0 and fits(r, group_columns)]
        group_rows = max(taller, default=rows)
    return WinogradTile(rows, columns, blocks, group_rows, group_columns, shared)
