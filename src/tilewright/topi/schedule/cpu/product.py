"""Matrix products as a workload, the ways to compute one, and what each costs in predicted cycles.

    for each share of (row blocks x panel groups)                  one parallel iteration
      for each panel of the group                                  panel: columns of the weights, [depth, panel]
        for each tile of the block's rows
          for k in depth: tile_rows broadcasts meet panel / lanes vectors in registers

A panel is read once for every tile of rows, a tile's input once for every panel. Where each reading comes from follows
from what has passed through a cache since the last one: that is the whole model of memory here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.machine import Machine

#: What the arithmetic does not hide of the load ports' time, and of the level-2 cache's: they compete for slots.
_EXPOSED_PORTS, _EXPOSED_L2 = 0.2, 0.45

#: What the greater of the work in a core and prefetched weights does not hide of the lesser. Without prefetch: all.
_EXPOSED_PREFETCHED = 0.3

#: Shares of a cache that data stay in while other data pass by.
L1_SHARE, L2_SHARE = 0.75, 0.7


@dataclass(frozen=True)
class Product:
    """`batch` products of [rows, depth] by [depth, columns].

    `bytes` is the size of an element of both operands; products of bytes are `dots`, four at a time. `constant` weights
    come packed in panels; others are packed by the kernel, once for each matrix.
    """

    rows: int
    columns: int
    depth: int
    batch: int = 1
    bytes: int = 4
    constant: bool = True
    dots: bool = False

    @property
    def multiply_adds(self) -> int:
        """Of the whole product."""
        return self.batch * self.rows * self.columns * self.depth


class Blocking(NamedTuple):
    """One way to compute a product: the register tile, the blocks of rows, the groups of panels, the prefetch.

    `panel` is the width of a panel; `block_tiles` tiles of rows pass by a panel before the next comes (0: all);
    `group` panels are one worker's (0: all); weights are prefetched `ahead` steps of the depth (0: not).
    """

    panel: int
    tile_rows: int
    block_tiles: int = 0
    group: int = 1
    ahead: int = 0


@dataclass(frozen=True)
class ProductCost:
    """Cycles of the worker with the largest share, by what asks for them; the greatest is the bound.

    `weights` and `input` are what comes of either from beyond the level-2 cache.
    """

    arithmetic: float
    load_ports: float
    l2: float
    weights: float
    input: float
    overhead: float
    prefetched: bool

    @property
    def cycles(self) -> float:
        """All together: the greatest, and what it does not hide of the others."""
        parts = (
            (self.arithmetic, self.arithmetic),
            (self.load_ports, _EXPOSED_PORTS * self.load_ports),
            (self.l2, _EXPOSED_L2 * self.l2),
        )
        greatest, hidden = max(parts)
        core = greatest + sum(exposed for _, exposed in parts) - hidden + self.input
        lesser, greater = sorted((core, self.weights))
        return greater + (_EXPOSED_PREFETCHED if self.prefetched else 1.0) * lesser + self.overhead


def lanes_of_panel(panel: int, machine: Machine, bits: int = 32) -> int:
    """Lanes of the vectors of a panel: the largest power of two that divides it and fits a register."""
    return math.gcd(panel, max(4, machine.lanes(bits)))


def fits_registers(rows: int, vectors: int, machine: Machine, dots: bool = False) -> bool:
    """True if accumulators, one step's weights and a broadcast value fit the vector registers.

    A single vector of weights needs no register for the broadcasts, which are operands in memory. Dot products without
    an instruction for them hold even and odd bytes of both operands apart, and their products.
    """
    if dots and not machine.dot_per_cycle:
        return rows * vectors + 2 * vectors + 3 <= max(machine.vector_registers, 3 * vectors + 3)
    broadcast = 1 if vectors > 1 else 0
    return rows * vectors + vectors + broadcast <= machine.vector_registers - 1 or rows == 1


def product_cost(product: Product, blocking: Blocking, machine: Machine, cores: int) -> ProductCost:
    """What `product` costs computed as `blocking` says, on `cores` workers of `machine`."""
    panel, rows = blocking.panel, min(blocking.tile_rows, product.rows)
    tiles = -(-product.rows // rows)
    block_tiles = min(blocking.block_tiles or tiles, tiles)
    panels = -(-product.columns // panel)
    group = min(blocking.group or panels, panels)
    blocks, groups = -(-tiles // block_tiles), -(-panels // group)
    shares = product.batch * blocks * groups
    mine = -(-shares // min(cores, shares))
    passes = min(product.batch * tiles * panels, mine * group * block_tiles)  # tiles that the busiest worker computes

    arithmetic, ports = _steps(product, rows, panel, machine)
    last = product.rows - (tiles - 1) * rows
    if last != rows:
        tail_arithmetic, tail_ports = _steps(product, last, panel, machine)
        arithmetic += (tail_arithmetic - arithmetic) / tiles
        ports += (tail_ports - ports) / tiles
    workers = cores if shares > 1 else 1
    l2, weights, data = _traffic(product, blocking, (block_tiles, group, groups, mine), passes, machine, workers)
    vectors = panel // lanes_of_panel(panel, machine)
    start = machine.fma_latency + machine.load_latency + rows * vectors * (0.5 + 1 / machine.stores)
    fixed = machine.kernel_start + (machine.barrier if cores > 1 and shares > 1 else 0.0)
    if blocking.ahead:
        ports += product.depth * vectors / machine.vector_loads
    overhead = passes * start + fixed
    prefetched = blocking.ahead > 0
    return ProductCost(passes * arithmetic, passes * ports, l2, weights, data, overhead, prefetched)


def _steps(product: Product, rows: int, panel: int, machine: Machine) -> tuple[float, float]:
    """Cycles of one tile over the whole depth: of its arithmetic, of its loads."""
    lanes = lanes_of_panel(panel, machine)
    vectors = panel // lanes
    steps = product.depth / 4 if product.dots else product.depth
    rate = machine.fma_per_cycle if lanes == machine.lanes() else machine.half_fma_per_cycle
    latency = float(machine.fma_latency)
    if product.dots:
        rate = machine.dot_per_cycle or machine.fma_per_cycle / 4
    spilled = 1.0 if fits_registers(rows, vectors, machine, product.dots) else 3.0
    arithmetic = max(rows * vectors / rate, latency if product.depth > 1 else 0.0)
    ports = vectors / machine.vector_loads + rows / machine.broadcast_loads
    return steps * arithmetic * spilled, steps * ports * spilled


def _traffic(
    product: Product,
    blocking: Blocking,
    share: tuple[int, int, int, int],
    passes: float,
    machine: Machine,
    workers: int,
) -> tuple[float, float, float]:
    """Cycles of the busiest worker's traffic: from its level-2 cache; of weights and of input from beyond it.

    A panel stays in the level-1 cache for the tiles of a block where it and a tile's input fit there; the input of a
    block stays in the level-2 cache for the panels that follow one another where both fit there.
    """
    block_tiles, group, groups, mine = share
    tile = min(blocking.tile_rows, product.rows) * product.depth * product.bytes
    panel = blocking.panel * product.depth * product.bytes
    block = tile * block_tiles
    sequence = group * min(mine, groups)  # panels that a block of rows meets one after the other
    turns = passes / (block_tiles * sequence)  # blocks of rows
    l1, l2 = L1_SHARE * machine.l1.size, L2_SHARE * machine.l2.size

    panel_reads = panel * sequence * turns * (1 if block_tiles == 1 or panel + 2 * tile <= l1 else block_tiles)
    input_reads = block * turns * (1 if block + 2 * panel <= l1 else sequence)
    written = passes * min(blocking.tile_rows, product.rows) * blocking.panel * 4 * machine.write_factor
    weights = panel * sequence * (1 if panel * sequence + block <= l2 else turns)
    data = block * turns * (1 if block + 2 * panel <= l2 else sequence)

    output = product.batch * product.rows * product.columns * 4
    whole = product.batch * product.bytes * (product.columns + product.rows) * product.depth + output
    level = machine.read_l3 if whole <= machine.l3.size else machine.read_memory
    near, far = (
        bandwidth.one if workers == 1 else min(bandwidth.one, bandwidth.all / workers)
        for bandwidth in (machine.read_l2, level)
    )
    if whole <= l2 * workers:
        far = near
    else:
        data += written
    return (panel_reads + input_reads + written) / near, weights / far, data / far
