"""Layers and operations that resize and crop images, or change their range."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend.builders.resizing import area_matrix, by_matrices, extents, resize
from tilewright.frontend.builders.sliding import Window, patches
from tilewright.frontend.idioms import (
    along,
    cast,
    channels_first,
    channels_last,
    constant,
    dtype_of,
    index_axis,
    is_float,
    one_hot,
    rank_of,
    reshape,
    shape_of,
)
from tilewright.frontend.keras.convolution import per_axis
from tilewright.frontend.keras.layer import FloatTensor, Layer, Operation, as_float
from tilewright.frontend.keras.registry import converts, operation
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@converts("Rescaling", passes_mask=True)
def convert_rescaling(layer: Layer, inputs: Expr) -> Expr:
    value = cast(inputs, layer.compute_dtype)
    scale, offset = (
        np.asarray(layer.get(key, default), "float64") for key, default in (("scale", 1.0), ("offset", 0.0))
    )
    return value * constant(scale, layer.compute_dtype) + constant(offset, layer.compute_dtype)


@converts("Resizing")
def convert_resizing(layer: Layer, inputs: Expr) -> Expr:
    size = (int(layer["height"]), int(layer["width"]))
    single = rank_of(inputs) == 3
    value = op.expand_dims(inputs, axis=0) if single else inputs
    made = resized(
        value, size, str(layer.get("interpolation", "bilinear")).lower(), bool(layer.get("antialias", False)),
        layer.last, bool(layer.get("crop_to_aspect_ratio")), bool(layer.get("pad_to_aspect_ratio")),
        float(layer.get("fill_value") or 0),
    )  # fmt: skip
    return op.squeeze(made, axis=(0,)) if single else made


def resized(
    images: Expr, size: tuple[int, int], method: str, antialias: bool, last: bool, crop: bool = False,
    pad: bool = False, fill: float = 0.0,
) -> Expr:  # fmt: skip
    """As Keras resizes: whole numbers are rounded and kept in range; a crop or a frame keeps the ratio of the sides."""
    dtype = dtype_of(images)
    value = images if is_float(dtype) else cast(images, "float32")
    first = 1 if last else 2
    if crop or pad:
        value = _to_ratio(value, size, first, crop, fill)
    if method == "area":
        sides = [area_matrix(before, after) for before, after in zip(extents(value, first, method), size)]
        made = by_matrices(value, first, sides)
    else:
        made = resize(value, size, method, antialias, last)
    return made if is_float(dtype) else saturated(op.round(made), dtype)


def saturated(value: Expr, dtype: str) -> Expr:
    """`value` in a type of integers, what is beyond its range at its ends."""
    if is_float(dtype) or dtype == "bool":
        return cast(value, dtype)
    info = np.iinfo(dtype)
    return cast(op.clip(value, float(info.min), float(info.max)), dtype)


def _to_ratio(images: Expr, size: tuple[int, int], first: int, crop: bool, fill: float) -> Expr:
    """The largest part in the middle of the ratio of `size`, or the smallest frame around of that ratio."""
    height, width = shape_of(images)[first : first + 2]
    if not isinstance(height, int) or not isinstance(width, int):
        raise UnsupportedError("resizing to a ratio of an image of symbolic size; pass it with input_shapes")
    ratio = size[1] / size[0]
    if crop:
        rows = min(height, max(int(float(width) / ratio), 1))
        columns = min(width, max(int(float(height) * ratio), 1))
        top, left = int(float(height - rows) / 2), int(float(width - columns) / 2)
        return op.strided_slice(
            images, begin=(top, left), end=(top + rows, left + columns), strides=(1, 1), axes=(first, first + 1)
        )
    rows, columns = max(height, math.floor(width / ratio)), max(width, math.floor(height * ratio))
    top, left = (rows - height) // 2, (columns - width) // 2
    widths = [(0, 0)] * 4
    widths[first], widths[first + 1] = (top, rows - height - top), (left, columns - width - left)
    return op.nn.pad(images, pad_width=widths, pad_value=fill)


@converts("CenterCrop")
def convert_center_crop(layer: Layer, inputs: Expr) -> Expr:
    size = (int(layer["height"]), int(layer["width"]))
    value = cast(inputs, layer.compute_dtype)
    single = rank_of(value) == 3
    value = op.expand_dims(value, axis=0) if single else value
    first = 1 if layer.last else 2
    extents = shape_of(value)[first : first + 2]
    if not all(isinstance(extent, int) for extent in extents):
        layer.unsupported("an image of symbolic size; pass it with input_shapes")
    start = [(extent - wanted) // 2 for extent, wanted in zip(extents, size)]
    if min(start) >= 0:
        end = [before + wanted for before, wanted in zip(start, size)]
        made: Expr = op.strided_slice(value, begin=start, end=end, strides=(1, 1), axes=(first, first + 1))
    else:
        made = cast(resized(value, size, "bilinear", False, layer.last, crop=True), layer.compute_dtype)
    return op.squeeze(made, axis=(0,)) if single else made


@converts("AutoContrast")
def convert_auto_contrast(layer: Layer, inputs: Expr) -> Expr:
    low, high = (float(end) for end in layer.get("value_range", (0, 255)))
    value = cast(inputs, layer.compute_dtype)
    single = rank_of(value) == 3
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
    low, high = (float(end) for end in layer.get("value_range", (0, 255)))
    rows, columns = (int(count) for count in layer.get("tile_grid_size", (8, 8)))
    single = rank_of(inputs) == 3
    value = op.expand_dims(inputs, axis=0) if single else inputs
    value = value if layer.last else channels_last(value)
    images = in_range(cast(value, "float32"), low, high, 0.0, 255.0)
    height, width = shape_of(images)[1:3]
    if not isinstance(height, int) or not isinstance(width, int):
        layer.unsupported("an image of symbolic size; pass it with input_shapes")
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
    counts = op.sum(one_hot(codes, _LEVELS), axis=(4,))
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
    batch, height, width, channels = shape_of(images)
    rows, columns = shape_of(tables)[1:3]
    codes = cast(op.clip(images, 0.0, 255.0), "int32")
    whole = reshape(tables, (batch, rows * columns * channels * _LEVELS))
    made: Expr | None = None
    for row, up in ((down.first, 1 - down.share), (down.second, down.share)):
        for column, left in ((along.first, 1 - along.share), (along.second, along.share)):
            position = (row[:, None] * columns + column[None, :])[..., None] * channels + np.arange(channels)
            positions = codes + Constant((position * _LEVELS).astype(np.int32))
            flat = reshape(positions, (batch, height * width * channels))
            found = reshape(op.gather(whole, 1, flat), (batch, height, width, channels))
            part = found * Constant((up[:, None] * left[None, :])[..., None].astype(np.float32))
            made = part if made is None else made + part
    assert made is not None
    return made


# ---------------------------------------------------------------------------------------- Operations of keras.ops.image
def _last(data_format: Any) -> bool:
    return data_format != "channels_first"


@operation("Resize")
def convert_resize(
    images: Expr, size: Any, interpolation: str = "bilinear", antialias: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant",
    fill_value: float = 0.0, data_format: Any = None,
) -> Expr:  # fmt: skip
    single = rank_of(images) == 3
    images = op.expand_dims(images, axis=0) if single else images
    made = resized(
        images, (int(size[0]), int(size[1])), interpolation, antialias, _last(data_format), crop_to_aspect_ratio,
        pad_to_aspect_ratio, float(fill_value),
    )  # fmt: skip
    return op.squeeze(made, axis=(0,)) if single else made


@operation("RGBToGrayscale")
def convert_grayscale(images: Expr, data_format: Any = None) -> Expr:
    axis = rank_of(images) - (1 if _last(data_format) else 3)
    whole = as_float(images)
    share = along([0.2989, 0.587, 0.114], axis, rank_of(images), dtype_of(whole))
    return cast(op.sum(whole * share, axis=(axis,), keepdims=True), dtype_of(images))


@operation("RGBToHSV")
def convert_rgb_to_hsv(images: FloatTensor, data_format: Any = None) -> Expr:
    axis = rank_of(images) - (1 if _last(data_format) else 3)
    red, green, blue = (index_axis(images, axis, one) for one in range(3))
    high, low = op.maximum(red, op.maximum(green, blue)), op.minimum(red, op.minimum(green, blue))
    width = high - low
    saturation = op.where(high > 0, width / op.where(high > 0, high, 1), 0)
    safe = 1 / 6 / op.where(width > 0, width, 1)
    turns = [safe * (green - blue), safe * (blue - red) + 2 / 6, safe * (red - green) + 4 / 6]
    hue = op.where(op.equal(red, high), turns[0], op.where(op.equal(green, high), turns[1], turns[2]))
    hue = op.where(width > 0, hue, 0)
    return op.stack([op.where(hue < 0, hue + 1, hue), saturation, high], axis=axis)


@operation("HSVToRGB")
def convert_hsv_to_rgb(images: FloatTensor, data_format: Any = None) -> Expr:
    axis = rank_of(images) - (1 if _last(data_format) else 3)
    hue, saturation, brightness = (index_axis(images, axis, one) for one in range(3))
    turns = hue * 6
    ramps = [op.abs(turns - 3) - 1, 2 - op.abs(turns - 2), 2 - op.abs(turns - 4)]
    return op.stack([(1 - saturation + saturation * op.clip(x, 0.0, 1.0)) * brightness for x in ramps], axis=axis)


@operation("ExtractPatches")
def convert_extract_patches(
    images: Expr, size: Any, strides: Any = None, dilation_rate: Any = 1, padding: str = "valid",
    data_format: Any = None,
) -> Expr:  # fmt: skip
    last = _last(data_format)
    extents = per_axis(size, 2)
    plain = images if last else channels_last(images)
    shape = Window(extents, extents if strides is None else per_axis(strides, 2), per_axis(dilation_rate, 2), padding)
    made = patches(plain, shape)
    return made if last else channels_first(made)


@operation("PadImages", "CropImages")
def convert_frame(item: Operation, images: Expr, data_format: Any = None, **sides: Any) -> Expr:
    rank = rank_of(images)
    first = rank - 3 if _last(data_format) else rank - 2
    crop = item.class_name == "CropImages"
    word = "cropping" if crop else "padding"
    ends = []
    for axis, (before, behind, target) in enumerate((("top", "bottom", "height"), ("left", "right", "width"))):
        lead, tail, wanted = sides.get(f"{before}_{word}"), sides.get(f"{behind}_{word}"), sides.get(f"target_{target}")
        extent = shape_of(images)[first + axis]
        total = None if wanted is None else (extent - wanted if crop else wanted - extent)
        if [lead, tail, total].count(None) != 1:
            item.unsupported("sides of which not two of three are given")
        lead = total - tail if lead is None else lead  # type: ignore[operator]
        ends.append((int(lead), int(total - lead if tail is None else tail)))
    if crop:
        end = [shape_of(images)[first + axis] - behind for axis, (_, behind) in enumerate(ends)]
        begin = [before for before, _ in ends]
        return op.strided_slice(images, begin=begin, end=end, strides=(1, 1), axes=(first, first + 1))
    widths = [(0, 0)] * rank
    widths[first], widths[first + 1] = ends
    return op.nn.pad(images, pad_width=widths)
