"""The templates of matrix products: their workloads, their search spaces, and the width of packed panels."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

from tilewright import te
from tilewright.backend.cpu.schedule.cache_sets import rows_in_sets
from tilewright.backend.cpu.schedule.dense import schedule_batch_matmul, schedule_dense
from tilewright.backend.cpu.schedule.dot_product import schedule_conv2d_dot, schedule_dense_dot
from tilewright.backend.cpu.schedule.product import (
    WORTH_ROUNDING,
    Blocking,
    ProductWorkload,
    dense_workload,
    fits_registers,
    product_cost,
    rounding_cycles,
)
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles
from tilewright.backend.cpu.schedule.tile_intrin import step_bytes
from tilewright.backend.cpu.schedule.tiled_conv2d import conv2d_dot_cost, conv2d_dot_space, dot_conv2d_workload
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.tir.matrix_tiles import PRODUCTS, ROW_BYTES, ROWS
from tilewright.topi import tag
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.stages import has_tag, shape_of, terms_of
from tilewright.topi.schedule.template import Template
from tilewright.topi.schedule.workload import DotShape

#: Rows of a register tile, at most.
_TILE_ROWS = 28

#: Rows whose sums in matrix registers are stored before the epilogue reads them: at least, where there are as many (a
#: row of an image of 7 x 7), and at most.
_LOWEST, _MATRIX_ROWS = 7, 512

#: Rows of a tile of dot products from which its loads take at most two thirds of the time of its products; in matrix
#: registers four tiles, whose sums are held at once, leave the ports free half of the time.
_SPARE_LOADS, _SPARE_TILES = 4, 4 * ROWS

#: Parts of the depth, at most.
_DEPTH_BLOCKS = 16

#: The depth is filled up with zeros where steps would fill less of the rows of matrix registers.
_FILLED = 0.75

#: Widths of the panels of columns of a batch of products, in vectors; widest packed panel of a weight matrix.
_VECTORS, _WIDEST = (4, 3, 2, 1), 6

#: Units of a panel with an order of its own, at most: among 16 inputs of bert's layers, whose weights are spread over
#: 8 bits, there are pairs that fit for all of 16 units always, of 32 in 99.99 % of the cases, and of 48 in 97 %.
_ORDERED_UNITS = 32

#: Columns of zeros are added if the product is expected to take at most this share of its time without them.
_WORTH_FILLING = 0.9


def dense_dot_workload(dense: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """A product of bytes or bfloat16 with packed panels; rows that the data are filled up with are left out."""
    *leading, panels, block = shape_of(dense)
    rows = leading[dense.op.attrs["row_axis"]] if "row_axis" in dense.op.attrs else max(leading)
    data, weight, depth = *dense.op.input_tensors[:2], terms_of(dense)
    size = data.dtype.itemsize
    static = all(isinstance(extent, IntImm) for extent in (*dense.shape, *data.shape))
    ordered = has_tag(data, tag.IN_ORDER)
    tiled = (
        static
        and not ordered
        and leading.index(rows) == len(leading) - 1
        and (str(data.dtype), str(weight.dtype)) in PRODUCTS
    )
    batch, halves = math.prod(leading) // rows, str(data.dtype) == "float16"
    rows = min(rows, math.prod(shape_of(out)[:-1])) if batch == 1 else rows
    tiled, in_pairs = tiled or halves, dense.op.attrs.get("in_pairs", False)
    product = ProductWorkload(rows, panels * block, depth, block, batch, size, dots=True, tiled=tiled, halves=halves)
    return replace(product, in_pairs=in_pairs, ordered=ordered)


def batch_matmul_workload(product: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """A batch of products, columns that are padded included; a transposed operand is packed by the kernel."""
    batch, rows, *columns = shape_of(product)
    copies = (shape_of(t)[-1] for t in product.op.input_tensors if t.op.name == "packed_a")
    return ProductWorkload(
        rows, math.prod(columns), terms_of(product), batch=batch, constant=False, row_group=next(copies, 0)
    )


def dense_space(workload: ProductWorkload, target: Target) -> ConfigSpace:
    """All of `Blocking` but the width of a panel, which is in the layout of the weights."""
    space = ConfigSpace()
    names = ("tile_rows", "block_tiles", "group", "ahead", "depth_blocks")
    space.define_joint(names, [blocking[1 : 1 + len(names)] for blocking in _blockings(workload, target)])
    return space


def batch_matmul_space(workload: ProductWorkload, target: Target) -> ConfigSpace:
    """The width of the panels of columns, rows of the register tile; of rows in groups, the blocks that are copied."""
    lanes = target.machine.lanes()
    widths = [count * lanes for count in _VECTORS if workload.columns % (count * lanes) == 0]
    widths = widths or [w for w in (lanes // 2, lanes // 4) if w and workload.columns % w == 0]
    space = ConfigSpace()
    widths = widths or [min(workload.columns, 2 * lanes)]
    most, together = _rows_apart(workload, target), workload.row_group
    pairs = [(w, r) for w in widths for r in _tile_rows(workload, w, target) if r <= most]
    if not together:
        space.define_joint(("panel", "tile_rows"), pairs)
        return space
    whole = [(w, r) for w, r in pairs if r % together == 0 or r == 1]
    names = ("panel", "tile_rows", "block_tiles", "group", "depth_blocks")
    space.define_joint(names, [c for w, r in whole for c in _grouped_blockings(replace(workload, panel=w), r, target)])
    return space


def _grouped_blockings(workload: ProductWorkload, rows: int, target: Target) -> list[tuple[int, ...]]:
    """Blocks of tiles of rows in groups, of the whole depth or of equal parts that the level-2 cache has need of."""
    tiles, panel = -(-workload.rows // rows), workload.panel
    found: list[tuple[int, ...]] = [
        (panel, rows, b, 0 if b else 1, 1) for b in _row_blocks(workload, tiles, rows, target)
    ]
    fewest = _depth_blocks(workload, 2 * panel, target)
    if fewest == 1 or rows == 1:
        return found
    for parts in range(fewest, _DEPTH_BLOCKS + 1):
        if workload.depth % parts == 0:
            part = replace(workload, depth=workload.depth // parts)
            blocks = {block or tiles for block in _row_blocks(part, tiles, rows, target)}
            found += [(panel, rows, block, 0, parts) for block in sorted(blocks)]
    return found


def _rows_apart(workload: ProductWorkload, target: Target) -> int:
    """The rows of a tile of which the first-level cache keeps a line each; one matrix of whole pages is moved apart,
    and of a few groups of rows it keeps one always."""
    if workload.row_group > 1:
        return _TILE_ROWS
    row = workload.depth * workload.itemsize
    return _TILE_ROWS if workload.batch == 1 and row % target.machine.page == 0 else rows_in_sets(row, target.machine)


def dense_dot_space(workload: ProductWorkload, target: Target) -> ConfigSpace:
    """Rows of the register tile of a product of bytes or bfloat16, in vector registers or in matrix registers; whether
    the next panel of constant weights is prefetched.
    """
    space = ConfigSpace()
    heights = _tile_rows(workload, workload.panel, target)
    if workload.halves:
        space.define_joint(("tile_rows", "matrix"), [(high, 1) for high in _matrix_rows(workload.rows) or (1,)])
        return space
    rows = [(high, ahead) for high in heights for ahead in _ahead(workload, high, _SPARE_LOADS)]
    if not multiplies_tiles(workload.itemsize, target):
        space.define_joint(("tile_rows", "ahead"), rows)
        return space
    tiles = _matrix_rows(workload.rows) if workload.tiled and workload.panel % ROWS == 0 else []
    matrix = [(high, 1, ahead) for high in tiles for ahead in _ahead(workload, high, _SPARE_TILES)]
    space.define_joint(("tile_rows", "matrix", "ahead"), [*matrix, *((high, 0, ahead) for high, ahead in rows)])
    return space


def _ahead(workload: ProductWorkload, tile_rows: int, spare: int) -> tuple[int, ...]:
    """The panels ahead of which one may be prefetched: none where the kernel before has just packed them, or a single
    row reads each once. From `spare` rows on a tile has loads to spare, and a network's weights are far however few.
    """
    if workload.batch > 1 or workload.rows == 1:
        return (0,)
    return (1,) if tile_rows >= spare else (1, 0)


def _matrix_rows(rows: int) -> list[int]:
    """Equal parts of so many rows for matrix registers; none of a large prime."""
    return [high for high in divisors(rows, _MATRIX_ROWS) if high >= min(rows, _LOWEST)]


def _tile_rows(workload: ProductWorkload, panel: int, target: Target) -> list[int]:
    """Rows of the tiles that fit the registers, the most first."""
    most = min(workload.rows, _TILE_ROWS)
    return [rows for rows in range(most, 0, -1) if fits_registers(rows, panel, target)]


def _blockings(workload: ProductWorkload, target: Target) -> list[Blocking]:
    """The ways to compute a product with packed panels."""
    panel = workload.panel
    panels = -(-workload.columns // panel)
    found = []
    for rows in _tile_rows(workload, panel, target):
        tiles = -(-workload.rows // rows)
        for block in _row_blocks(workload, tiles, rows, target):
            for group in _groups(panels, -(-tiles // (block or tiles)), target):
                found += [Blocking(panel, rows, block, group, ahead) for ahead in (1, 0)]
                parts = _depth_blocks(workload, (block or tiles) * rows, target) if tiles > 1 else 1
                if parts > 1 and (group != 1 or panels == 1):
                    found.append(Blocking(panel, rows, block, group, 1, parts))
    return found


def _row_blocks(workload: ProductWorkload, tiles: int, rows: int, target: Target) -> list[int]:
    """Tiles of a block of rows: all; an even share of each core; as many as the level-2 cache holds, evenly shared."""
    if workload.symbolic:
        return [0]
    machine, cores = target.machine, target.machine.cores
    line = workload.depth * workload.itemsize
    share = machine.panels_l2 if workload.constant else machine.kept_l2
    held = max(1, int(share * machine.l2.size / line - 2 * workload.panel) // rows)
    parts = {cores, -(-tiles // held), cores * -(-tiles // (held * cores))}
    return sorted({0, *(block for block in (-(-tiles // part) for part in parts) if block < tiles)})


def _depth_blocks(workload: ProductWorkload, rows: int, target: Target) -> int:
    """The fewest equal parts of the depth of which the level-2 cache holds that of a block of rows; 1 without need."""
    held = target.machine.panels_l2 * target.machine.l2.size / workload.itemsize / (rows + 2 * workload.panel)
    if workload.symbolic or workload.cropped or held >= workload.depth:
        return 1
    fitting = (d for d in range(2, _DEPTH_BLOCKS + 1) if workload.depth % d == 0 and workload.depth // d <= held)
    return next(fitting, 1)


def _groups(panels: int, blocks: int, target: Target) -> list[int]:
    """Panels of a group: one; an even share of each core; all, where blocks of rows are enough to share out."""
    cores = target.machine.cores
    return sorted({1, -(-panels // cores), *((0,) if blocks >= cores else ())})


def dense_block(units: int, depth: int, rows: int, target: Target) -> int:
    """Width of the column panels in which a weight matrix [units, K] is packed to [units // b, K, b].

    The width whose best configuration is expected to be the fastest for `rows` rows. It divides `units`, or is of whole
    vectors, of which zeros fill the last panel: 49 columns are 64, instead of 49 times one.
    """
    product = ProductWorkload(rows, units, depth)
    panel, lanes = _panel(product, target), target.machine.lanes()
    if units % lanes == 0:
        return panel
    filled = range(lanes, min(_WIDEST * lanes, -(-units // lanes) * lanes) + 1, lanes)
    width = min(filled, key=lambda b: (round(_filled_cycles(product, b, target)), -b))
    return width if _filled_cycles(product, width, target) < _WORTH_FILLING * _cycles(product, panel, target) else panel


def dot_block(units: int, depth: int, rows: int, target: Target) -> int:
    """As `dense_block`, for weights of bytes."""
    product = ProductWorkload(rows, units, depth, itemsize=1, dots=True, tiled=True)
    return _panel(product, target)


def ordered_blocks(units: int, depth: int, rows: int, target: Target) -> list[tuple[int, float]]:
    """Widths of panels whose products cost less in pairs of bytes than as 16-bit numbers, and their share of that cost;
    the cheapest first.

    The depth of the data is copied in the order of each panel (`order_intrin.py`).
    """
    lanes = target.machine.lanes()
    shorts = ProductWorkload(rows, units, depth, itemsize=2, dots=True)
    most = _cycles(shorts, _panel(shorts, target), target)
    pairs = replace(shorts, itemsize=1, in_pairs=True, ordered=True)
    widths = [width for width in range(lanes, _ORDERED_UNITS + 1, lanes) if units % width == 0]
    shares = sorted((_cycles(pairs, width, target) / most, width) for width in widths)
    return [(width, share) for share, width in shares if share < 1]


def pair_shape(units: int, depth: int, rows: int, target: Target, terms: int = 1) -> DotShape | None:
    """The shape in which a product by a constant weight takes least time with operands in bfloat16.

    None where it is not expected to be worth it beside float32: the operands are rounded in a kernel before it, whose
    time counts. With matrix registers rows and depth may be whole ones. `terms` products of the depth stand for one.
    """
    machine, size = target.machine, DType("bfloat16").itemsize
    plain = _cycles(ProductWorkload(rows, units, depth), _panel(ProductWorkload(rows, units, depth), target), target)
    depth *= terms
    shapes: list[tuple[int, int, Sequence[int]]] = []
    if machine.pair_dot_per_cycle:
        shapes.append((rows, depth + depth % 2, range(machine.lanes(), _WIDEST * machine.lanes() + 1, machine.lanes())))
    if multiplies_tiles(size, target):
        high = rows if _matrix_rows(rows) else -(-rows // ROWS) * ROWS
        run = (depth + depth % 2) * size
        deep = run if step_bytes(run) >= _FILLED * ROW_BYTES else -(-run // ROW_BYTES) * ROW_BYTES
        shapes.append((high, deep // size, (2 * ROWS, ROWS)))
    found = []
    for high, deep, widths in shapes:
        for block in widths:
            wide = -(-units // block) * block
            product = ProductWorkload(high, wide, deep, itemsize=size, dots=True, tiled=True)
            found.append((_cycles(product, block, target), DotShape(block, high, deep)))
    cycles, shape = min(found)
    return shape if cycles + rounding_cycles(rows * depth, size, target) < WORTH_ROUNDING * plain else None


def half_shape(units: int, depth: int, rows: int, target: Target) -> DotShape | None:
    """The same with operands in float16 and arithmetic of such."""
    lanes, size = target.machine.lanes(), DType("float16").itemsize
    plain = _cycles(ProductWorkload(rows, units, depth), _panel(ProductWorkload(rows, units, depth), target), target)
    high, deep = rows if _matrix_rows(rows) else -(-rows // ROWS) * ROWS, depth + depth % 2
    found = []
    for block in range(lanes, _WIDEST * lanes + 1, lanes):
        wide = -(-units // block) * block
        product = ProductWorkload(high, wide, deep, itemsize=size, dots=True, tiled=True, halves=True)
        found.append((_cycles(product, block, target), DotShape(block, high, deep)))
    cycles, shape = min(found)
    return shape if cycles + rounding_cycles(rows * depth, size, target) < WORTH_ROUNDING * plain else None


@functools.lru_cache(maxsize=4096)
def _panel(product: ProductWorkload, target: Target) -> int:
    whole = math.gcd(product.columns, target.machine.lanes())
    widest = max(whole, _WIDEST * target.machine.lanes())
    widths = [b for b in range(whole, min(widest, product.columns) + 1, whole) if product.columns % b == 0]

    return min(widths, key=lambda b: (round(_cycles(product, b, target)), -b))


@functools.lru_cache(maxsize=4096)
def _cycles(product: ProductWorkload, panel: int, target: Target) -> float:
    """The cycles of the best configuration with panels of that width."""
    template = DENSE_DOT if product.dots else DENSE
    return template.ranked(replace(product, panel=panel), target).cheapest[0].cycles


def _filled_cycles(product: ProductWorkload, panel: int, target: Target) -> float:
    """The same with zeros in the rest of the last panel."""
    return _cycles(replace(product, columns=-(-product.columns // panel) * panel, cropped=True), panel, target)


DENSE = Template("dense_pack", dense_workload, dense_space, product_cost, schedule_dense)
BATCH_MATMUL = Template("batch_matmul", batch_matmul_workload, batch_matmul_space, product_cost, schedule_batch_matmul)
DENSE_DOT = Template("dense_dot", dense_dot_workload, dense_dot_space, product_cost, schedule_dense_dot)
CONV2D_DOT = Template("conv2d_dot_NCHWc", dot_conv2d_workload, conv2d_dot_space, conv2d_dot_cost, schedule_conv2d_dot)
