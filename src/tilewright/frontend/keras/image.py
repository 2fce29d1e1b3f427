"""Layers and operations that resize and crop images, or change their range."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend import idioms
from tilewright.frontend.builders import colours
from tilewright.frontend.builders.resizing import area_matrix, by_matrices, extents, resize
from tilewright.frontend.builders.sliding import Window, patches
from tilewright.frontend.keras.convolution import per_axis
from tilewright.frontend.keras.layer import Layer, Operation, as_float, channels_behind
from tilewright.frontend.keras.registry import converts, operation, operations
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@converts("Rescaling", passes_mask=True)
def convert_rescaling(layer: Layer, inputs: Expr) -> Expr:
    value = idioms.cast(inputs, layer.compute_dtype)
    scale, offset = (
        np.asarray(layer.get(key, default), "float64") for key, default in (("scale", 1.0), ("offset", 0.0))
    )
    return value * idioms.constant(scale, layer.compute_dtype) + idioms.constant(offset, layer.compute_dtype)


@converts("Resizing")
def convert_resizing(layer: Layer, inputs: Expr) -> Expr:
    size = (int(layer["height"]), int(layer["width"]))
    return resized(
        inputs, size, str(layer.get("interpolation", "bilinear")).lower(), bool(layer.get("antialias", False)),
        layer.last, bool(layer.get("crop_to_aspect_ratio")), bool(layer.get("pad_to_aspect_ratio")),
        float(layer.get("fill_value") or 0),
    )  # fmt: skip


def _of_each(images: Expr, function: Callable[[Expr], Expr]) -> Expr:
    """A function of images [N, …] applied to them, or to a single one."""
    if idioms.rank_of(images) != 3:
        return function(images)
    return op.squeeze(function(op.expand_dims(images, axis=0)), axis=(0,))


def resized(
    images: Expr, size: tuple[int, int], method: str, antialias: bool, last: bool, crop: bool = False,
    pad: bool = False, fill: float = 0.0,
) -> Expr:  # fmt: skip
    """As Keras resizes: whole numbers are rounded and kept in range; a crop or a frame keeps the ratio of the sides."""
    if idioms.rank_of(images) == 3:
        return _of_each(images, lambda one: resized(one, size, method, antialias, last, crop, pad, fill))
    dtype = idioms.dtype_of(images)
    value = images if idioms.is_float(dtype) else idioms.cast(images, "float32")
    first = 1 if last else 2
    if crop or pad:
        value = _to_ratio(value, size, first, crop, fill)
    if method == "area":
        sides = [area_matrix(before, after) for before, after in zip(extents(value, first, method), size)]
        made = by_matrices(value, first, sides)
    else:
        made = resize(value, size, method, antialias, last)
    return made if idioms.is_float(dtype) else saturated(op.round(made), dtype)


def saturated(value: Expr, dtype: str) -> Expr:
    """`value` in a type of integers, what is beyond its range at its ends."""
    if idioms.is_float(dtype) or dtype == "bool":
        return idioms.cast(value, dtype)
    info = np.iinfo(dtype)
    return idioms.cast(op.clip(value, float(info.min), float(info.max)), dtype)


def _cut(images: Expr, first: int, begin: Sequence[Any], end: Sequence[Any]) -> Expr:
    """A part of two axes, of which `first` is the first."""
    return op.strided_slice(images, begin=begin, end=end, strides=(1, 1), axes=(first, first + 1))


def _to_ratio(images: Expr, size: tuple[int, int], first: int, crop: bool, fill: float) -> Expr:
    """The largest part in the middle of the ratio of `size`, or the smallest frame around of that ratio."""
    height, width = idioms.shape_of(images)[first : first + 2]
    if not isinstance(height, int) or not isinstance(width, int):
        raise UnsupportedError("resizing to a ratio of an image of symbolic size; pass it with input_shapes")
    ratio = size[1] / size[0]
    if crop:
        rows = min(height, max(int(float(width) / ratio), 1))
        columns = min(width, max(int(float(height) * ratio), 1))
        top, left = int(float(height - rows) / 2), int(float(width - columns) / 2)
        return _cut(images, first, (top, left), (top + rows, left + columns))
    rows, columns = max(height, math.floor(width / ratio)), max(width, math.floor(height * ratio))
    top, left = (rows - height) // 2, (columns - width) // 2
    widths = [(0, 0)] * 4
    widths[first], widths[first + 1] = (top, rows - height - top), (left, columns - width - left)
    return op.nn.pad(images, pad_width=widths, pad_value=fill)


@converts("CenterCrop")
def convert_center_crop(layer: Layer, inputs: Expr) -> Expr:
    size = (int(layer["height"]), int(layer["width"]))
    value = idioms.cast(inputs, layer.compute_dtype)
    first = idioms.rank_of(value) - (3 if layer.last else 2)
    extents = idioms.shape_of(value)[first : first + 2]
    if not all(isinstance(extent, int) for extent in extents):
        layer.unsupported("an image of symbolic size; pass it with input_shapes")
    start = [(extent - wanted) // 2 for extent, wanted in zip(extents, size)]
    if min(start) >= 0:
        end = [before + wanted for before, wanted in zip(start, size)]
        return _cut(value, first, start, end)
    return idioms.cast(resized(value, size, "bilinear", False, layer.last, crop=True), layer.compute_dtype)


@converts("AutoContrast")
def convert_auto_contrast(layer: Layer, inputs: Expr) -> Expr:
    low, high = (float(end) for end in layer.get("value_range", (0, 255)))
    value = idioms.cast(inputs, layer.compute_dtype)
    single = idioms.rank_of(value) == 3
    axes = (0, 1) if single else (1, 2)
    whole = in_range(value, low, high, 0.0, 255.0)
    least, most = op.min(whole, axis=axes, keepdims=True), op.max(whole, axis=axes, keepdims=True)
    scale = 255.0 / (most - least)
    made = whole * scale + -least * scale
    made = in_range(op.clip(made, 0.0, 255.0), 0.0, 255.0, low, high)
    return op.where(op.isnan(made), value, made)


def in_range(value: Expr, low: float, high: float, to_low: float, to_high: float) -> Expr:
    """`value` moved from one range to another."""
    if (low, high) == (to_low, to_high):
        return value
    factor = (to_high - to_low) / (high - low)
    return ((value - low) * factor) + to_low


# ----------------------------------------- Contrast limited adaptive histogram equalization (Zuiderveld 1994) of images
_LEVELS = 256


class _Axis(NamedTuple):
    """An axis in tiles: their size, what is added behind; for each position two tiles, and the share of the second."""

    tile: int
    more: int
    first: np.ndarray
    second: np.ndarray
    share: np.ndarray


def _axis(extent: int, tiles: int) -> _Axis:
    tile = -(-extent // tiles)
    position = (np.arange(tile * tiles) - tile / 2) / tile + 1
    low = np.floor(position)
    first, second = (np.clip(one, 0, tiles + 1).astype(np.int32) for one in (low, low + 1))
    return _Axis(tile, tile * tiles - extent, first, second, (position - low).astype(np.float32))


@converts("ContrastLimitedAdaptiveHistogramEqualization", "CLAHE")
def convert_clahe(layer: Layer, inputs: Expr) -> Expr:
    return _of_each(inputs, lambda images: _equalized(layer, images))


def _equalized(layer: Layer, value: Expr) -> Expr:
    low, high = (float(end) for end in layer.get("value_range", (0, 255)))
    rows, columns = (int(count) for count in layer.get("tile_grid_size", (8, 8)))
    value = value if layer.last else idioms.channels_last(value)
    images = in_range(idioms.cast(value, "float32"), low, high, 0.0, 255.0)
    height, width = idioms.shape_of(images)[1:3]
    if not isinstance(height, int) or not isinstance(width, int):
        layer.unsupported("an image of symbolic size; pass it with input_shapes")
    down, along = _axis(height, rows), _axis(width, columns)
    if down.more or along.more:
        images = op.nn.mirror_pad(images, mode="SYMMETRIC", pad_width=((0, 0), (0, down.more), (0, along.more), (0, 0)))
    tables = _tables(images, (rows, columns), (down.tile, along.tile), float(layer.get("clip_limit", 4.0)))
    made = _mapped(images, tables, down, along)
    made = in_range(_cut(made, 1, (0, 0), (height, width)), 0.0, 255.0, low, high)
    return idioms.cast(made if layer.last else idioms.channels_first(made), layer.compute_dtype)


def _tables(images: Expr, grid: tuple[int, int], tile: tuple[int, int], limit: float) -> Expr:
    """[N, rows + 2, columns + 2, C, levels]: what each tile maps a level to; those at the edge twice."""
    batch, channels = idioms.shape_of(images)[0], idioms.shape_of(images)[3]
    parts = idioms.reshape(images, (batch, grid[0], tile[0], grid[1], tile[1], channels))
    flat = idioms.reshape(op.transpose(parts, axes=(0, 1, 3, 5, 2, 4)), (batch, *grid, channels, tile[0] * tile[1]))
    codes = op.clip(idioms.cast(flat, "int32"), 0, _LEVELS - 1)
    counts = op.sum(idioms.one_hot(codes, _LEVELS), axis=(4,))
    if limit > 0:
        kept = op.clip(counts, 0.0, limit * tile[0] * tile[1] / _LEVELS)
        excess = op.sum(counts - kept, axis=(4,), keepdims=True)
        counts = kept + excess / _LEVELS
    sums = op.cumsum(counts, axis=4)
    least = op.min(sums, axis=(4,), keepdims=True)
    rest = tile[0] * tile[1] - least
    rest = op.where(op.equal(rest, 0), 1, rest)
    made = op.clip((sums - least) * 255 / rest, 0.0, 255.0)
    return op.nn.pad(made, pad_width=((0, 0), (1, 1), (1, 1), (0, 0), (0, 0)), pad_mode="edge")


def _mapped(images: Expr, tables: Expr, down: _Axis, along: _Axis) -> Expr:
    """Each pixel between what the four tiles around it make of its level."""
    batch, height, width, channels = idioms.shape_of(images)
    rows, columns = idioms.shape_of(tables)[1:3]
    codes = idioms.cast(op.clip(images, 0.0, 255.0), "int32")
    whole = idioms.reshape(tables, (batch, rows * columns * channels * _LEVELS))
    parts: list[Expr] = []
    for row, up in ((down.first, 1 - down.share), (down.second, down.share)):
        for column, left in ((along.first, 1 - along.share), (along.second, along.share)):
            position = (row[:, None] * columns + column[None, :])[..., None] * channels + np.arange(channels)
            positions = codes + Constant((position * _LEVELS).astype(np.int32))
            flat = idioms.reshape(positions, (batch, height * width * channels))
            found = idioms.reshape(op.gather(whole, 1, flat), (batch, height, width, channels))
            parts.append(found * Constant((up[:, None] * left[None, :])[..., None].astype(np.float32)))
    return functools.reduce(op.add, parts)


# ---------------------------------------------------------------------------------------- Operations of keras.ops.image
def _channel_axis(images: Expr, data_format: Any) -> int:
    return idioms.rank_of(images) - (1 if channels_behind(data_format) else 3)


@operation("Resize")
def convert_resize(
    images: Expr, size: Any, interpolation: str = "bilinear", antialias: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant",
    fill_value: float = 0.0, data_format: Any = None,
) -> Expr:  # fmt: skip
    return resized(
        images, (int(size[0]), int(size[1])), interpolation, antialias, channels_behind(data_format),
        crop_to_aspect_ratio, pad_to_aspect_ratio, float(fill_value),
    )  # fmt: skip


@operation("RGBToGrayscale")
def convert_grayscale(images: Expr, data_format: Any = None) -> Expr:
    axis = _channel_axis(images, data_format)
    whole = as_float(images)
    share = idioms.along([0.2989, 0.587, 0.114], axis, idioms.rank_of(images), idioms.dtype_of(whole))
    return idioms.cast(op.sum(whole * share, axis=(axis,), keepdims=True), idioms.dtype_of(images))


operations("FloatTensor", {
    "RGBToHSV": lambda images, data_format=None: colours.hsv_of(images, _channel_axis(images, data_format)),
    "HSVToRGB": lambda images, data_format=None: colours.rgb_of(images, _channel_axis(images, data_format)),
})  # fmt: skip


@operation("ExtractPatches")
def convert_extract_patches(
    images: Expr, size: Any, strides: Any = None, dilation_rate: Any = 1, padding: str = "valid",
    data_format: Any = None,
) -> Expr:  # fmt: skip
    last = channels_behind(data_format)
    extents = per_axis(size, 2)
    plain = images if last else idioms.channels_last(images)
    shape = Window(extents, extents if strides is None else per_axis(strides, 2), per_axis(dilation_rate, 2), padding)
    made = patches(plain, shape)
    return made if last else idioms.channels_first(made)


@operation("PadImages", "CropImages")
def convert_frame(item: Operation, images: Expr, data_format: Any = None, **sides: Any) -> Expr:
    rank = idioms.rank_of(images)
    first = rank - 3 if channels_behind(data_format) else rank - 2
    crop = item.class_name == "CropImages"
    word = "cropping" if crop else "padding"
    ends = []
    for axis, (before, behind, target) in enumerate((("top", "bottom", "height"), ("left", "right", "width"))):
        lead, tail, wanted = sides.get(f"{before}_{word}"), sides.get(f"{behind}_{word}"), sides.get(f"target_{target}")
        extent = idioms.shape_of(images)[first + axis]
        total = None if wanted is None else (extent - wanted if crop else wanted - extent)
        if [lead, tail, total].count(None) != 1:
            item.unsupported("sides of which not two of three are given")
        lead = total - tail if lead is None else lead  # type: ignore[operator]
        ends.append((int(lead), int(total - lead if tail is None else tail)))
    if crop:
        end = [idioms.shape_of(images)[first + axis] - behind for axis, (_, behind) in enumerate(ends)]
        return _cut(images, first, [before for before, _ in ends], end)
    widths = [(0, 0)] * rank
    widths[first], widths[first + 1] = ends
    return op.nn.pad(images, pad_width=widths)
