"""Direct or Winograd: which algorithm a 3x3 convolution of stride 1 runs fastest with, by a model of its cost.

The unit of cost is one vector multiply-add, about a cycle. Winograd does 2.25 (m = 2) or 4 (m = 4) times fewer of
them, less what the tiles hang over the image; it adds the transforms and reads 16/9 or 4 times the bytes of weights,
which a network reads from memory once per inference.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.target import Target
from tilewright.topi.schedule.cpu.common import power_of_two_lanes
from tilewright.topi.schedule.cpu.winograd_tile import WinogradGrid, choose, product_share

#: Bytes of weights that a core gets from memory in the time of one vector multiply-add, its neighbours busy as well.
_BYTES_PER_CYCLE = 5.0

#: What is left of the shorter of arithmetic and memory traffic when both overlap.
_NOT_OVERLAPPED = 0.2

#: Cost of transforming one tile of one vector of channels, by m: (input, output); measured.
_TRANSFORM = {2: (90.0, 50.0), 4: (220.0, 140.0)}

_DIRECT_SHARE = 0.94

#: Winograd must win by this much: it needs more memory and rounds more.
_MARGIN = 0.92


@dataclass(frozen=True)
class Conv2DWorkload:
    """A 3x3 convolution of stride 1: channels, size of the output, and the channel blocks of its layouts."""

    batch: int
    in_channels: int
    out_channels: int
    height: int
    width: int
    in_block: int
    out_block: int


def winograd_tile_size(workload: Conv2DWorkload, target: Target) -> int | None:
    """The tile size m of F(m x m, 3x3) expected to be fastest, or None for the direct convolution."""
    if min(workload.in_block, workload.out_block) < 4:
        return None
    direct = direct_cost(workload, target) * _MARGIN
    cost, best = min((winograd_cost(workload, m, target), m) for m in (2, 4))
    return best if cost < direct else None


def direct_cost(workload: Conv2DWorkload, target: Target) -> float:
    """Estimated cost of the direct convolution."""
    channels = workload.in_channels * workload.out_channels / power_of_two_lanes(workload.out_block, target)
    arithmetic = 9 * workload.batch * workload.height * workload.width * channels / _DIRECT_SHARE
    return _overlap(arithmetic, 36 * workload.in_channels * workload.out_channels)


def winograd_cost(workload: Conv2DWorkload, tile_size: int, target: Target) -> float:
    """Estimated cost of F(m x m, 3x3) for m = `tile_size`."""
    grid = winograd_grid(workload, tile_size)
    chosen = choose(grid, target)
    share = product_share(grid, chosen.rows, chosen.columns, chosen.blocks, target)
    in_vectors = workload.in_channels / power_of_two_lanes(workload.in_block, target)
    out_vectors = workload.out_channels / power_of_two_lanes(workload.out_block, target)
    before, after = _TRANSFORM[tile_size]
    products = grid.points**2 * workload.in_channels * out_vectors / max(share, 0.05)
    arithmetic = workload.batch * grid.tiles * (products + in_vectors * before + out_vectors * after)
    return _overlap(arithmetic, grid.weight_bytes)


def winograd_grid(workload: Conv2DWorkload, tile_size: int) -> WinogradGrid:
    """The grid of tiles that covers the output."""
    rows, columns = -(-workload.height // tile_size), -(-workload.width // tile_size)
    blocks = workload.out_channels // workload.out_block
    return WinogradGrid(workload.batch, rows, columns, tile_size + 2, workload.in_channels, blocks, workload.out_block)


def _overlap(arithmetic: float, weight_bytes: float) -> float:
    memory = weight_bytes / _BYTES_PER_CYCLE
    return max(arithmetic, memory) + _NOT_OVERLAPPED * min(arithmetic, memory)
