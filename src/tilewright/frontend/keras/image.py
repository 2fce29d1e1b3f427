"""Layers that resize and crop images, or change their range."""

from __future__ import annotations

import math

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend.idioms import cast, constant, dtype_of, is_float, like, rank_of, shape_of
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.frontend.resizing import resize
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("Rescaling", passes_mask=True)
def convert_rescaling(layer: Layer, inputs: Expr) -> Expr:
    value = cast(inputs, layer.compute_dtype)
    scale, offset = (
        np.asarray(layer.get(key, default), "float64") for key, default in (("scale", 1.0), ("offset", 0.0))
    )
    return op.add(op.multiply(value, constant(scale, layer.compute_dtype)), constant(offset, layer.compute_dtype))


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
    images: Expr,
    size: tuple[int, int],
    method: str,
    antialias: bool,
    last: bool,
    crop: bool = False,
    pad: bool = False,
    fill: float = 0.0,
) -> Expr:
    """As Keras resizes: whole numbers are rounded and kept in range; a crop or a frame keeps the ratio of the sides."""
    dtype = dtype_of(images)
    value = images if is_float(dtype) else cast(images, "float32")
    first = 1 if last else 2
    if crop or pad:
        value = _to_ratio(value, size, first, crop, fill)
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
        raise UnsupportedError("resizing to a ratio of an image of open size; give it with input_shapes")
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
        layer.unsupported("an image of open size; give it with input_shapes")
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
    scale = op.divide(like(255.0, whole), op.subtract(most, least))
    made = op.add(op.multiply(whole, scale), op.multiply(op.negative(least), scale))
    made = in_range(op.clip(made, 0.0, 255.0), 0.0, 255.0, low, high)
    return op.where(op.isnan(made), value, made)


def in_range(value: Expr, low: float, high: float, to_low: float, to_high: float) -> Expr:
    """`value` moved from one range to another."""
    if (low, high) == (to_low, to_high):
        return value
    factor = (to_high - to_low) / (high - low)
    moved = op.multiply(op.subtract(value, like(low, value)), like(factor, value))
    return op.add(moved, like(to_low, value))
