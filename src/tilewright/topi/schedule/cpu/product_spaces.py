"""The search spaces of matrix products: with packed panels, of batches, of bytes; ranked by `product_cost`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tilewright import te
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.topi.schedule.cpu.common import shape_of, terms_of
from tilewright.topi.schedule.cpu.product import (
    L2_SHARE,
    Blocking,
    Product,
    fits_registers,
    lanes_of_panel,
    product_cost,
)
from tilewright.topi.schedule.cpu.space import Config, ConfigSpace

#: Rows of a register tile, at most.
_TILE_ROWS = 28

#: Widths of a panel of columns of a batch of products; widest packed panel of a weight matrix, in vectors.
_PANELS, _WIDEST = (64, 48, 32, 16, 8), 6

#: Bytes of a panel that are asked for ahead, the usual distance first.
_AHEAD = (4096, 2048, 8192)


def row_axis_of(out: te.Tensor) -> int | None:
    """The axis of `out` whose elements are rows of tiles: the longest before the columns; None of a vector."""
    leading = shape_of(out)[:-1]
    return max(range(len(leading)), key=lambda i: leading[i], default=None)


def dense_product(dense: te.Tensor, out: te.Tensor) -> Product:
    """The workload of a product with packed weights and the epilogue `out`."""
    *leading, columns = shape_of(out)
    rows = max(leading, default=1)
    batch = math.prod(leading) // max(rows, 1)
    return Product(rows, columns, terms_of(dense), max(batch, 1))


def blocking_of(config: Config, panel: int) -> Blocking:
    """The blocking that a configuration stands for; knobs that a space lacks keep their defaults."""
    return Blocking(**{"panel": panel, **config.to_json()})


def worth_sharing(product: Product, blocking: Blocking, target: Target) -> bool:
    """True if several workers, a barrier included, are expected to be faster than one."""
    machine = target.machine
    alone = product_cost(product, blocking, machine, 1).cycles
    return product_cost(product, blocking, machine, max(target.cores, 2)).cycles < alone


def dense_space(dense: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A product with packed panels: all of `Blocking` but the width of a panel, which the weights' layout has."""
    product, panel = dense_product(dense, out), dense.op.attrs["block"]
    axis = row_axis_of(out)
    fixed = axis is None or isinstance(out.shape[axis], IntImm)
    candidates = blockings(product, panel, target, fixed)
    space = ConfigSpace()
    space.define_joint(("tile_rows", "block_tiles", "group", "ahead"), [tuple(b)[1:] for b in candidates])
    _rank(space, product, panel, target)
    return space


