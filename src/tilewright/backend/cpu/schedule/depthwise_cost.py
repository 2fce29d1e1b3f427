"""Search spaces of depthwise convolutions and what their configurations cost."""

from __future__ import annotations

from tilewright.backend.cpu.schedule.common import power_of_two_lanes
from tilewright.backend.cpu.schedule.conv2d_cost import (
    SHUFFLES,
    copy_cost,
    epilogue_cycles,
    line_crossings,
    multiply_adds_per_cycle,
    reach,
    shares,
    start,
    whole,
)
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Vectors of columns in a register tile of a plain image, at most.
_PLAIN_VECTORS = 4

#: Rows of a band and columns of a register tile, at most; accumulators of one of plain images.
_BAND, _TILE_COLUMNS, _PLAIN_ACCUMULATORS = 16, 14, 12


def depthwise_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """Blocked: rows of a band, columns of a register tile."""
    space = ConfigSpace()
    space.define_split("band_rows", workload.height, _BAND, exact=False)
    space.define_split("tile_columns", workload.width, _TILE_COLUMNS, exact=False)
    return space


def depthwise_cost(workload: Conv2DWorkload, config: Config, target: Target) -> Cost:
    """Blocked to blocked: see `depthwise_conv2d.schedule_depthwise_conv2d` for the loops."""
    machine, lanes = target.machine, power_of_two_lanes(workload.out_block, target)
    band, columns = config["band_rows"], config["tile_columns"]
    units = workload.batch * workload.blocks * -(-workload.height // band)
    workers, share = shares(units, workload, target)
    vectors = workload.out_block // lanes
    each, rest = divmod(workload.width, columns)
    arithmetic = ports = fixed = 0.0
    for count, width in ((each, columns), (1 if rest else 0, rest)):
        step = max(width * vectors / multiply_adds_per_cycle(lanes, machine), machine.fma_latency)
        arithmetic += count * workload.taps * step
        ports += count * (
            workload.taps * (width + 1) * vectors / machine.vector_loads + width * vectors / machine.stores
        )
        fixed += count * machine.row_start
    rows = units * band * whole(workload.height, band)
    traffic = _traffic(workload, workers, share, target)
    copied = _copied_bytes(workload, band)
    if copied:
        traffic.add(share * units * copied * machine.write_factor, copied)
        traffic.add(share * units * copied, copied)
    moved = units * copied / (4 * lanes) * (1 / machine.vector_loads + 1 / machine.stores)
    return traffic.cost(
        share * (rows * arithmetic + epilogue_cycles(workload, lanes, machine)),
        share * (rows * ports + moved),
        fixed=share * (rows * (fixed + machine.tile_start) + units * machine.tile_start) + start(workers, machine),
    )


def _copied_bytes(workload: Conv2DWorkload, band: int) -> float:
    """Bytes of the copy with its borders of what a band of one channel block reads; 0 where there is none."""
    if not workload.padded:
        return 0.0
    return 4.0 * workload.out_block * reach(workload, 0, band) * reach(workload, 1, workload.width)


def depthwise_nchw_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """Plain: tile_rows rows of tile_vectors vectors of columns; the window takes the other registers."""
    most = max(1, min(workload.width // min(target.machine.lanes(), workload.width), _PLAIN_VECTORS))
    space = ConfigSpace()
    space.define_split("tile_rows", workload.height, _PLAIN_ACCUMULATORS, exact=False)
    space.define_split("tile_vectors", most, exact=False)
    space.require(lambda c: c["tile_rows"] * c["tile_vectors"] <= _PLAIN_ACCUMULATORS)
    return space


def depthwise_nchw_cost(workload: Conv2DWorkload, config: Config, target: Target) -> Cost:
    """Plain to plain: vectors of columns, read at every tap, after a copy of the image with its borders."""
    machine = target.machine
    lanes = min(machine.lanes(), workload.width)
    rows, vectors = config["tile_rows"], config["tile_vectors"]
    units = workload.batch * workload.out_channels
    workers, share = shares(units, workload, target)
    accumulators = rows * vectors
    tiles = -(-workload.height // rows) * workload.width / (lanes * vectors) / whole(workload.width, lanes * vectors)
    step = max(accumulators / multiply_adds_per_cycle(lanes, machine), machine.fma_latency)
    loads = accumulators * line_crossings(lanes, machine) / machine.vector_loads + 1 / machine.broadcast_loads
    copied = Cost()
    if workload.padded:
        copied = copy_cost(workload.batch * workload.in_bytes, target, machine.shuffle * SHUFFLES * workload.strides[1])
    return copied.then(
        _traffic(workload, workers, share, target).cost(
            share * (units * tiles * workload.taps * step + epilogue_cycles(workload, lanes, machine)),
            share * units * tiles * (workload.taps * loads + accumulators / machine.stores),
            fixed=share * units * (tiles * machine.row_start + machine.tile_start) + start(workers, machine),
        )
    )


def _traffic(workload: Conv2DWorkload, workers: int, share: float, target: Target) -> Traffic:
    """The image is read once and the result written once, and read before where it is in no cache."""
    traffic = Traffic(target.machine, workers)
    read, written = workload.batch * workload.in_bytes, workload.batch * workload.out_bytes
    traffic.add(share * (read + written * (1 + workload.other_inputs)), read + written * (1 + workload.other_inputs))
    return traffic
