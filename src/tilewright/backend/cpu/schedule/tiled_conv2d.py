"""Convolutions of bytes and bfloat16 blocked by channels: in matrix registers (AMX) or by dot products in vectors.

What a tile of matrix registers costs stands beside what dot products in vectors cost, in cycles of the same kind, so
that the choice between them is that of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright import te
from tilewright.backend.cpu.schedule.conv2d_cost import (
    direct_cost,
    direct_space,
    epilogue_cycles,
    padding_cost,
    shares,
    start,
)
from tilewright.backend.cpu.schedule.conv2d_workload import workload_of
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles, tile_steps
from tilewright.backend.cpu.schedule.tile_intrin import Window, step_bytes
from tilewright.target import Target
from tilewright.tir.dot_product import GROUP
from tilewright.tir.expr import IntImm
from tilewright.tir.matrix_tiles import PRODUCTS, ROW_BYTES, ROWS
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.stages import operands_of
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Values of the knob "matrix": tiles of the pixels of one row, and of all of several rows as if they were one.
BY_ROWS, FLAT = 1, 2

#: Pixels of a tile in matrix registers, at most: their sums are in memory until the epilogue reads them.
_PIXELS = 512

#: Cycles that a vector of sums spends between matrix registers and the epilogue beyond its store and load, which come
#: between the products and the rest and are hidden by neither. Measured on Emerald Rapids where 16 channels meet 96:
#: 5.7 cycles for a vector of the result, beside 4.2 of tiles in vectors, whose products take a cycle more.
_SUMS_IN_MEMORY = 2.5


@dataclass(frozen=True)
class DotConv2DWorkload(Conv2DWorkload):
    """A convolution whose operands have elements of `itemsize` bytes; `tiled` if matrix registers take its types."""

    itemsize: int = 1
    tiled: bool = True

    @property
    def as_floats(self) -> DotConv2DWorkload:
        """The convolution of floats with as many vectors of data, weights and steps."""
        group = GROUP // self.itemsize
        return replace(
            self,
            in_channels=max(1, self.in_channels // group),
            in_block=max(1, self.in_block // group),
            itemsize=GROUP,
        )


def dot_conv2d_workload(conv: te.Tensor, out: te.Tensor) -> DotConv2DWorkload:
    """The facts of `conv` (tag conv2d_dot_NCHWc) with its epilogue `out`."""
    facts, (data, weight) = workload_of(conv, out), operands_of(conv)
    static = all(isinstance(extent, IntImm) for extent in (*out.shape, *data.shape))
    tiled = static and (str(data.dtype), str(weight.dtype)) in PRODUCTS
    return DotConv2DWorkload(**vars(facts), itemsize=data.dtype.itemsize, tiled=tiled)


def conv2d_dot_space(workload: DotConv2DWorkload, target: Target) -> ConfigSpace:
    """Register tiles as of a convolution of floats, and with matrix registers tiles of these."""
    space = direct_space(workload, target, exact=False)
    if not multiplies_tiles(workload.itemsize, target):
        return space
    names = ("tile_rows", "tile_blocks", "tile_columns", "matrix")
    both = ConfigSpace()
    both.define_joint(names, [*_tiles(workload), *((*(c[name] for name in names[:3]), 0) for c in space)])
    return both


def _tiles(workload: DotConv2DWorkload) -> list[tuple[int, int, int, int]]:
    """Whole rows, or equal parts of one."""
    if not workload.tiled or workload.out_block % ROWS or workload.in_block * workload.itemsize > ROW_BYTES:
        return []
    height, width = workload.height, workload.width
    flat = workload.taps == 1 and workload.strides == (1, 1) and not workload.padded
    shapes = [(rows, width) for rows in divisors(height, height)]
    shapes += [(1, columns) for columns in divisors(width, width - 1)]
    fitting = [(rows, columns) for rows, columns in shapes if rows * columns <= _PIXELS] or [(1, 1)]
    return [(rows, 1, columns, FLAT if flat and columns == width else BY_ROWS) for rows, columns in fitting]


def window_of(workload: DotConv2DWorkload, config: Mapping[str, int]) -> Window:
    """The tile of a configuration with matrix registers."""
    blocks = workload.in_channels // workload.in_block
    return Window(
        config["tile_rows"],
        config["tile_columns"],
        workload.out_block,
        blocks,
        workload.in_block,
        workload.kernel_size,
        workload.strides,
        workload.dilation,
    )


def conv2d_dot_cost(workload: DotConv2DWorkload, config: Config, target: Target) -> Cost:
    """The cost of dot products in vectors or of tiles in matrix registers."""
    if config.get("matrix", 0):
        return _tiled_cost(workload, config, target)
    machine = target.machine
    plain = Config(tuple(item for item in config.items() if item[0] != "matrix"))
    rate = machine.dot_per_cycle if workload.itemsize == 1 else machine.pair_dot_per_cycle
    cost = direct_cost(workload.as_floats, plain, target)
    slower = machine.fma_per_cycle / (rate or machine.fma_per_cycle * workload.itemsize / GROUP)
    return replace(cost, arithmetic=slower * cost.arithmetic)


def _tiled_cost(workload: DotConv2DWorkload, config: Config, target: Target) -> Cost:
    """Each tile reads a panel of weights and its part of the image, and leaves its sums in memory."""
    machine, lanes, size = target.machine, target.machine.lanes(), workload.itemsize
    window = window_of(workload, config)
    tiles = window.tiles(config["matrix"] == FLAT)
    run, runs = window.runs()
    step = step_bytes(run * size)
    arithmetic, ports = tile_steps(*tiles, workload.out_block // ROWS, step, machine)
    steps = window.blocks * window.kernel[0] * runs * (run * size // step)
    pixels = window.height * window.width
    count = workload.height * workload.width // pixels  # of an image and a panel
    panels = workload.batch * workload.blocks
    workers, share = shares(panels * count, workload, target)
    scale = share * panels * count
    vectors = pixels * workload.out_block / lanes

    traffic, floats = Traffic(machine, workers), workload.as_floats
    panel = GROUP * floats.terms * workload.out_block
    part = GROUP * floats.in_channels * window.reach(0) * window.reach(1)
    everything = floats.weight_bytes + workload.batch * (floats.in_bytes + workload.out_bytes)
    traffic.stream(share * floats.weight_bytes, everything)
    traffic.add(scale * panel - share * floats.weight_bytes, panel + part)
    traffic.add(share * workload.batch * floats.in_bytes, everything)
    again = workload.blocks * count * part - floats.in_bytes
    traffic.add(share * workload.batch * max(0.0, again), floats.in_bytes + panel)
    traffic.add(scale * 2 * GROUP * pixels * workload.out_block, GROUP * pixels * workload.out_block + part)
    traffic.add(share * workload.batch * workload.out_bytes * (1 + workload.other_inputs), everything)
    written = vectors * (_SUMS_IN_MEMORY + 1 / machine.stores)
    return padding_cost(floats, target).then(
        traffic.cost(
            scale * steps * arithmetic + share * epilogue_cycles(workload, lanes, machine),
            scale * (steps * ports + vectors * (1 / machine.stores + 1 / machine.vector_loads)),
            scale * (machine.tile_start + written) + start(workers, machine),
        )
    )
