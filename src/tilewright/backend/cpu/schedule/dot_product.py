"""Int8 and bfloat16 products and convolutions: register tiles like those of floats, whose step is a tensorized dot
product of four or two.

parallel panels, the next one prefetched
  tiles of rows
    sums = 0
    for each group of four of the depth
      sums[rows, vectors] += dot(four bytes of data, broadcast, four weights a lane)
    epilogue (zero points, scales, rounding) and store

Where each panel has an order of the depth of its own, the tile's rows are copied in this order before its sums.
Products with matrix registers (AMX) have a whole tile, over all of the depth, as their tensorized step.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import parallel_outer, power_of_two_lanes, vectorize_lanes
from tilewright.backend.cpu.schedule.dot_intrin import dot_intrin
from tilewright.backend.cpu.schedule.order_intrin import order_intrin, order_windows
from tilewright.backend.cpu.schedule.pad import schedule_at_root
from tilewright.backend.cpu.schedule.product import half_tile
from tilewright.backend.cpu.schedule.tile_intrin import tile_intrin, window_intrin
from tilewright.backend.cpu.schedule.tiled_conv2d import FLAT, dot_conv2d_workload, window_of
from tilewright.target import Target
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import extent_of, has_tag, inline_between, operands_of, shape_of, terms_of

#: Panels that are too few to share out alone: tiles of rows are shared too.
_FEW_PANELS = 8


def schedule_dense_dot(s: te.Schedule, dense: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `dense` (tag dense_dot: [..., N/b, b]) and its epilogue `out` [..., N].

    The panel is outside the rows: it stays in the level-2 cache while all rows pass by.
    """
    columns, (*leading, _, panel) = shape_of(out)[-1], shape_of(dense)
    rows_at = dense.op.attrs.get("row_axis", max(range(len(leading)), key=lambda i: leading[i]))
    _schedule_operands(s, dense, target)
    accumulator = inline_between(s, dense, out)
    *others, column = s[out].op.axis
    if len(leading) < len(others):
        others = [s[out].fuse(*others)]
    panels, lane = s[out].split(column, factor=panel)
    tiles, row = s[out].split(others.pop(rows_at), factor=config["tile_rows"])
    s[out].reorder(*others, panels, tiles, row, lane)
    vectorize_lanes(s, out, lane, panel, target)
    matrix = bool(config.get("matrix", 0))
    if not matrix:  # sums that are in memory need no names
        s[out].unroll(row)
    few_panels = columns // panel < _FEW_PANELS and not others
    work = s[out].fuse(panels, tiles) if few_panels else panels
    parallel_outer(s, out, [*others, work], target, terms_of(dense))

    s[accumulator].compute_at(s[out], work if few_panels else tiles)
    *outer, panel_axis, lane = s[accumulator].op.axis
    row = outer.pop(rows_at)
    innermost = panel_axis
    if matrix:
        _multiply_tile(s, accumulator, [*outer, panel_axis], row, lane, (config["tile_rows"], panel), target)
    else:
        innermost = accumulate_dots(s, accumulator, [*outer, panel_axis], [row], lane, panel, target)
    if config.get("ahead", 0):
        s[accumulator].prefetch(dense.op.input_tensors[1], innermost, config["ahead"], spread=True)


def schedule_conv2d_dot(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag conv2d_dot_NCHWc: [N, O/b, H, W, b]) and its epilogue `out`, tiled as `schedule_conv2d`.

    In matrix registers a tile is of several rows' pixels and one block of channels.
    """
    _schedule_operands(s, conv, target)
    block = shape_of(out)[-1]
    accumulator = inline_between(s, conv, out)
    batch, channel, row, column, lane = s[out].op.axis
    group, inner_block = s[out].split(channel, factor=config["tile_blocks"])
    bands, row = s[out].split(row, factor=config["tile_rows"])
    tiles, column = s[out].split(column, factor=config["tile_columns"])
    s[out].reorder(batch, group, bands, tiles, inner_block, row, column, lane)
    matrix = config.get("matrix", 0)
    for axis in () if matrix else (inner_block, row, column):
        s[out].unroll(axis)
    vectorize_lanes(s, out, lane, block, target)
    parallel_outer(s, out, [batch, group, bands], target, terms_of(conv))

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, column, lane = s[accumulator].op.axis
    if matrix:
        s[accumulator].reorder(batch, channel, row, column, lane, *s[accumulator].op.reduce_axis)
        window = window_of(dot_conv2d_workload(conv, out), config)
        data, weight = operands_of(conv)
        intrin = window_intrin(window, matrix == FLAT, str(data.dtype), str(weight.dtype))
        s[accumulator].tensorize(row, intrin)
        return
    accumulate_dots(s, accumulator, [batch], [row, column, channel], lane, block, target)


def _schedule_operands(s: te.Schedule, product: te.Tensor, target: Target) -> None:
    """Schedule the operands of the product, each computed once before it."""
    data = product.op.input_tensors[0]
    if has_tag(data, tag.IN_ORDER):
        _, data = data.op.input_tensors  # the order, read to find them, comes before
    if isinstance(data.op, te.ComputeOp):
        schedule_at_root(s, data, target)


def _put_in_order(s: te.Schedule, sums: te.Tensor, window: te.IterVar, target: Target) -> list[te.IterVar]:
    """Copy some windows of a tile's rows in the order of its panel when their products are next: [chunks, windows].

    So few bytes stay in the level-1 cache, and are copied while the products before them are computed.
    """
    ordered = sums.op.input_tensors[0]
    together = order_windows(extent_of(window), target)
    chunks, window = s[sums].split(window, factor=together)
    *_, row, _, windows, _ = s[ordered].op.axis
    s[ordered].compute_at(s[sums], chunks)
    s[ordered].unroll(row)
    s[ordered].tensorize(windows, order_intrin(together))
    return [chunks, window]


def _multiply_tile(
    s: te.Schedule,
    sums: te.Tensor,
    outer: list[te.IterVar],
    row: te.IterVar,
    lane: te.IterVar,
    tile: tuple[int, int],
    target: Target,
) -> None:
    """The sums of a tile in matrix registers, or of float16."""
    data, weight = sums.op.input_tensors
    s[sums].reorder(*outer, row, lane, *s[sums].op.reduce_axis)
    halves = half_tile(tile[1], target)
    s[sums].tensorize(row, tile_intrin(*tile, terms_of(sums), str(data.dtype), str(weight.dtype), halves))


def accumulate_dots(
    s: te.Schedule,
    sums: te.Tensor,
    outer: list[te.IterVar],
    unrolled: list[te.IterVar],
    lane: te.IterVar,
    extent: int,
    target: Target,
) -> te.IterVar:
    """The sums of a tile: the depth outermost, `unrolled` and vectors in registers, the intrinsic innermost.

    Returns the innermost loop over groups of the depth, or the one over what is put in order together.
    """
    *reduction, group = s[sums].op.reduce_axis
    data, weight = sums.op.input_tensors
    ahead = reduction[-1]
    if has_tag(data, tag.IN_ORDER):
        reduction[:1] = _put_in_order(s, sums, reduction[0], target)
        ahead = reduction[0]
    lanes = power_of_two_lanes(extent, target)
    vectors, vector = s[sums].split(lane, factor=lanes)
    s[sums].reorder(*outer, *reduction, *unrolled, vectors, vector, group)
    for axis in (*unrolled, vectors):
        s[sums].unroll(axis)
    in_pairs = sums.op.attrs.get("in_pairs", False)
    s[sums].tensorize(vector, dot_intrin(lanes, str(data.dtype), str(weight.dtype), in_pairs))
    return ahead
