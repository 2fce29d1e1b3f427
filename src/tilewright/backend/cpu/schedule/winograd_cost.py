"""Tiles of a Winograd convolution and their cost: register tiles of its matrix products, groups of tiles.

The unit is one tile of outputs; the image is a grid of them. A register tile is some rows and columns of the grid by
some blocks of output channels; a group is a rectangle of register tiles, whose products stay in the level-2 cache until
they are transformed back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.common import power_of_two_lanes
from tilewright.backend.cpu.schedule.conv2d_cost import Step, epilogue_cycles, multiply_adds_per_cycle, start
from tilewright.errors import InternalError
from tilewright.machine import Machine
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost, Traffic, overlapped
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Parts of the second-level cache, one of which a group's tiles may take, and its products beside them.
_TILES_PART, _PRODUCTS_PART = 2, 4

#: Groups of more tiles than this gain nothing.
_TILES_PER_GROUP = 56

#: Sizes that an image of symbolic size is reckoned with, against its hint.
_LIKELY_SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)

KNOBS = ("tile_rows", "tile_columns", "tile_blocks", "group_rows", "group_columns", "shared")


@dataclass(frozen=True)
class Grid:
    """The image in tiles: `rows` by `columns` of them, each of `points` products for every pair of channels."""

    rows: int
    columns: int
    points: int

    @property
    def tiles(self) -> int:
        """Tiles of one image."""
        return self.rows * self.columns


@functools.lru_cache(maxsize=1024)
def grid_of(workload: Conv2DWorkload) -> Grid:
    """The grid of tiles that covers the output; the workload must have filters."""
    filters = workload.filters
    if filters is None:
        raise InternalError(f"a convolution without filters: {workload}")
    down, across = filters
    rows, columns = -(-workload.height // down.outputs), -(-workload.width // across.outputs)
    return Grid(rows, columns, down.points * across.points)


def winograd_space(workload: Conv2DWorkload, target: Target) -> ConfigSpace:
    """Register tile, group of tiles, and whether all workers transform the input for all (`shared`) or each its own.

    With `ahead` the weights of the next point are fetched while the tiles of a group pass by those of this one.
    """
    space = ConfigSpace()
    if workload.group is not None:
        whole = (*whole_tile(workload, workload.group, target), *workload.group)
        found: list[tuple[int, ...]] = [(*whole, shared) for shared in (1, 0)]
    else:
        found = [config for shared in (1, 0) for config in _candidates(workload, shared, target)]
    space.define_joint(KNOBS, found)
    space.define_knob("ahead", [0, 1] if workload.group is None else [0])
    return space


def winograd_cost(workload: Conv2DWorkload, config: Config, target: Target) -> Cost:
    """Transform of the input, matrix products and transform of the outputs: see `winograd.py` for the loops."""
    machine, loops = target.machine, _Loops.of(workload, config)
    workers = min(target.cores, loops.units)
    share = -(-loops.units // workers) / loops.units
    before = _input_cost(workload, loops, target, workers, share)
    lanes, ahead = power_of_two_lanes(workload.out_block, target), config.get("ahead", 0)
    step = Step(loops.positions, config["tile_blocks"] * workload.out_block // lanes, lanes, machine)
    loads = step.loads
    if ahead:
        tiles = loops.register_tiles / loops.groups * loops.point / loops.weights  # those of a group, at one point
        lines = loops.positions / lanes + loops.point / tiles / workload.in_channels / machine.line
        loads += lines / machine.vector_loads
    terms = loops.register_tiles * workload.in_channels
    rims = loops.register_tiles * (machine.tile_start + step.accumulators / machine.stores)
    after = _transform_cycles(workload, target)[1]
    return before.then(
        _product_traffic(workload, config, loops, machine, workers, share).cost(
            share * (terms * step.arithmetic + after[0] + epilogue_cycles(workload, lanes, machine)),
            share * (terms * loads + after[1]),
            share * rims + start(workers, machine),
            ahead / (loops.groups if loops.shared else 1),
        )
    )


def winograd_least(workload: Conv2DWorkload, target: Target) -> Callable[[Config], float]:
    """Cycles that `winograd_cost` never falls below: those of the register tiles, shared out evenly."""
    machine, lanes, grid = target.machine, power_of_two_lanes(workload.out_block, target), grid_of(workload)
    known: dict[tuple[int, int, int], float] = {}

    def least(config: Config) -> float:
        tile = config["tile_rows"], config["tile_columns"], config["tile_blocks"]
        if tile not in known:
            rows, columns, blocks = tile
            step = Step(rows * columns, blocks * workload.out_block // lanes, lanes, machine)
            slots = workload.batch * -(-grid.rows // rows) * -(-grid.columns // columns)
            tiles = grid.points * slots * (workload.blocks // blocks)
            within = workload.in_channels * overlapped(step.arithmetic, step.loads)
            known[tile] = tiles * (within + machine.tile_start + step.accumulators / machine.stores) / target.cores
        return known[tile]

    return least


@dataclass(frozen=True)
class _Loops:
    """The iterations of a configuration's loops and the bytes that stream through them.

    `groups` of tiles by `passes` over the channels are shared out in `units`; there are `register_tiles` in all, each
    of `positions` tiles. In bytes: the transformed `weights`, those of one pass (`panel`) and of one `point` of it,
    which are read `again` for each further register tile of a group; the transformed input of all `tiles` and of one
    register tile at one point (`window`); what is multiplied out for one group (`product`).
    """

    shared: bool
    groups: int
    passes: int
    units: int
    register_tiles: int
    positions: int
    weights: float
    panel: float
    point: float
    again: float
    tiles: float
    window: float
    product: float

    @staticmethod
    def of(workload: Conv2DWorkload, config: Config) -> _Loops:
        grid, shared = grid_of(workload), bool(config["shared"])
        groups = workload.batch * -(-grid.rows // config["group_rows"]) * -(-grid.columns // config["group_columns"])
        passes = workload.blocks // config["tile_blocks"]
        slots = workload.batch * -(-grid.rows // config["tile_rows"]) * -(-grid.columns // config["tile_columns"])
        positions = config["tile_rows"] * config["tile_columns"]
        weights = 4 * grid.points * workload.in_channels * workload.out_channels
        point = weights / passes / grid.points
        return _Loops(
            shared,
            groups,
            passes,
            groups * (passes if shared else 1),
            grid.points * slots * passes,
            positions,
            weights,
            weights / passes,
            point,
            (slots - groups) * weights,
            4 * grid.points * workload.in_channels * grid.tiles * workload.batch,
            4 * workload.in_channels * positions,
            4
            * grid.points
            * config["tile_blocks"]
            * workload.out_block
            * config["group_rows"]
            * config["group_columns"],
        )


def _product_traffic(
    workload: Conv2DWorkload, config: Config, loops: _Loops, machine: Machine, workers: int, share: float
) -> Traffic:
    """The traffic of the slowest worker, who has a `share`, for the products and the transform behind them."""
    traffic = Traffic(machine, workers)
    result = workload.batch * workload.out_bytes * (1 + workload.other_inputs)
    everything = loops.weights + workload.batch * workload.in_bytes + result
    of_group = loops.tiles / loops.groups + loops.product
    beside = loops.panel if loops.shared else loops.weights
    kept = loops.tiles if loops.shared else of_group
    traffic.stream(share * loops.weights, everything)
    traffic.stream(share * loops.weights * (loops.groups - 1), beside + of_group, first=False)
    traffic.add(share * loops.again, loops.point + loops.window)
    traffic.add(share * loops.tiles * loops.passes, kept + loops.panel)
    traffic.add(share * loops.groups * loops.passes * 2 * loops.product, of_group)
    traffic.add(share * result, everything)
    if loops.shared:
        rows = min(config["group_rows"], grid_of(workload).rows)
        piece = 4 * workload.in_block * config["tile_columns"]
        traffic.gather(loops.tiles, piece, rows * workload.in_channels / workload.in_block)
    return traffic


def _input_cost(workload: Conv2DWorkload, loops: _Loops, target: Target, workers: int, share: float) -> Cost:
    """The transform of the input into tiles, by all workers together or by each for its groups."""
    machine = target.machine
    arithmetic, ports = _transform_cycles(workload, target)[0]
    traffic = Traffic(machine, workers)
    image = workload.batch * workload.in_bytes
    share = 1 / workers if loops.shared else share
    traffic.add(share * image, image + workload.batch * workload.out_bytes)
    traffic.add(share * loops.tiles * machine.write_factor, loops.tiles / (1 if loops.shared else loops.groups))
    return traffic.cost(share * arithmetic, share * ports, start(workers, machine))


@functools.lru_cache(maxsize=1024)
def _transform_cycles(workload: Conv2DWorkload, target: Target) -> tuple[tuple[float, float], tuple[float, float]]:
    """Cycles of arithmetic and loads of the transform before and the one after, of all tiles.

    What the first of two one-dimensional transforms leaves goes through memory, as registers do not hold a tile.
    """
    assert workload.filters is not None
    machine, grid = target.machine, grid_of(workload)
    down, across = workload.filters
    tiles = workload.batch * grid.tiles
    in_lanes, out_lanes = (power_of_two_lanes(block, target) for block in (workload.in_block, workload.out_block))
    inputs, outputs = tiles * workload.in_channels / in_lanes, tiles * workload.out_channels / out_lanes
    before = down.to_cost * across.inputs + across.to_cost * down.points
    after = down.from_cost * across.points + across.from_cost * down.outputs
    read, written = down.inputs * across.inputs, down.outputs * across.outputs
    rows, columns = down.points * across.inputs, down.outputs * across.points
    return (
        (
            inputs * before / multiply_adds_per_cycle(in_lanes, machine),
            inputs * ((read + rows) / machine.vector_loads + (grid.points + rows) / machine.stores),
        ),
        (
            outputs * after / multiply_adds_per_cycle(out_lanes, machine),
            outputs
            * (
                (grid.points + columns + written * workload.other_inputs) / machine.vector_loads
                + (columns + written) / machine.stores
            ),
        ),
    )


def _candidates(workload: Conv2DWorkload, shared: int, target: Target) -> Iterator[tuple[int, ...]]:
    """All tiles whose group stays in the level-2 cache; where none does, those of one register tile per group."""
    grid = grid_of(workload)
    tile_bytes = 4 * grid.points * workload.in_channels
    limit = _TILES_PER_GROUP if shared else min(_TILES_PER_GROUP, target.l2 // _TILES_PART // tile_bytes)
    for rows, columns, blocks in _register_tiles(workload, grid, target):
        most = min(limit, target.l2 // _PRODUCTS_PART // (4 * grid.points * blocks * workload.out_block))
        wide = [c for c in range(columns, grid.columns + columns, columns) if c * rows <= most]
        for group_columns in wide or [columns]:
            yield rows, columns, blocks, rows, group_columns, shared
            for group_rows in range(2 * rows, grid.rows + 1, rows):
                if group_columns >= grid.columns and group_rows * group_columns <= most:
                    yield rows, columns, blocks, group_rows, group_columns, shared


def _register_tiles(workload: Conv2DWorkload, grid: Grid, target: Target) -> list[tuple[int, int, int]]:
    """(rows, columns, blocks) that fit the register file; several rows only if they are whole."""
    vectors = workload.out_block // power_of_two_lanes(workload.out_block, target)
    shapes = [(1, c) for c in range(1, grid.columns + 1)] + [(r, grid.columns) for r in range(2, grid.rows + 1)]
    return [
        (rows, columns, blocks)
        for rows, columns in shapes
        for blocks in divisors(workload.blocks, 4)
        if tile.fits(rows * columns, blocks * vectors, target) or (rows, columns, blocks) == (1, 1, 1)
    ]


def whole_tile(workload: Conv2DWorkload, group: tuple[int, int], target: Target) -> tuple[int, int, int]:
    """Rows, columns and blocks of the register tile with most multiply-adds a cycle of those that divide `group`."""
    rows, columns = group
    tiles = [(1, c, b) for c in divisors(columns, columns) for b in divisors(workload.blocks, 4)]
    tiles += [(r, columns, b) for r in divisors(rows, rows) for b in divisors(workload.blocks, 4)]
    vectors = workload.out_block // power_of_two_lanes(workload.out_block, target)

    def rate(positions: int, blocks: int) -> float:
        if not tile.fits(positions, blocks * vectors, target):
            return 0.0
        return positions * blocks / tile.step_cycles(positions, blocks * vectors, target)

    return max(tiles, key=lambda t: (rate(t[0] * t[1], t[2]), t))


@functools.lru_cache(maxsize=1024)
def choose_group(workload: Conv2DWorkload, symbolic: tuple[bool, bool], target: Target) -> tuple[int, int]:
    """Rows and columns of tiles that a worker takes at a time where height or width is symbolic, as it says of each.

    Those of the least cost in the mean over the sizes that an unknown one is likely to have: grids are made of whole
    groups.
    """
    grid = grid_of(workload)
    assert workload.filters is not None
    down, across = workload.filters
    sizes = [
        sorted({max(1, round(size * scale)) for scale in _LIKELY_SCALES}) if unknown else [size]
        for size, unknown in zip((grid.rows, grid.columns), symbolic, strict=True)
    ]
    most = max(1, min(_TILES_PER_GROUP, target.l2 // _PRODUCTS_PART // (4 * grid.points * workload.out_block)))

    def mean(group: tuple[int, int]) -> float:
        knobs = (*whole_tile(workload, group, target), *group)
        total = 0.0
        for rows in sizes[0]:
            for columns in sizes[1]:
                sized = replace(workload, height=rows * down.outputs, width=columns * across.outputs)
                config = Config(tuple(zip(KNOBS, (*knobs, 1), strict=True)))
                total += winograd_cost(sized, config, target).cycles / (rows * columns)
        return total

    groups = [(r, c) for r in range(1, 5) for c in range(1, 17) if r * c <= most]
    return min(groups, key=lambda group: (round(mean(group), 1), -group[0] * group[1]))
