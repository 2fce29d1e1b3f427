"""The cost of a convolution by each algorithm and configuration, and of a change of layout.

Traffic is counted from the order of the loops: the weights of a tile are read again for the next tile after the panel
and a window of the image have passed by, the image for the next channels after itself and a panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.cache_sets import occupied_bytes
from tilewright.backend.cpu.schedule.common import power_of_two_lanes
from tilewright.machine import Machine
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost, Traffic, looked_ahead, overlapped
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Loads that asking for a line costs as much as, in a tile that reads it soon after.
_ASKING = 2

#: Shuffles by which a vector is picked out of two, for each of the strides that a plain image is sampled by.
SHUFFLES = 2

#: Rows of an image up to which a panel is worth asking for ahead: where more pass by, its first use is little of all.
_FEW_ROWS = 28

#: Positions of a register tile, rows of several rows' tile, and blocks of channels, at most.
_POSITIONS, _SEVERAL, _BLOCKS = 28, 8, 4

#: The same of groups joined from several, each part of which has products with some of the blocks only.
_JOINED_BLOCKS = 7


def direct_space(workload: Conv2DWorkload, target: Target, exact: bool = True) -> ConfigSpace:
    """tile_rows by tile_columns positions by tile_blocks channel blocks: part of one row, or several whole rows.

    An image of one column (a convolution over time) is tiled along its rows. Unless `exact`, rows may be left for a
    shorter tile.
    """
    vectors = workload.out_block // power_of_two_lanes(workload.out_block, target)
    column = workload.width == 1
    space = ConfigSpace()
    space.define_split("tile_rows", workload.height, _POSITIONS if column else _SEVERAL, exact=exact and not column)
    space.define_split("tile_blocks", workload.group_blocks, _BLOCKS if workload.joined == 1 else _JOINED_BLOCKS)
    space.define_split("tile_columns", workload.width, _POSITIONS, exact=False)
    space.require(lambda c: column or c["tile_rows"] == 1 or c["tile_columns"] == workload.width)
    space.require(
        lambda c: (
            tile.fits(c["tile_rows"] * c["tile_columns"], c["tile_blocks"] * vectors, target)
            or c["tile_rows"] * c["tile_blocks"] * c["tile_columns"] == 1
        )
    )
    return space


def banded_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """The same, band_rows: rows of the image that all channels pass by before the next ones; ahead; and parts.

    All of them, or as many as the second-level cache holds, or the next fewer. With `ahead` the next panel of weights
    is fetched while all rows of the image pass by this one. `parts` are those of the image that workers share.
    """
    space = direct_space(workload, target, exact=False)
    space.define_knob("band_rows", [workload.height, *_bands(workload, target)])
    space.define_knob("ahead", [0, 1] if workload.height <= _FEW_ROWS and workload.groups == 1 else [0])
    space.require(lambda c: c["band_rows"] % c["tile_rows"] == 0 or c["band_rows"] == workload.height)
    space.require(lambda c: not c["ahead"] or c["band_rows"] == workload.height)
    parts = target.cores if workload.batch == workload.joined == workload.groups == 1 < target.cores else 1
    space.define_knob("parts", sorted({1, parts}), absent=1)
    space.require(
        lambda c: c["parts"] <= max(1, _steps(workload, c)) and 1 in (c["parts"], workload.height // c["band_rows"])
    )
    return space


def transposed_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """Tiles as of a direct convolution, and ahead: whether each prefetches its weights."""
    space = direct_space(workload, target)
    space.define_knob("ahead", [0, 1], absent=0)
    return space


def transposed_cost(workload: Conv2DWorkload, config: Config, target: Target) -> Cost:
    """The convolutions of the phases. The latency of prefetched weights is hidden by the tiles that read them."""
    plain = Config(tuple(item for item in config.items() if item[0] != "ahead"))
    if not config["ahead"]:
        return direct_cost(workload, plain, target)
    tiles = _steps(workload, config) * -(-workload.width // config["tile_columns"])
    return direct_cost(workload, plain, target, early=1 / tiles)


def _steps(workload: Conv2DWorkload, config: Mapping[str, int]) -> int:
    """The number of steps that `parts` divides: strips of rows, or tiles of columns where there is one row."""
    if workload.height == 1:
        return -(-workload.width // config["tile_columns"])
    return -(-workload.height // config["tile_rows"])


def _bands(workload: Conv2DWorkload, target: Target) -> list[int]:
    """Rows of bands whose part of the image stays in the second-level cache; none where the whole image does."""
    kept = target.machine.kept_l2 * target.machine.l2.size
    if workload.width == 1 or workload.in_bytes <= kept:
        return []
    row = workload.in_bytes / workload.height
    return [rows for rows in divisors(workload.height, workload.height - 1) if rows * row <= kept][-2:]


def multiply_adds_per_cycle(lanes: int, machine: Machine) -> float:
    """The multiply-adds of `lanes` floats in a cycle; some processors do twice as many of half the width."""
    return machine.fma_per_cycle if 2 * lanes > machine.lanes() else machine.half_fma_per_cycle


def direct_cost(
    workload: Conv2DWorkload, config: Config, target: Target, fresh: float | None = None, early: float = 0.0
) -> Cost:
    """Sums over the window, to channel blocks: see `conv2d.schedule_conv2d` for the loops.

    `fresh` are the bytes that pass by from when the image is written to when it is read; by default it comes from
    another kernel. `early` is the share of the work of tiles that are the first to read their weights, where each line
    of these is prefetched shortly before it is read.
    """
    machine, lanes = target.machine, power_of_two_lanes(workload.out_block, target)
    panels, ahead = workload.batch * (workload.blocks // config["tile_blocks"]), config.get("ahead", 0)
    workers, share = _shared_out(workload, config, target, panels)
    arithmetic, ports, fixed, tiles = _panel_work(workload, config, target, early)
    scale = share * panels
    passes = _Passes.of(workload, config, machine, workers, share)
    traffic = _direct_traffic(workload, config, machine, passes, panels * tiles, fresh)
    return padding_cost(workload, target).then(
        traffic.cost(
            scale * arithmetic + share * epilogue_cycles(workload, lanes, machine),
            scale * ports,
            scale * fixed + start(workers, machine),
            ahead or early,
            unasked=_unasked(workload, config, target),
            first=1 / tiles,
        )
    )


def _shared_out(workload: Conv2DWorkload, config: Config, target: Target, panels: int) -> tuple[int, float]:
    """The number of workers that share the tiles of all panels of a direct convolution, and the part that the slowest
    has.
    """
    strips, ahead = -(-workload.height // config["tile_rows"]), config.get("ahead", 0)
    steps, parts = _steps(workload, config), config.get("parts", 1)
    if parts == 1:
        together = workload.group_blocks // config["tile_blocks"] if workload.joined > 1 else 1
        return shares((panels if ahead else panels * strips) // together, workload, target)
    of_part = -(-steps // parts)
    workers, share = shares(parts * panels * (1 if ahead or workload.height == 1 else of_part), workload, target)
    return workers, min(1.0, share * of_part * parts / steps)


def _unasked(workload: Conv2DWorkload, config: Config, target: Target) -> float:
    """The share of the latency of weights from afar that a core hides by itself while tiles read them first."""
    rows, lanes = config["tile_rows"] * config["tile_columns"], power_of_two_lanes(workload.out_block, target)
    floats = config["tile_blocks"] * workload.out_block
    instructions = floats // lanes + rows * floats // lanes + rows
    return looked_ahead(instructions, max(1.0, 4 * floats / target.machine.line), target.machine)


def direct_least(workload: Conv2DWorkload, target: Target) -> Callable[[Config], float]:
    """Cycles that `direct_cost` never falls below: those of the register tiles, shared out evenly."""
    known: dict[tuple[int, int, int], float] = {}

    def least(config: Config) -> float:
        tile = config["tile_rows"], config["tile_columns"], config["tile_blocks"]
        if tile not in known:
            rows, columns, blocks = tile
            alone = Config((("tile_rows", rows), ("tile_columns", columns), ("tile_blocks", blocks)))
            arithmetic, ports, fixed, _ = _panel_work(workload, alone, target, 0.0)
            panels = workload.batch * (workload.blocks // blocks)
            known[tile] = panels * (overlapped(arithmetic, ports) + fixed) / target.cores
        return known[tile]

    return least


def _panel_work(
    workload: Conv2DWorkload, config: Config, target: Target, early: float
) -> tuple[float, float, float, float]:
    """Cycles of multiply-adds, of loads and fixed ones of all tiles of an image with one panel, and how many tiles."""
    machine, lanes = target.machine, power_of_two_lanes(workload.out_block, target)
    rows, columns, blocks = config["tile_rows"], config["tile_columns"], config["tile_blocks"]
    vectors, reached = blocks * workload.out_block // lanes, workload.reached(blocks)
    multiplied = vectors * workload.terms / reached
    arithmetic = ports = fixed = tiles = 0.0
    for strip, length in _whole_and_rest(workload.height, rows):
        for count, width in _tiles(workload, columns):
            step = Step(length * width, multiplied, lanes, machine)
            count *= strip
            arithmetic += count * reached * step.arithmetic
            ports += count * reached * step.loads
            fixed += count * (machine.tile_start + length * width * vectors / machine.stores)
            tiles += count
    if config.get("ahead", 0):
        lines = tiles * reach(workload, 0, rows) * reach(workload, 1, columns) * workload.in_channels / lanes
        ports += (lines + blocks * workload.terms) / machine.vector_loads
    if early:
        ports += _ASKING * tiles * vectors * workload.terms / machine.vector_loads
    return arithmetic, ports, fixed, tiles


class _Passes(NamedTuple):
    """The bytes that stream through the loops of a direct convolution.

    `groups` of channel blocks, each with a `panel` of weights, meet the tiles of an image, which read a `window` each;
    all of them pass by the rows of a band, with its part of the `image`, before the next. `share` is the slowest
    worker's, `everything` is all that the kernel reads and writes.
    """

    groups: int
    panel: float
    window: float
    image: float
    by_bands: bool
    everything: float
    share: float
    workers: int

    @staticmethod
    def of(workload: Conv2DWorkload, config: Config, machine: Machine, workers: int, share: float) -> _Passes:
        blocks, of_group = config["tile_blocks"], workload.groups
        across, down = reach(workload, 1, config["tile_columns"]), reach(workload, 0, config["tile_rows"])
        window: float = 4 * workload.in_channels // of_group * down * across
        if workload.in_block == 1:
            plane = workload.in_bytes // workload.in_channels
            window = occupied_bytes(window, workload.in_channels // of_group, plane, machine)
        band = config.get("band_rows", workload.height)
        weights = workload.phases * workload.weight_bytes
        return _Passes(
            workload.blocks // blocks,
            4 * workload.terms * blocks * workload.out_block,
            window,
            workload.in_bytes * band / workload.height,
            band < workload.height,
            weights + workload.batch * (workload.in_bytes + _results(workload)),
            share,
            workers,
        )


def _direct_traffic(
    workload: Conv2DWorkload,
    config: Config,
    machine: Machine,
    passes: _Passes,
    tiles: float,
    fresh: float | None,
) -> Traffic:
    """The traffic of the slowest worker, who has its share of all `tiles`."""
    traffic = Traffic(machine, passes.workers)
    _read_weights(traffic, workload, config, passes, tiles)
    _read_image(traffic, workload, config, passes, fresh)
    traffic.add(passes.share * workload.batch * _results(workload), passes.everything)
    return traffic


def _results(workload: Conv2DWorkload) -> float:
    """Bytes that are written for one image, and read by the epilogue."""
    return workload.out_bytes * (1 + workload.other_inputs)


def _read_weights(traffic: Traffic, workload: Conv2DWorkload, config: Config, passes: _Passes, tiles: float) -> None:
    """Each panel as a stream for the first tile of an image or band that meets it, and again for all others."""
    share, panel = passes.share, passes.panel
    bands = workload.in_bytes / passes.image
    times = workload.batch * bands / workload.phases
    panels, parts = passes.groups * times * workload.phases * panel, config.get("parts", 1)
    traffic.stream(share * parts * panels / times, passes.everything)
    traffic.add(share * panels * (1 - 1 / times), workload.phases * workload.weight_bytes + passes.image)
    streams = 1 + traffic.machine.l2_stream * (config["tile_blocks"] - 1)
    traffic.add(share * (tiles * panel - panels) * streams, panel + passes.window)


def _read_image(
    traffic: Traffic, workload: Conv2DWorkload, config: Config, passes: _Passes, fresh: float | None
) -> None:
    """The image for the first group of channel blocks, from where another core wrote it maybe, and for all others."""
    machine, workers, share = traffic.machine, passes.workers, passes.share
    images, groups, parts = share * workload.batch, passes.groups, config.get("parts", 1)
    if workload.in_block == 1:
        again = max(0.0, machine.line / (4 * config["tile_columns"] * workload.strides[1]) - 1)
        traffic.add(images * workload.in_bytes * groups * again, passes.panel + passes.window)
    read = workload.in_bytes * min(1.0, workload.kernel_size[0] / workload.strides[0])
    traffic.add(images * read, passes.everything if fresh is None else fresh)
    by_rows = workload.batch >= workers or parts > 1 or passes.by_bands
    sent = 0.0 if by_rows else read * max(0.0, min(1.0, share * groups / workload.groups) - share)
    traffic.receive(sent)
    apart = passes.image / workload.groups / parts + passes.panel
    traffic.add(images * read * (groups / workload.groups - 1) - sent, apart)
    if fresh is None and workload.in_block > 1 and not by_rows:
        piece = 4 * workload.in_block * min(workload.in_width, reach(workload, 1, config["tile_columns"]))
        traffic.gather(workload.batch * workload.in_bytes, piece, workload.in_channels / workload.in_block)


def epilogue_cycles(workload: Conv2DWorkload, lanes: int, machine: Machine) -> float:
    """Cycles of what the epilogue computes for the whole result."""
    functions, divisions = workload.epilogue
    vectors = workload.batch * workload.out_bytes / 4 / lanes
    return vectors * (functions * machine.exp + divisions * machine.division)


class Step:
    """One innermost step: `rows` broadcast values by `vectors` vectors of `lanes` floats, operands in the L1 cache."""

    def __init__(self, rows: int, vectors: float, lanes: int, machine: Machine) -> None:
        self.accumulators = rows * vectors
        self.arithmetic = (
            max(self.accumulators / multiply_adds_per_cycle(lanes, machine), machine.fma_latency) + machine.step
        )
        self.loads = vectors / machine.vector_loads + rows / machine.broadcast_loads


def shares(units: int, workload: Conv2DWorkload, target: Target) -> tuple[int, float]:
    """The number of workers that share `units` iterations of the parallel loop, and the part of them that the slowest
    has.
    """
    large = workload.batch * workload.out_bytes / 4 * (1 + workload.terms // 8) >= target.machine.parallel_elements
    workers = min(target.cores, units) if large else 1
    return workers, -(-units // workers) / max(units, 1)  # none where the result has no elements


def start(workers: int, machine: Machine) -> float:
    """Cycles to start a loop that `workers` share, and to wait for the last of them."""
    return machine.kernel_start + (machine.barrier if workers > 1 else 0.0)


def padding_cost(workload: Conv2DWorkload, target: Target) -> Cost:
    """A padded copy of the image, written by all workers before."""
    if not workload.padded:
        return Cost()
    return copy_cost(workload.batch * workload.in_bytes, target)


def copy_cost(count: float, target: Target, cycles_per_vector: float = 1.0) -> Cost:
    """A kernel or loop of its own that reads `count` bytes and writes as many, all workers together."""
    machine = target.machine
    workers = machine.cores if count / 4 >= target.machine.parallel_elements else 1
    traffic = Traffic(machine, workers)
    traffic.add(count / workers * (1 + machine.write_factor), 2 * count)
    vectors = count / workers / (machine.lanes(8))
    return traffic.cost(
        arithmetic=vectors * cycles_per_vector,
        load_ports=vectors * (1 / machine.vector_loads + 1 / machine.stores),
        fixed=start(workers, machine),
    )


def line_crossings(lanes: int, machine: Machine) -> float:
    """Lines that a vector of `lanes` floats touches, in the mean over all positions in memory."""
    return 1 + (lanes - 1) * 4 / machine.line


def _tiles(workload: Conv2DWorkload, columns: int) -> list[tuple[float, int]]:
    """(how many, how long) of the tiles of `columns` along a row: whole ones, and the one that is left.

    In the mean over the widths that the image may have, as if all were of the workload's.
    """
    widths = workload.widths or (workload.width,)
    found = []
    for width in widths:
        each = workload.width / width / len(widths)
        found += [(count * each, length) for count, length in _whole_and_rest(width, columns)]
    return found


def _whole_and_rest(extent: int, step: int) -> list[tuple[int, int]]:
    """(how many, how long) of the pieces of `step` that `extent` is cut into."""
    entire, rest = divmod(extent, step)
    return [(count, length) for count, length in ((entire, step), (1, rest)) if count and length]


def reach(workload: Conv2DWorkload, axis: int, outputs: int) -> int:
    """Rows or columns of the image that `outputs` neighbouring results read."""
    taps = workload.kernel_size[axis]
    return (outputs - 1) * workload.strides[axis] + (taps - 1) * workload.dilation[axis] + 1


def whole(extent: int, step: int) -> float:
    """The useful share of tiles of `step` along `extent`."""
    return extent / (math.ceil(extent / step) * step)
