"""Matrix products: a register tile of rows by one packed panel of columns, accumulated over the whole depth."""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu.common import inline_between, shape_of, terms_of, vectorize_lanes
from tilewright.topi.schedule.cpu.pad import schedule_pad_at_root
from tilewright.topi.schedule.cpu.space import Config


def schedule_dense(s: te.Schedule, dense: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `dense` (tag dense_pack: [M, N] with weight [N/b, K, b]) and its epilogue `out`.

    The panel is the outer loop: it stays in the level-2 cache while all rows pass by.
    """
    *leading, columns = shape_of(out)
    row_axis = max(range(len(leading)), key=lambda i: leading[i], default=0)
    rows = leading[row_axis] if leading else 1
    depth = terms_of(dense)
    schedule_pad_at_root(s, dense.op.input_tensors[0], target)
    panel = dense.op.attrs["block"]
    accumulator = inline_between(s, dense, out)

    *others, column = s[out].op.axis
    panels, lane = s[out].split(column, factor=panel)
    tiles, position = s[out].split(others.pop(row_axis), factor=config["tile_rows"])
    s[out].reorder(*others, panels, tiles, position, lane)
    vectorize_lanes(s, out, lane, panel, target)
    s[out].unroll(position)
    few_panels = columns // panel < 8
    work = s[out].fuse(panels, tiles) if few_panels else panels
    if rows * columns * depth >= target.machine.parallel_elements * 8:
        s[out].parallel(work)

    s[accumulator].compute_at(s[out], work if few_panels else tiles)
    _accumulate(s, accumulator, row_axis, panel, target)


def _accumulate(s: te.Schedule, accumulator: te.Tensor, row_axis: int, panel: int, target: Target) -> None:
    """The inner product of the tile: the depth outermost, rows and vectors unrolled into registers."""
    *outer, column = s[accumulator].op.axis
    row = outer.pop(row_axis)
    (k,) = s[accumulator].op.reduce_axis
    s[accumulator].reorder(*outer, k, row, column)
    vectorize_lanes(s, accumulator, column, panel, target)
    s[accumulator].unroll(row)


def schedule_batch_matmul(s: te.Schedule, product: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `product` (tag batch_matmul: [B, M, N]) and its epilogue; a transposed operand is repacked per batch."""
    batches, panel = shape_of(out)[0], config["panel"]
    accumulator = inline_between(s, product, out)
    packed = [t for t in product.op.input_tensors if isinstance(t.op, te.ComputeOp)]

    batch, row, column = s[out].op.axis
    tiles, position = s[out].split(row, factor=config["tile_rows"])
    panels, lane = s[out].split(column, factor=panel)
    s[out].reorder(batch, panels, tiles, position, lane)
    work = s[out].fuse(batch, panels) if batches < 4 or not packed else batch
    s[out].parallel(work)
    vectorize_lanes(s, out, lane, panel, target)
    s[out].unroll(position)
    for operand in packed:
        s[operand].compute_at(s[out], work)
    s[accumulator].compute_at(s[out], tiles)
    _accumulate(s, accumulator, 1, panel, target)
