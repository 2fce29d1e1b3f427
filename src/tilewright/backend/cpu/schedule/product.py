"""Matrix products as a workload, the ways to compute one, and what each costs.

    for each share of (row blocks x panel groups)                  one parallel iteration
      for each panel of the group                                  panel: columns of the weights, [depth, panel]
        for each tile of the block's rows
          for k in depth: tile_rows broadcasts meet panel / lanes vectors in registers

A panel is read once for every tile of rows, a tile's input once for every panel. Where each reading comes from follows
from what has passed through a cache since the last one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright import te
from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.common import power_of_two_lanes
from tilewright.backend.cpu.schedule.tile_cost import tile_steps
from tilewright.backend.cpu.schedule.tile_intrin import step_bytes, tile_starts
from tilewright.machine import Machine
from tilewright.target import Target
from tilewright.tir.dot_product import GROUP
from tilewright.tir.expr import IntImm
from tilewright.tir.matrix_tiles import ROWS
from tilewright.topi.schedule.cost import Cost, looked_ahead
from tilewright.topi.schedule.stages import shape_of, terms_of

#: Cycles in which a core clears a vector of sums: two a cycle, whatever they are added on.
_CLEARED = 0.5

#: Instructions of four products in pairs: pmaddubsw, pmaddwd by ones, an addition.
_PAIRED = 3

#: Operands are rounded if the product is expected to take at most this share of its time without.
WORTH_ROUNDING = 0.9

#: Time of sums of float16, which are added up in float32 after 32 products each, beside that of their multiply-adds.
WITH_ADDING_UP = 1.25

#: Of symbolic rows, as many count like a run of a single row: that takes this long where it reads weights from memory.
_ROWS_OF_ONE = 32

#: Lengths of short runs with symbolic rows, which count together as much as the likely one: whole tiles fit them badly.
_SHORT_RUNS = (32, 64, 128)


@dataclass(frozen=True)
class ProductWorkload:
    """`batch` products of [rows, depth] by [depth, columns], in panels of `panel` columns (0: the template's choice).

    `itemsize` is that of both operands in bytes; those of bytes and bfloat16 are `dots`, four or two at a time, and may
    be in matrix registers (`tiled`); `halves` are float16, in tiles of vectors. Bytes may be added `in_pairs` in 16
    bits, where the processor adds no four, of data copied in an order of each panel (`ordered`). `constant` weights
    come packed; others are packed by the kernel, once for each matrix. Of symbolic `rows` there is one block. Of
    `cropped` columns the last are zeros that nobody reads. `row_group` rows lie together in the copy of a transposed
    matrix (0: there is none). A size of 0 counts as 1: what computes nothing is priced.
    """

    rows: int
    columns: int
    depth: int
    panel: int = 0
    batch: int = 1
    itemsize: int = 4
    constant: bool = True
    dots: bool = False
    tiled: bool = False
    halves: bool = False
    symbolic: bool = False
    cropped: bool = False
    in_pairs: bool = False
    ordered: bool = False
    row_group: int = 0

    def __post_init__(self) -> None:
        for size in ("rows", "columns", "depth", "batch"):
            object.__setattr__(self, size, max(1, getattr(self, size)))


class Blocking(NamedTuple):
    """One way to compute a product: the register tile, the blocks of rows, the groups of panels, the prefetch.

    `panel` is the width of a panel; `block_tiles` tiles of rows pass by a panel before the next comes (0: all);
    `group` panels are one worker's (0: all); while one is in use, that `ahead` of it is brought to the level-2 cache.
    A share does all its tiles for each of `depth_blocks` parts of the depth, and adds them up in memory of its own.
    The rows of a tile of `matrix` pass through matrix registers, their sums through memory.
    """

    panel: int
    tile_rows: int
    block_tiles: int = 0
    group: int = 1
    ahead: int = 0
    depth_blocks: int = 1
    matrix: int = 0

    @staticmethod
    def of(workload: ProductWorkload, config: Mapping[str, int]) -> Blocking:
        """The blocking of a configuration; knobs that its space lacks keep their defaults."""
        return Blocking(**{"panel": workload.panel, **config})


class _Shares(NamedTuple):
    """The division of a product among workers: `groups` of panels for each block of rows, and the busiest worker's part
    of all.
    """

    block_tiles: int
    group: int
    groups: int
    mine: int
    passes: int
    workers: int


def leading_of(dense: te.Tensor) -> tuple[int, ...]:
    """The extents of `dense` before its columns, which are groups of vectors where some are left out later."""
    return tuple(shape_of(dense)[: dense.op.attrs.get("rows", dense.ndim - 1)])


def row_axis_of(dense: te.Tensor) -> int | None:
    """The axis of `dense` whose elements are rows of tiles: the longest before the columns; None of a vector."""
    leading = leading_of(dense)
    return max(range(len(leading)), key=lambda i: leading[i], default=None)


def dense_workload(dense: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """A product with packed panels; the width of a panel is in the layout of the weights."""
    leading = leading_of(dense)
    columns = math.prod(shape_of(dense)[len(leading) :])
    rows, axis = max(leading, default=1), row_axis_of(dense)
    symbolic = axis is not None and not isinstance(dense.shape[axis], IntImm)
    batch = math.prod(leading) // max(rows, 1)  # a result without rows is kept where a run checks symbolic sizes
    cropped = dense.ndim > len(leading) + 1
    block = dense.op.attrs["block"]
    return ProductWorkload(rows, columns, terms_of(dense), block, batch, symbolic=symbolic, cropped=cropped)


def half_tile(panel: int, target: Target) -> tuple[int, int]:
    """The float16 of a vector of sums, of which there are two for each column, and the most rows of a tile of such."""
    lanes = target.machine.lanes()
    found = (high for high in range(target.machine.vector_registers, 1, -1) if tile.fits(high, panel // lanes, target))
    return 2 * lanes, next(found, 1)


def fits_registers(rows: int, panel: int, target: Target) -> bool:
    """True if a tile of `rows` by a panel fits the vector registers; one of a single row may always be tried."""
    return rows == 1 or tile.fits(rows, panel // power_of_two_lanes(panel, target), target)


def product_cost(workload: ProductWorkload, config: Mapping[str, int], target: Target) -> Cost:
    """The cost of `workload` for the busiest worker, computed as `config` says.

    Of symbolic rows a single one, as a decoder has in most of its runs, counts as well, and so do short runs, whose
    last tile is a whole one.
    """
    blocking, cores = Blocking.of(workload, config), target.machine.cores
    cost = blocking_cost(workload, blocking, target, cores)
    if not workload.symbolic:
        return cost
    single = blocking_cost(replace(workload, rows=1, batch=1), blocking, target, cores)
    cost = cost.then(single.times(workload.batch * workload.rows / _ROWS_OF_ONE))
    for length in _SHORT_RUNS:
        whole = -(-length // blocking.tile_rows) * blocking.tile_rows
        short = blocking_cost(replace(workload, rows=whole), blocking, target, cores)
        cost = cost.then(short.times(workload.rows / length / len(_SHORT_RUNS)))
    return cost


def worth_sharing(workload: ProductWorkload, blocking: Blocking, target: Target) -> bool:
    """True if several workers, the barrier at their end included, are expected to be faster than one."""
    alone = blocking_cost(workload, blocking, target, 1).cycles
    return blocking_cost(workload, blocking, target, max(target.machine.cores, 2)).cycles < alone


def blocking_cost(workload: ProductWorkload, blocking: Blocking, target: Target, cores: int) -> Cost:
    """The cost of `workload` for the busiest of `cores` workers, computed as `blocking` says."""
    machine = target.machine
    panel, rows = blocking.panel, min(blocking.tile_rows, workload.rows)
    shares = _shares(workload, blocking, cores)
    tiles, last = divmod(workload.rows, rows)
    steps = _matrix_steps if blocking.matrix else _steps
    arithmetic, ports = steps(workload, rows, panel, target)
    if last:
        tail_arithmetic, tail_ports = steps(workload, last, panel, target)
        arithmetic = (tiles * arithmetic + tail_arithmetic) / (tiles + 1)
        ports = (tiles * ports + tail_ports) / (tiles + 1)
    vectors = panel // power_of_two_lanes(panel, target)
    if blocking.ahead:
        ports += _depth_steps(workload) * max(1.0, vectors / shares.block_tiles) / machine.vector_loads
    start = machine.fma_latency + machine.load_latency + rows * vectors * (_CLEARED + 1 / machine.stores)
    if (
        blocking.depth_blocks > 1
    ):  # each vector of sums is fetched, added to and stored, and nothing else is done meanwhile
        start = blocking.depth_blocks * (start + rows * vectors * machine.load_latency)
    cost = Cost(
        arithmetic=shares.passes * arithmetic,
        load_ports=shares.passes * ports,
        fixed=shares.passes * start + machine.kernel_start + (machine.barrier if shares.workers > 1 else 0.0),
    )
    unasked = looked_ahead(vectors + rows * vectors + rows, max(1.0, 4 * panel / machine.line), machine)
    return _with_traffic(cost, workload, blocking, shares, machine, unasked)


def rounding_cycles(elements: int, itemsize: int, target: Target) -> float:
    """Cycles of a kernel that reads so many floats and writes them in `itemsize` bytes each, to be read again."""
    machine = target.machine
    return elements * (4 + itemsize * (1 + machine.write_factor)) / machine.read_l2.one + machine.kernel_start


def _shares(workload: ProductWorkload, blocking: Blocking, cores: int) -> _Shares:
    tiles, panels = -(-workload.rows // blocking.tile_rows), -(-workload.columns // blocking.panel)
    block_tiles = min(blocking.block_tiles or tiles, tiles)
    group = min(blocking.group or panels, panels)
    groups = -(-panels // group)
    count = workload.batch * -(-tiles // block_tiles) * groups
    workers = min(cores, count)
    mine = -(-count // workers)
    passes = min(workload.batch * tiles * panels, mine * group * block_tiles)
    return _Shares(block_tiles, group, groups, mine, passes, workers)


def _steps(workload: ProductWorkload, rows: int, panel: int, target: Target) -> tuple[float, float]:
    """Cycles of one tile over the whole depth: of its arithmetic, of its loads."""
    machine = target.machine
    lanes = power_of_two_lanes(panel, target)
    vectors = panel // lanes
    rate = machine.fma_per_cycle if lanes == machine.lanes() else machine.half_fma_per_cycle
    steps = _depth_steps(workload)
    if workload.dots:
        slowly = rate / _PAIRED if workload.in_pairs else rate * steps / workload.depth
        rate = (machine.dot_per_cycle if workload.itemsize == 1 else machine.pair_dot_per_cycle) or slowly
    arithmetic = max(rows * vectors / rate, float(machine.fma_latency))
    ports = vectors / machine.vector_loads + rows / machine.broadcast_loads
    if workload.ordered:  # a vector is permuted and its bytes turned, loaded and stored
        arithmetic += rows / lanes * 2 / machine.fma_per_cycle
        ports += rows / lanes * (1 / machine.vector_loads + 1 / machine.stores)
    return steps * arithmetic, steps * ports


def _depth_steps(workload: ProductWorkload) -> float:
    """Steps of a tile in vector registers: a dot product takes several terms of the depth."""
    return workload.depth * workload.itemsize / GROUP if workload.dots else workload.depth


def _matrix_steps(workload: ProductWorkload, rows: int, panel: int, target: Target) -> tuple[float, float]:
    """The same of rows in matrix registers, or of float16: two of each column a step."""
    if workload.halves:
        _, most = half_tile(panel, target)
        high, tops = tile_starts(rows, most)
        steps = workload.depth / 2 * len(tops)
        cycles = tile.step_cycles(high, panel // target.machine.lanes(), target)
        return steps * cycles * WITH_ADDING_UP, 0.0
    high, starts = tile_starts(rows)
    depth = workload.depth * workload.itemsize
    step = step_bytes(depth)
    arithmetic, ports = tile_steps(1, high, starts, panel // ROWS, step, target.machine)
    return depth // step * arithmetic, depth // step * ports


class _Bytes(NamedTuple):
    """The traffic of the busiest worker of a product: `near` data from the level-2 cache, packed `weights` and other
    `data` from beyond it.
    """

    near: float
    weights: float
    data: float
    written: float


def _bytes(workload: ProductWorkload, blocking: Blocking, shares: _Shares, machine: Machine) -> _Bytes:
    """A panel stays in the level-1 cache for the tiles of a block where it and two tiles' input fit there; the input of
    a block stays in the level-2 cache for the panels that follow one another where it and two of these fit there."""
    rows, parts = min(blocking.tile_rows, workload.rows), blocking.depth_blocks
    bytes_deep = workload.depth * workload.itemsize / parts
    stripe, panel = rows * bytes_deep, blocking.panel * bytes_deep  # of the input, a tile's
    block = min(stripe * shares.block_tiles, workload.rows * bytes_deep)
    sequence = shares.group * min(shares.mine, shares.groups)  # panels that a block of rows meets one after the other
    turns = parts * shares.passes / (shares.block_tiles * sequence)  # blocks of rows and of the depth
    share = machine.panels_l2 if workload.constant else machine.kept_l2
    l1, l2 = machine.panels_l1 * machine.l1.size, share * machine.l2.size

    rereads = 1 if panel + 2 * stripe <= l1 else shares.block_tiles
    written = shares.passes * rows * blocking.panel * 4 * machine.write_factor
    sums = written * parts if parts > 1 else 0.0
    near = turns * (panel * sequence * rereads + block * (1 if block + 2 * panel <= l1 else sequence)) + sums
    weights = panel * sequence * (parts if panel * sequence + block <= l2 else turns)
    data = block * turns * (1 if block + 2 * panel <= l2 else sequence) + written
    kept = shares.block_tiles * rows * shares.group * blocking.panel * 4
    return _Bytes(near, weights, data + (sums if block + 2 * panel + kept > l2 else 0.0), written)


def _with_traffic(
    cost: Cost, workload: ProductWorkload, blocking: Blocking, shares: _Shares, machine: Machine, unasked: float
) -> Cost:
    """`cost` with the busiest worker's traffic, of whose latency the core hides the share `unasked` by itself."""
    moved = _bytes(workload, blocking, shares, machine)
    operands = workload.batch * workload.itemsize * (workload.columns + workload.rows) * workload.depth
    whole = operands + workload.batch * workload.rows * workload.columns * 4
    rates = [level.share(shares.workers) for level in (machine.read_l2, machine.read_l3, machine.read_memory)]
    l2_cycles = (moved.near + moved.written) / rates[0]
    # a panel that was just packed is one run of lines, but not with rows in groups
    waited = machine.l2_stall if workload.constant or workload.row_group else 0.0
    cost = replace(cost, l2=l2_cycles, stalls=waited * l2_cycles)
    if whole <= machine.panels_l2 * machine.l2.size * shares.workers:
        return cost
    far = rates[1] if whole <= machine.l3.size else rates[2]
    streamed = moved.weights / far
    core = replace(cost, fixed=0.0).cycles
    hidden = (machine.prefetched if blocking.ahead else unasked) * min(core, streamed)
    stalls = cost.stalls + (0.0 if blocking.ahead else waited * (1 - unasked) * min(core, streamed))
    beyond = streamed + moved.data / far
    if whole <= machine.l3.size:
        return replace(cost, stalls=stalls, hidden=hidden, l3=beyond)
    return replace(cost, stalls=stalls, hidden=hidden, memory=beyond)
