"""Contrast limited adaptive histogram equalization (Zuiderveld 1994) of images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.frontend.idioms import cast, channels_first, channels_last, constant, rank_of, reshape, shape_of
from tilewright.frontend.keras.image import in_range
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

_LEVELS = 256


class _Axis(NamedTuple):
    """An axis in tiles: their size, what is added behind; for each place two tiles, and the share of the second."""

    tile: int
    more: int
    first: np.ndarray
    second: np.ndarray
    share: np.ndarray


def _axis(extent: int, tiles: int) -> _Axis:
    tile = -(-extent // tiles)
    place = (np.arange(tile * tiles) - tile / 2) / tile + 1
    low = np.floor(place)
    first, second = (np.clip(one, 0, tiles + 1).astype(np.int32) for one in (low, low + 1))
    return _Axis(tile, tile * tiles - extent, first, second, (place - low).astype(np.float32))


@converts("ContrastLimitedAdaptiveHistogramEqualization", "CLAHE")
def convert_clahe(layer: Layer, inputs: Expr) -> Expr:
    low, high = (float(end) for end in layer.get("value_range", (0, 255)))
    rows, columns = (int(count) for count in layer.get("tile_grid_size", (8, 8)))
    single = rank_of(inputs) == 3
    value = op.expand_dims(inputs, axis=0) if single else inputs
    value = value if layer.last else channels_last(value)
    images = in_range(cast(value, "float32"), low, high, 0.0, 255.0)
    height, width = shape_of(images)[1:3]
    if not isinstance(height, int) or not isinstance(width, int):
        layer.unsupported("an image of open size; give it with input_shapes")
    down, along = _axis(height, rows), _axis(width, columns)
    if down.more or along.more:
        images = op.nn.mirror_pad(images, mode="SYMMETRIC", pad_width=((0, 0), (0, down.more), (0, along.more), (0, 0)))
    tables = _tables(images, (rows, columns), (down.tile, along.tile), float(layer.get("clip_limit", 4.0)))
    made = _mapped(images, tables, down, along)
    made = op.strided_slice(made, begin=(0, 0), end=(height, width), strides=(1, 1), axes=(1, 2))
    made = in_range(made, 0.0, 255.0, low, high)
    made = made if layer.last else channels_first(made)
    made = cast(made, layer.compute_dtype)
    return op.squeeze(made, axis=(0,)) if single else made


def _tables(images: Expr, grid: tuple[int, int], tile: tuple[int, int], limit: float) -> Expr:
    """[N, rows + 2, columns + 2, C, levels]: what each tile maps a level to; those at the edge twice."""
    batch, channels = shape_of(images)[0], shape_of(images)[3]
    parts = reshape(images, (batch, grid[0], tile[0], grid[1], tile[1], channels))
    flat = reshape(op.transpose(parts, axes=(0, 1, 3, 5, 2, 4)), (batch, *grid, channels, tile[0] * tile[1]))
    codes = op.clip(cast(flat, "int32"), 0, _LEVELS - 1)
    one, zero = constant(1, "float32"), constant(0, "float32")
    counts = op.sum(op.one_hot(codes, one, zero, depth=_LEVELS, axis=-1, dtype="float32"), axis=(4,))
    if limit > 0:
        kept = op.clip(counts, 0.0, limit * tile[0] * tile[1] / _LEVELS)
        excess = op.sum(op.subtract(counts, kept), axis=(4,), keepdims=True)
        counts = op.add(kept, op.divide(excess, constant(_LEVELS, "float32")))
    sums = op.cumsum(counts, axis=4)
    least = op.min(sums, axis=(4,), keepdims=True)
    rest = op.subtract(constant(tile[0] * tile[1], "float32"), least)
    rest = op.where(op.equal(rest, zero), one, rest)
    made = op.divide(op.multiply(op.subtract(sums, least), constant(255, "float32")), rest)
    made = op.clip(made, 0.0, 255.0)
    return op.nn.pad(made, pad_width=((0, 0), (1, 1), (1, 1), (0, 0), (0, 0)), pad_mode="edge")


def _mapped(images: Expr, tables: Expr, down: _Axis, along: _Axis) -> Expr:
    """Each pixel between what the four tiles around it make of its level."""
    batch, height, width, channels = shape_of(images)
    rows, columns = shape_of(tables)[1:3]
    codes = cast(op.clip(images, 0.0, 255.0), "int32")
    whole = reshape(tables, (batch, rows * columns * channels * _LEVELS))
    made: Expr | None = None
    for row, up in ((down.first, 1 - down.share), (down.second, down.share)):
        for column, left in ((along.first, 1 - along.share), (along.second, along.share)):
            place = (row[:, None] * columns + column[None, :])[..., None] * channels + np.arange(channels)
            places = op.add(codes, Constant((place * _LEVELS).astype(np.int32)))
            flat = reshape(places, (batch, height * width * channels))
            found = reshape(op.gather(whole, 1, flat), (batch, height, width, channels))
            part = op.multiply(found, Constant((up[:, None] * left[None, :])[..., None].astype(np.float32)))
            made = part if made is None else op.add(made, part)
    assert made is not None
    return made
