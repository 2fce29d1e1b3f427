"""The search space of each template that has one: its knobs, which combinations fit, and the model that ranks them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import te
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.tir.size_hint import size_hint
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import power_of_two_lanes, shape_of
from tilewright.topi.schedule.cpu.space import Config, ConfigSpace
from tilewright.topi.schedule.cpu.winograd_tile import (
    WinogradGrid,
    WinogradTile,
    candidates,
    estimate,
    keeps_shared,
    whole_tile,
)

#: Rows of a register tile of a direct convolution.
_CONV_ROWS = 28

#: Rows of a band and columns of a register tile of a depthwise convolution; accumulators of one of plain images.
_BAND, _TILE_COLUMNS, _PLAIN_ACCUMULATORS = 16, 14, 12


def image_space(
    height: int, width: int, blocks: int, block: int, target: Target, widths: Sequence[int] = ()
) -> ConfigSpace:
    """tile_rows by tile_columns positions by tile_blocks channel blocks: part of one row, or several whole rows.

    An image of one column (a convolution over time) is tiled along its rows. Tiles of one row are ranked by their mean
    over `widths`, those that an image of symbolic size may have.
    """
    vectors = block // power_of_two_lanes(block, target)
    column = width == 1
    space = ConfigSpace()
    space.define_split("tile_rows", height, _CONV_ROWS if column else 8, exact=not column)
    space.define_split("tile_blocks", blocks, 4)
    space.define_split("tile_columns", width, _CONV_ROWS, exact=False)

    def share(config: Config) -> float:
        positions = config["tile_rows"] * config["tile_columns"]
        several = (height,) if column else (widths or (width,)) if config["tile_rows"] == 1 else (positions,)
        shares = [tile.efficiency(positions, config["tile_blocks"] * vectors, extent, target) for extent in several]
        return sum(shares) / len(shares)

    space.require(lambda c: column or c["tile_rows"] == 1 or c["tile_columns"] == width)
    space.require(lambda c: share(c) > 0)
    space.rank_by(share, lambda c: c["tile_rows"] if column else c["tile_columns"] if c["tile_rows"] == 1 else 0)
    return space


def conv2d_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """Direct convolution, blocked by channels."""
    _, blocks, height, width, block = shape_of(out)
    if len(conv.shape) == 4:
        height, width = 1, shape_of(conv)[2]
    return image_space(height, width, blocks, block, target, _likely_widths(out, width))


def _likely_widths(out: te.Tensor, width: int) -> tuple[int, ...]:
    """Widths that `out` may have: where it is symbolic half of `width` to three times it, of any remainder."""
    if isinstance(out.shape[3], IntImm):
        return (width,)
    return tuple(range(max(1, width // 2), 3 * width, max(1, width // 8)))


def conv2d_transpose_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """Transposed convolution, blocked by channels: the tile is of one phase of the strides."""
    _, blocks, height, width, block = shape_of(out)
    row_stride, column_stride = conv.op.attrs["strides"]
    height, width = -(-height // row_stride), -(-width // column_stride)
    return image_space(height, width, blocks, block, target, _likely_widths(out, width))


def winograd_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """Minimal filtering: register tile, group of tiles, and whether all workers transform the input for all."""
    (output_rows,) = conv.op.input_tensors
    (product,) = output_rows.op.input_tensors
    batch, blocks, down, across, rows, columns, block = shape_of(product)
    tiles = shape_of(product.op.input_tensors[0])
    if not isinstance(product.shape[0], IntImm):
        batch = 1
    grid = WinogradGrid(batch, rows, columns, down * across, tiles[1] * tiles[-1], blocks, block)
    found = {t.spelling for shared in (True, False) for t in candidates(grid, shared, target)}
    if not all(isinstance(extent, IntImm) for extent in product.shape):
        group = conv.op.attrs["group"]
        found = {(*whole_tile(grid, group, target), *group, shared) for shared in (True, False)}
    usual = keeps_shared(grid, target)
    space = ConfigSpace()
    names = ("tile_rows", "tile_columns", "tile_blocks", "group_rows", "group_columns", "shared")
    space.define_joint(names, sorted(found, reverse=True))
    space.rank_by(
        lambda c: round(estimate(grid, winograd_tile(c), target), 3) * (1.0 if c["shared"] == usual else 0.9),
        lambda c: c["group_rows"] * c["group_columns"],
    )
    return space


def winograd_tile(config: Config) -> WinogradTile:
    """The tile that a configuration of `winograd_space` stands for."""
    rows, columns, blocks, group_rows, group_columns, shared = config.values()
    return WinogradTile(rows, columns, blocks, group_rows, group_columns, bool(shared))


def conv2d_nchw_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """Plain images: tile_filters channels by tile_rows rows of tile_vectors vectors of columns."""
    _, channels, height, _ = shape_of(out)
    width = plain_columns(conv, out)
    lanes = plain_lanes(width, target)
    vectors = -(-width // lanes)
    space = ConfigSpace()
    space.define_split("tile_filters", channels // conv.op.attrs.get("groups", 1), 16)
    space.define_split("tile_rows", height, 8, exact=False)
    space.define_split("tile_vectors", vectors, 8, exact=False)
    space.require(lambda c: c["tile_rows"] == 1 or (c["tile_vectors"] == vectors and c["tile_rows"] * vectors <= 8))

    def share(config: Config) -> float:
        filters, rows, wide = config.values()
        whole = vectors / (-(-vectors // wide) * wide) * height / (-(-height // rows) * rows)
        return tile.efficiency(filters, rows * wide, filters, target) * whole

    space.require(lambda c: share(c) > 0)
    space.rank_by(share)
    return space


def conv2d_1x1_nchw_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A product of matrices: tile_filters channels by tile_vectors vectors of pixels."""
    _, filters, pixels = shape_of(conv)
    lanes = plain_lanes(pixels, target)
    space = ConfigSpace()
    space.define_split("tile_filters", filters, 16)
    space.define_knob("tile_vectors", range(1, 9))

    def share(config: Config) -> float:
        rows, vectors = config.values()
        whole = pixels / (-(-pixels // (lanes * vectors)) * lanes * vectors)
        return tile.efficiency(rows, vectors, rows, target) * whole

    space.require(lambda c: share(c) > 0)
    space.rank_by(share, lambda c: -c["tile_vectors"])
    return space


def plain_columns(conv: te.Tensor, out: te.Tensor) -> int:
    """Columns of a plain image that vectors are chosen for.

    Where columns of a symbolic image are not neighbours in memory, each lane is loaded by itself, and one without a
    column costs as much as the others: then vectors are no longer than the image is by its hint.
    """
    width = out.shape[-1]
    if conv.op.attrs["strides"][1] > 1 and not isinstance(width, IntImm):
        return 1 << (size_hint(width).bit_length() - 1)
    return shape_of(out)[-1]


def plain_lanes(extent: int, target: Target) -> int:
    """Lanes of a vector along `extent` columns or pixels of a plain image."""
    return min(target.vector_bits // 32, 1 << (extent - 1).bit_length())


def depthwise_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """Depthwise, blocked: rows of a band, columns of a register tile. Whole bands and tiles of about 8 are best."""
    _, _, height, width, _ = shape_of(out)
    space = ConfigSpace()
    space.define_split("band_rows", height, _BAND, exact=False)
    space.define_split("tile_columns", width, _TILE_COLUMNS, exact=False)

    def share(config: Config) -> float:
        band, columns = config.values()
        halo = (1.0 if height % band == 0 else 0.9) * (1 - 0.4 / band)
        hidden = 1.0 if columns >= 4 else 0.6
        return halo * hidden * (1.0 if width % columns == 0 else 0.85) * (1 - 0.01 * abs(columns - 8))

    space.rank_by(share, lambda c: -c["tile_columns"])
    return space


def depthwise_nchw_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """Depthwise, plain: tile_rows rows of tile_vectors vectors of columns; the window takes the other registers."""
    _, _, height, width = shape_of(out)
    most = max(1, min(width // min(target.vector_bits // 32, width), 4))
    space = ConfigSpace()
    space.define_split("tile_rows", height, _PLAIN_ACCUMULATORS, exact=False)
    space.define_split("tile_vectors", most, exact=False)
    space.require(lambda c: c["tile_rows"] * c["tile_vectors"] <= _PLAIN_ACCUMULATORS)

    def share(config: Config) -> float:
        rows, vectors = config.values()
        whole = 1.0 if height % rows == 0 else 0.8 if rows <= 4 else 0.7
        return whole * (1 - 0.5 / rows) * (1 - 0.2 * (most - vectors))

    space.rank_by(share)
    return space


def conv2d_dot_space(conv: te.Tensor, out: te.Tensor, target: Target) -> ConfigSpace:
    """A convolution of bytes, blocked by channels: as `conv2d_space`."""
    _, blocks, height, width, block = shape_of(out)
    vectors = block // power_of_two_lanes(block, target)
    space = image_space(height, width, blocks, block, target, _likely_widths(out, width))
    space.require(lambda c: tile.dot_fits(c["tile_rows"] * c["tile_columns"], c["tile_blocks"] * vectors, target))
    return space
