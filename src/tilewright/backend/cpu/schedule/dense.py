"""Matrix products: a register tile of rows by one packed panel of columns, accumulated over the whole depth."""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import line_elements, vectorize_lanes
from tilewright.backend.cpu.schedule.pad import is_pad, schedule_pad_at_root
from tilewright.backend.cpu.schedule.product import Blocking, dense_workload, leading_of, row_axis_of, worth_sharing
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import inline_between, shape_of

#: Products of a batch that are too few for workers to have whole ones, and pack operands of their own.
_FEW_BATCHES = 4


def schedule_dense(s: te.Schedule, dense: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `dense` (tag dense_pack: [M, N] or [M, N / 16, 16] with weight [N/b, K, b]) and its epilogue `out`.

    A share of the work is a block of rows by a group of panels. Within it a panel is the outer loop: it stays in the
    level-2 cache while the tiles of rows pass by. See `product.Blocking` for the knobs.
    """
    schedule_pad_at_root(s, dense.op.input_tensors[0], target)
    row_axis = row_axis_of(dense)
    workload = dense_workload(dense, out)
    blocking, panel = Blocking.of(workload, config), workload.panel
    accumulator = inline_between(s, dense, out)

    *others, column = s[out].op.axis
    if len(leading_of(dense)) < len(others):
        others = [s[out].fuse(*others)]
    shared = []
    if row_axis is not None:
        row = others.pop(row_axis)
        if blocking.block_tiles:
            block, row = s[out].split(row, factor=blocking.tile_rows * blocking.block_tiles)
            shared.append(block)
        tiles, position = s[out].split(row, factor=blocking.tile_rows)
        rows = [tiles, position]
        s[out].unroll(position)
    else:
        rows = []
    panels, lane = s[out].split(column, factor=panel)
    groups, panels = s[out].split(panels, factor=blocking.group or workload.columns // panel)
    s[out].reorder(*others, *shared, groups, panels, *rows, lane)
    vectorize_lanes(s, out, lane, panel, target)
    work = s[out].fuse(*shared, groups) if shared else groups
    if worth_sharing(workload, blocking, target):
        s[out].parallel(work)

    if blocking.depth_blocks > 1:
        s[accumulator].compute_at(s[out], work)
        accumulator, _, _ = _add_depth_blocks(s, accumulator, row_axis, blocking, target)
        row_axis = None if row_axis is None else row_axis + 1
    else:
        s[accumulator].compute_at(s[out], rows[0] if rows else panels)
    depth = _accumulate(s, accumulator, row_axis, panel, target, workload.cropped)
    if blocking.ahead:
        s[accumulator].prefetch(dense.op.input_tensors[1], depth, blocking.ahead, spread=True)


def _add_depth_blocks(
    s: te.Schedule, sums: te.Tensor, row_axis: int | None, blocking: Blocking, target: Target
) -> tuple[te.Tensor, te.IterVar, te.IterVar]:
    """Make `sums` the sum over blocks of the depth, all panels and tiles for each.

    Returns what a tile adds to it, and the loops over the blocks and over the panels.

    The sums of a share stay in the worker's own memory, so each panel and each stripe of rows is as long as a block.
    """
    (k,) = s[sums].op.reduce_axis
    block, _ = s[sums].split(k, nparts=blocking.depth_blocks)
    partial = s.rfactor(sums, block)
    s[sums].set_scope("global")
    s[partial].set_scope("local")
    *others, column = s[sums].op.axis
    (block,) = s[sums].op.reduce_axis
    panels, lane = s[sums].split(column, factor=blocking.panel)
    rows = [] if row_axis is None else list(s[sums].split(others.pop(row_axis), factor=blocking.tile_rows))
    s[sums].reorder(*others, block, panels, *rows, lane)
    vectorize_lanes(s, sums, lane, blocking.panel, target)
    for position in rows[1:]:
        s[sums].unroll(position)
    s[partial].compute_at(s[sums], rows[0] if rows else panels)
    return partial, block, panels


def _accumulate(
    s: te.Schedule, accumulator: te.Tensor, row_axis: int | None, panel: int, target: Target, grouped: bool = False
) -> te.IterVar:
    """The inner product of the tile, rows and vectors unrolled into registers; returns the loop over the depth.

    Columns that are `grouped` are two axes, of groups and of the columns of one.
    """
    *outer, column = s[accumulator].op.axis
    row = [] if row_axis is None else [outer.pop(row_axis)]
    row += [outer.pop()] if grouped else []
    panel = shape_of(accumulator)[-1] if grouped else panel
    (k,) = s[accumulator].op.reduce_axis
    s[accumulator].reorder(*outer, k, *row, column)
    vectorize_lanes(s, accumulator, column, panel, target)
    for axis in row:
        s[accumulator].unroll(axis)
    return k


def _copy_in_blocks(s: te.Schedule, packed: te.Tensor, target: Target) -> None:
    """Copy a matrix in square blocks of vectors, which a transposed one crosses in registers."""
    if not all(isinstance(extent, IntImm) for extent in packed.shape):
        return
    lanes = min(target.machine.lanes(), *(1 << size.bit_length() - 1 for size in shape_of(packed)[1:]))
    _, row, column = s[packed].op.axis
    rows, row = s[packed].split(row, factor=lanes)
    columns, lane = s[packed].split(column, factor=lanes)
    s[packed].reorder(rows, columns, row, lane)
    s[packed].vectorize(lane)


def _copy_groups(s: te.Schedule, packed: te.Tensor, target: Target) -> te.IterVar:
    """Copy rows in groups, a line of neighbours before the next step of the depth; returns the loop over such lines."""
    _, group, depth, row = s[packed].op.axis
    lines, group = s[packed].split(group, factor=max(1, line_elements(target) // shape_of(packed)[3]))
    s[packed].reorder(lines, depth, group, row)
    s[packed].unroll(group)
    s[packed].vectorize(row)
    return lines


def _fetch_operands(s: te.Schedule, out: te.Tensor, tiles: te.IterVar) -> None:
    """Ask for what the epilogue of the next tile reads: a few vectors of each row, too short for a prefetcher."""
    for tensor in s[out].reads:
        whole = all(isinstance(extent, IntImm) for extent in (*tensor.shape, *out.shape))
        if isinstance(tensor.op, te.PlaceholderOp) and whole and shape_of(tensor) == shape_of(out):
            s[out].prefetch(tensor, tiles)


def schedule_batch_matmul(s: te.Schedule, product: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `product` (tag batch_matmul: [B, M, N]) and its epilogue; a transposed operand is repacked per batch.

    A single transposed matrix is copied whole, or block by block of its rows, which all panels pass; with blocks of the
    depth, block by block of both.
    """
    batches, panel, blocks = shape_of(out)[0], config["panel"], config.get("block_tiles", 0)
    accumulator = inline_between(s, product, out)
    packed = [t for t in product.op.input_tensors if isinstance(t.op, te.ComputeOp)]

    batch, row, column = s[out].op.axis
    block, row = s[out].split(row, factor=blocks * config["tile_rows"]) if blocks else (None, row)
    tiles, position = s[out].split(row, factor=config["tile_rows"])
    panels, lane = s[out].split(column, factor=panel)
    s[out].reorder(batch, *([block] if block else []), panels, tiles, position, lane)
    if block:
        work = s[out].fuse(batch, block)
    else:
        work = panels = s[out].fuse(batch, panels) if batches < _FEW_BATCHES or not packed else batch
    s[out].parallel(work)
    vectorize_lanes(s, out, lane, panel, target)
    s[out].unroll(position)
    _fetch_operands(s, out, tiles)
    row_axis, parts, sums = 1, config.get("depth_blocks", 1), accumulator
    if parts > 1:
        s[sums].compute_at(s[out], work)
        blocking = Blocking(panel, config["tile_rows"], blocks, 0, depth_blocks=parts)
        accumulator, part, panels = _add_depth_blocks(s, sums, row_axis, blocking, target)
        row_axis += 1
    else:
        s[accumulator].compute_at(s[out], tiles)
    for operand in packed:
        schedule_pad_at_root(s, operand, target)
        if operand.op.name == "packed_a":
            lines = _copy_groups(s, operand, target)
            if parts > 1:
                s[operand].compute_at(s[sums], part)
            elif block:
                s[operand].compute_at(s[out], work)
            else:
                s[operand].parallel(lines)
        elif not is_pad(operand):
            s[operand].compute_at(s[out] if parts == 1 else s[sums], panels)
            _copy_in_blocks(s, operand, target)
    _accumulate(s, accumulator, row_axis, panel, target, accumulator.ndim == 4)
