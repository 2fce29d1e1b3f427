"""Direct or Winograd: which algorithm a convolution runs fastest with, by a model of its cost.

The unit of cost is one vector multiply-add, about a cycle. Winograd does fewer of them (at stride 1 2.25 times for
m = 2 and 4 times for m = 4), less what the tiles hang over the image; it adds the transforms and reads more bytes of
weights, which a network reads from memory once per inference.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.target import Target
from tilewright.topi.schedule.cpu.common import power_of_two_lanes
from tilewright.topi.schedule.cpu.winograd_tile import WinogradGrid, choose, choose_group, product_share
from tilewright.topi.winograd import TILE_SIZES, Filter, find_filters

#: Bytes of weights that a core gets from memory in the time of one vector multiply-add, its neighbours busy as well.
_BYTES_PER_CYCLE = 5.0

#: What is left of the shorter of arithmetic and memory traffic when both overlap.
_NOT_OVERLAPPED = 0.2

#: Share of the peak that direct convolutions reach.
DIRECT_SHARE = 0.94

#: How much faster than whole ones vectors of half the lanes and less are.
_SHORT_VECTORS = 4 / 3

#: Sizes that an image of symbolic size is reckoned with, against its hint.
_LIKELY_SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)

#: Winograd must win by this much: it needs more memory and rounds more.
_MARGIN = 0.92


@dataclass(frozen=True)
class Conv2DWorkload:
    """An ungrouped convolution: channels, size of the output, the channel blocks of its layouts, and its window."""

    batch: int
    in_channels: int
    out_channels: int
    height: int
    width: int
    in_block: int
    out_block: int
    kernel_size: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)

    @property
    def taps(self) -> int:
        """Elements of the window."""
        return self.kernel_size[0] * self.kernel_size[1]

    def filters(self, tile_size: int) -> tuple[Filter, Filter] | None:
        """The filters of rows and columns for m = `tile_size`, or None where there are none."""
        return find_filters(tile_size, self.kernel_size, self.strides)


def winograd_tile_size(workload: Conv2DWorkload, target: Target) -> int | None:
    """The tile size m of F(m x m, 3x3) expected to be fastest, or None for the direct convolution."""
    if min(workload.in_block, workload.out_block) < 4:
        return None
    direct = direct_cost(workload, target) * _MARGIN
    costs = [(winograd_cost(workload, m, target), m) for m in TILE_SIZES if workload.filters(m) is not None]
    cost, best = min(costs, default=(direct, 0))
    return best if cost < direct else None


def tile_group(
    workload: Conv2DWorkload, tile_size: int, target: Target, symbolic: tuple[bool, bool]
) -> tuple[int, int]:
    """Rows and columns of tiles that a worker takes at a time; `symbolic` says which of height and width are unknown.

    Those of the best mean over the sizes that an unknown one is likely to have, as grids are made of whole groups.
    """
    grid = winograd_grid(workload, tile_size)
    if not any(symbolic):
        chosen = choose(grid, target)
        return chosen.group_rows, chosen.group_columns
    rows, columns = (
        sorted({max(1, round(size * scale)) for scale in _LIKELY_SCALES}) if unknown else [size]
        for size, unknown in zip((grid.rows, grid.columns), symbolic, strict=True)
    )
    return choose_group(grid, tuple((r, c) for r in rows for c in columns), target)


def direct_cost(workload: Conv2DWorkload, target: Target) -> float:
    """Estimated cost of the direct convolution."""
    channels = workload.in_channels * workload.out_channels / useful_lanes(workload.out_block, target)
    arithmetic = workload.taps * workload.batch * workload.height * workload.width * channels / DIRECT_SHARE
    return _overlap(arithmetic, 4 * workload.taps * workload.in_channels * workload.out_channels)


def winograd_cost(workload: Conv2DWorkload, tile_size: int, target: Target) -> float:
    """Estimated cost of minimal filtering with m = `tile_size`; the workload must have filters for it."""
    grid = winograd_grid(workload, tile_size)
    chosen = choose(grid, target)
    share = product_share(grid, chosen.rows, chosen.columns, chosen.blocks, target)
    in_vectors = workload.in_channels / useful_lanes(workload.in_block, target)
    out_vectors = workload.out_channels / useful_lanes(workload.out_block, target)
    before, after = _transform_costs(workload, tile_size)
    products = grid.points * workload.in_channels * out_vectors / max(share, 0.05)
    arithmetic = workload.batch * grid.tiles * (products + in_vectors * before + out_vectors * after)
    return _overlap(arithmetic, grid.weight_bytes)


def useful_lanes(block: int, target: Target) -> float:
    """Floats that a vector of a block of channels does in the time of one of whole registers.

    Shorter ones are better than their share: some processors issue twice as many, and none reads as much memory.
    """
    lanes = power_of_two_lanes(block, target)
    whole = max(4, target.vector_bits // 32)
    return lanes if lanes == whole else lanes * _SHORT_VECTORS


def _transform_costs(workload: Conv2DWorkload, tile_size: int) -> tuple[float, float]:
    """The cost of transforming one tile of one vector of channels before and after: arithmetic, loads and stores."""
    filters = workload.filters(tile_size)
    assert filters is not None
    down, across = filters
    points = down.points * across.points
    before = down.to_cost * across.inputs + across.to_cost * down.points + 2 * points
    after = down.from_cost * across.points + across.from_cost * down.outputs + points + down.outputs * across.outputs
    return before, after


def winograd_grid(workload: Conv2DWorkload, tile_size: int) -> WinogradGrid:
    """The grid of tiles that covers the output."""
    filters = workload.filters(tile_size)
    assert filters is not None
    rows, columns = -(-workload.height // filters[0].outputs), -(-workload.width // filters[1].outputs)
    blocks = workload.out_channels // workload.out_block
    points = filters[0].points * filters[1].points
    return WinogradGrid(workload.batch, rows, columns, points, workload.in_channels, blocks, workload.out_block)


def _overlap(arithmetic: float, weight_bytes: float) -> float:
    memory = weight_bytes / _BYTES_PER_CYCLE
    return max(arithmetic, memory) + _NOT_OVERLAPPED * min(arithmetic, memory)
