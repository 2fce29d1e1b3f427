"""Search spaces of convolutions of plain images and what their configurations cost."""

from __future__ import annotations

import math

from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.cache_sets import occupied_bytes
from tilewright.backend.cpu.schedule.conv2d_cost import (
    SHUFFLES,
    copy_cost,
    epilogue_cycles,
    line_crossings,
    multiply_adds_per_cycle,
    shares,
    start,
)
from tilewright.machine import Machine
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Filters and vectors of a register tile, at most.
_FILTERS, _VECTORS = 16, 8


def plain_lanes(extent: int, target: Target) -> int:
    """Lanes of a vector along `extent` columns or pixels of a plain image."""
    return min(target.machine.lanes(), 1 << (extent - 1).bit_length())


def conv2d_nchw_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """tile_filters channels by tile_rows rows of tile_vectors vectors of columns."""
    vectors = -(-workload.columns // plain_lanes(workload.columns, target))
    space = ConfigSpace()
    filters = max(1, workload.out_channels // workload.groups)  # 0 where an epilogue writes its axes in another order
    space.define_split("tile_filters", filters, _FILTERS)
    space.define_split("tile_rows", workload.height, _VECTORS, exact=False)
    space.define_split("tile_vectors", vectors, _VECTORS, exact=False)
    space.require(
        lambda c: c["tile_rows"] == 1 or (c["tile_vectors"] == vectors and c["tile_rows"] * vectors <= _VECTORS)
    )
    space.require(lambda c: tile.fits(c["tile_filters"], c["tile_rows"] * c["tile_vectors"], target))
    return space


def conv2d_nchw_cost(workload: Conv2DWorkload, config: Config, target: Target) -> Cost:
    """Plain to plain by any window: vectors of columns, all filters passing by the rows of a band."""
    filters, rows, vectors = config.values()
    columns = workload.columns
    lanes = plain_lanes(columns, target)
    bands = -(-workload.height // rows)
    tiles = -(-columns // (lanes * vectors)) * max(1.0, workload.width / columns)
    window = 4 * workload.in_channels // workload.groups * (rows - 1 + workload.kernel_size[0]) * workload.in_width
    instructions = rows * vectors * _pieces(columns, lanes) / (-(-columns // (lanes * vectors)) * vectors)
    return _cost(workload, target, lanes, filters, instructions, bands * tiles, window, True)


def conv2d_1x1_nchw_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """A product of matrices: tile_filters channels by tile_vectors vectors of pixels."""
    space = ConfigSpace()
    space.define_split("tile_filters", workload.out_channels, _FILTERS)
    space.define_knob("tile_vectors", range(1, _VECTORS + 1))
    space.require(lambda c: tile.fits(c["tile_filters"], c["tile_vectors"], target))
    return space


def conv2d_1x1_nchw_cost(workload: Conv2DWorkload, config: Config, target: Target) -> Cost:
    """Plain to plain by one tap: of pixels and filters those that are more pass by."""
    filters, vectors = config.values()
    pixels = workload.height * workload.width
    lanes = plain_lanes(pixels, target)
    tiles = -(-pixels // (lanes * vectors))
    window = 4 * workload.in_channels * lanes * vectors
    instructions = _pieces(pixels, lanes) / tiles
    return _cost(workload, target, lanes, filters, instructions, tiles, window, pixels >= workload.out_channels)


def _pieces(extent: int, lanes: int) -> int:
    """Vectors of a row of `extent` elements: whole ones, then shorter ones, each a power of two."""
    entire, rest = divmod(extent, lanes)
    return entire + rest.bit_count()


def _cost(
    workload: Conv2DWorkload,
    target: Target,
    lanes: int,
    filters: int,
    vectors: float,
    tiles: float,
    window: float,
    filters_pass: bool,
) -> Cost:
    """Register tiles of `filters` by `vectors`, `tiles` of the latter an image, each reading `window` bytes of it.

    Of a tile at the end of a row, `vectors` is what is left of it; shorter ones take as long. It is the mean of all.
    With `filters_pass` all filters pass by one tile of the image before the next, else the other way round.
    """
    machine = target.machine
    groups = workload.out_channels / filters
    units = math.ceil(workload.batch * groups * tiles)
    workers, share = shares(units, workload, target)
    step = max(filters * vectors / multiply_adds_per_cycle(lanes, machine), machine.fma_latency) + machine.step
    crossings = line_crossings(lanes, machine) if workload.width % lanes or workload.taps > 1 else 1.0
    loads = vectors * crossings / machine.vector_loads + filters / machine.broadcast_loads
    traffic, latency = _traffic(workload, machine, workers, share, groups, tiles, window, filters_pass)
    jumps = share * workload.batch * tiles * workload.in_channels / workload.groups * (1 if filters_pass else groups)
    steps = share * workload.batch * groups * tiles * workload.terms
    fixed = share * workload.batch * groups * tiles * (machine.tile_start + filters * vectors / machine.stores)
    sampled = Cost()
    if workload.padded:
        sampled = copy_cost(
            workload.batch * workload.in_bytes, target, machine.shuffle * SHUFFLES * workload.strides[1]
        )
    return sampled.then(
        traffic.cost(
            steps * step + share * epilogue_cycles(workload, lanes, machine),
            steps * loads,
            fixed + jumps * latency / machine.jumps_in_flight + start(workers, machine),
        )
    )


def _traffic(
    workload: Conv2DWorkload,
    machine: Machine,
    workers: int,
    share: float,
    groups: float,
    tiles: float,
    window: float,
    filters_pass: bool,
) -> tuple[Traffic, float]:
    """The traffic of the slowest worker, who has a `share`, and the latency of the image; as `_cost` has it."""
    traffic = Traffic(machine, workers)
    plane = workload.in_bytes // workload.in_channels
    kept = occupied_bytes(window, workload.in_channels // workload.groups, plane, machine)
    weights, image = workload.weight_bytes, workload.batch * workload.in_bytes
    result = workload.batch * workload.out_bytes * (1 + workload.other_inputs)
    panel, everything = weights / groups, weights + image + result
    if filters_pass:
        traffic.add(share * image, everything)
        traffic.add(share * workload.batch * tiles * window * (groups - 1), kept + panel)
        traffic.add(share * workload.batch * tiles * weights, weights + kept)
    else:
        traffic.add(share * weights, everything)
        traffic.add(share * image * groups, image + panel)
        traffic.add(share * workload.batch * tiles * weights, kept + panel)
    traffic.add(share * result, everything)
    return traffic, traffic.latency(everything)
