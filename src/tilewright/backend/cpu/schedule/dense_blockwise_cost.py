"""Products with weights of a few bits as a workload: the tiles that fit the registers, and what each costs.

A tile of rows reads a panel of bytes, takes their codes apart once, and spends a dot product of bytes for each digit of
each row. One row is bound by the bytes, many rows by the dot products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.cpu.schedule.code_tile import tile_heights
from tilewright.backend.cpu.schedule.common import power_of_two_lanes
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles
from tilewright.target import Target
from tilewright.tir.dot_product import GROUP
from tilewright.tir.matrix_tiles import ROW_BYTES, ROWS
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import shape_of, terms_of

#: Vectors of a panel: two keep enough independent sums for one row of three digits, and leave registers for more rows.
_VECTORS = 2

#: Rows of a register tile, at most.
_TILE_ROWS = 12

#: Rows of a tile in matrix registers, at least: its sums go through memory.
_LOWEST = 7

#: Operations that take a code of fewer than eight bits out of its byte, on average: a shift and a mask, or one of them.
_UNPACKING = 1.5

#: Operations that add the sums of a block to the result, beside one for each digit: joined, scaled, added.
_JOINING = 4

#: Multiply-adds of a dot product that takes several instructions, in each lane.
_PRODUCTS = 4


@dataclass(frozen=True)
class BlockwiseWorkload:
    """[rows, depth] by [depth, columns] in panels; codes of `bits` in blocks of `block`, activations of `digits`."""

    rows: int
    columns: int
    depth: int
    block: int
    panel: int
    bits: int
    digits: int
    table: bool = False

    @property
    def panel_bytes(self) -> int:
        """The bytes of a panel, with a float32 scale for each block and column."""
        return self.panel * (self.depth * self.bits // 8 + 4 * (self.depth // self.block))


def blockwise_workload(dense: te.Tensor, out: te.Tensor) -> BlockwiseWorkload:
    """The workload of `dense` (tag dense_blockwise: [rows, N/b, b])."""
    rows, _, panel = shape_of(dense)
    bits, digits, block = (dense.op.attrs[name] for name in ("bits", "digits", "block"))
    table = "table" in dense.op.attrs
    columns, depth = shape_of(out)[-1], terms_of(dense) * block
    return BlockwiseWorkload(max(rows, 1), columns, depth, block, panel, bits, digits, table)


def blockwise_space(workload: BlockwiseWorkload, target: Target) -> ConfigSpace:
    """Rows of the register tile; a single one may always be tried."""
    vectors = workload.panel // power_of_two_lanes(workload.panel, target)
    most = min(workload.rows, _TILE_ROWS)
    fitting = [rows for rows in range(most, 1, -1) if _registers(workload, rows, vectors) <= target.vector_registers]
    vectors_only = [(rows, 0) for rows in (*fitting, 1)]
    space = ConfigSpace()
    if not _multiplies_tiles(workload, target):
        space.define_knob("tile_rows", [rows for rows, _ in vectors_only])
        return space
    heights = tile_heights(workload.digits, workload.panel)
    tiles = [(high * n, n) for n in heights for high in range(ROWS, _LOWEST - 1, -1) if workload.rows % (high * n) == 0]
    space.define_joint(("tile_rows", "matrix"), [*tiles, *vectors_only])
    return space


def _multiplies_tiles(workload: BlockwiseWorkload, target: Target) -> bool:
    """True if matrix registers can take the codes and digits of a block, and the columns fill their panels."""
    whole = workload.block <= ROW_BYTES or workload.block % ROW_BYTES == 0
    whole = whole and workload.columns % workload.panel == 0
    return whole and not workload.table and workload.panel % ROWS == 0 and multiplies_tiles(1, target)


def _registers(workload: BlockwiseWorkload, rows: int, vectors: int) -> int:
    """Sums of each digit and their total, a byte vector with its fields, the mask, and a value that is broadcast."""
    return rows * vectors * (workload.digits + 1) + 4


def blockwise_cost(workload: BlockwiseWorkload, config: Mapping[str, int], target: Target) -> Cost:
    """The cost for the busiest worker."""
    machine, rows = target.machine, min(config["tile_rows"], workload.rows)
    vectors = workload.panel // power_of_two_lanes(workload.panel, target)
    panels = -(-workload.columns // workload.panel)
    workers = min(machine.cores, panels)
    mine = -(-panels // workers)
    steps, blocks = workload.depth / GROUP, workload.depth / workload.block
    if config.get("matrix", 0):
        chunks = blocks * -(-workload.block // ROW_BYTES)
        dots = vectors * workload.digits * chunks * machine.tile_product / ROWS
    else:
        dots = vectors * workload.digits * steps / (machine.dot_per_cycle or machine.fma_per_cycle / _PRODUCTS)
    joined = vectors * blocks * (workload.digits + _JOINING) / machine.fma_per_cycle
    unpacked = vectors * steps * (_UNPACKING if workload.bits < 8 else 0.0) / machine.fma_per_cycle
    tiles = -(-workload.rows // rows)
    broadcasts = workload.rows * workload.digits * steps / machine.broadcast_loads
    loads = tiles * vectors * steps * workload.bits / 8 / machine.vector_loads
    bytes_ = workload.panel_bytes * panels
    far = machine.read_l3 if bytes_ <= machine.l3.size else machine.read_memory
    return Cost(
        arithmetic=mine * (workload.rows * (dots + joined) + tiles * unpacked),
        load_ports=mine * (broadcasts + loads),
        l2=mine * tiles * workload.panel_bytes / machine.read_l2.share(workers),
        memory=mine * workload.panel_bytes / far.share(workers),
        fixed=machine.kernel_start + (machine.barrier if workers > 1 else 0.0),
    )


def takes_matrix_registers(rows: int, target: Target) -> bool:
    """True if tiles of matrix registers divide so many rows."""
    return multiplies_tiles(1, target) and any(rows % high == 0 for high in range(_LOWEST, ROWS + 1))


def blockwise_panel(units: int, target: Target) -> int:
    """Columns of a panel: a few vectors; 0 where `units` do not fill one."""
    lanes = target.machine.lanes()
    return min(_VECTORS, units // lanes) * lanes