def blockings(product: Product, panel: int, target: Target, fixed: bool = True) -> list[Blocking]:
    """The ways to compute `product` in panels of this width; of one block if the number of rows is not `fixed`."""
    machine = target.machine
    vectors = panel // lanes_of_panel(panel, machine)
    panels = -(-product.columns // panel)
    tiles = [r for r in range(1, min(product.rows, _TILE_ROWS) + 1) if fits_registers(r, vectors, machine)]
    aheads = (*(max(1, distance // (panel * product.bytes)) for distance in _AHEAD), 0)
    found = []
    for rows in tiles:
        count = -(-product.rows // rows)
        for block in _row_blocks(product, panel, count, rows, target) if fixed else (0,):
            groups = (1,) if block == 0 and panels > 1 else _groups(panels, -(-count // (block or count)), target)
            found += [Blocking(panel, rows, block, group, ahead) for group in groups for ahead in aheads]
    return found


def _row_blocks(product: Product, panel: int, tiles: int, rows: int, target: Target) -> list[int]:
    """Tiles of a block of rows: all; an even share of each core; as many as the level-2 cache holds, evenly shared."""
    machine = target.machine
    line = product.depth * product.bytes
    held = max(1, int(L2_SHARE * machine.l2.size / line - 2 * panel) // rows)
    found = {0}
    for parts in {target.cores, -(-tiles // held), target.cores * -(-tiles // (held * target.cores))}:
        block = -(-tiles // parts)
        if 1 <= block < tiles:
            found.add(block)
    return sorted(found)


def _groups(panels: int, blocks: int, target: Target) -> list[int]:
    """Panels of a group: all; an even share of each core; one."""
    found = {1, -(-panels // target.cores)}
    if blocks >= target.cores:
        found.add(0)
    return sorted(found)


def _rank(space: ConfigSpace, product: Product, panel: int, target: Target) -> None:
    """Rank by predicted cycles, as a share of what the multiply-adds alone would take."""
    machine = target.machine
    rate = machine.dot_per_cycle * 4 if product.dots and machine.dot_per_cycle else machine.fma_per_cycle
    best = product.multiply_adds / (rate * machine.lanes() * target.cores)

    def share(config: Config) -> float:
        return (
            best / product_cost(product, blocking_of(config, config.get("panel", panel)), machine, target.cores).cycles
        )

    space.rank_by(share, lambda c: c["tile_rows"])


def batch_matmul_space(product: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A batch of products: the width of the panels of columns, rows of the register tile."""
    batch, rows, columns = shape_of(out)
    packed = bool(product.op.attrs["transpose_b"])
    workload = Product(rows, columns, terms_of(product), batch, constant=not packed)
    widths = [panel for panel in _PANELS if columns % panel == 0] or [min(columns, 32)]
    machine = target.machine
    pairs = [
        (panel, r)
        for panel in widths
        for r in range(1, min(rows, _TILE_ROWS) + 1)
        if fits_registers(r, panel // lanes_of_panel(panel, machine), machine)
    ]
    space = ConfigSpace()
    space.define_joint(("panel", "tile_rows"), pairs)
    _rank(space, workload, widths[0], target)
    return space


def dense_dot_space(dense: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A product of bytes: rows of the register tile; the width of a panel is in the layout of the weights."""
    *leading, columns = shape_of(out)
    rows = leading[dense.op.attrs["row_axis"]] if "row_axis" in dense.op.attrs else max(leading)
    panel, machine = dense.op.attrs["block"], target.machine
    vectors = panel // lanes_of_panel(panel, machine)
    workload = Product(rows, columns, terms_of(dense), math.prod(leading) // rows, bytes=1, dots=True)
    space = ConfigSpace()
    tiles = [r for r in range(1, min(rows, _TILE_ROWS) + 1) if fits_registers(r, vectors, machine, dots=True)]
    space.define_knob("tile_rows", tiles)
    _rank(space, workload, panel, target)
    return space


def dense_block(units: int, depth: int, rows: int, target: Target) -> int:
    """Width of the column panels in which a weight matrix [units, K] is packed to [units // b, K, b]; divides `units`.

    The width whose best blocking is expected to be the fastest for `rows` rows.
    """
    return _panel(Product(rows, units, depth), target)


def dot_block(units: int, depth: int, rows: int, target: Target) -> int:
    """As `dense_block`, for weights of bytes."""
    return _panel(Product(rows, units, depth, bytes=1, dots=True), target)


@functools.lru_cache(maxsize=4096)
def _panel(product: Product, target: Target) -> int:
    machine = target.machine
    widest = _WIDEST * machine.lanes()
    whole = math.gcd(product.columns, machine.lanes())
    widths = [b for b in range(whole, min(widest, product.columns) + 1, whole) if product.columns % b == 0]

    def cycles(panel: int) -> float:
        return min(product_cost(product, b, machine, target.cores).cycles for b in _candidates(product, panel, target))

    return min(widths, key=lambda b: (round(cycles(b), -1), -b))


def _candidates(product: Product, panel: int, target: Target) -> Sequence[Blocking]:
    if not product.dots:
        return blockings(product, panel, target)
    machine = target.machine
    vectors = panel // lanes_of_panel(panel, machine)
    tiles = [r for r in range(1, min(product.rows, _TILE_ROWS) + 1) if fits_registers(r, vectors, machine, dots=True)]
    return [Blocking(panel, r) for r in tiles]
