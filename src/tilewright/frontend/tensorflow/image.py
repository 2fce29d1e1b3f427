"""Resizing and cropping of images, colours, and detection."""

from __future__ import annotations

from typing import Any as AnyValue

import numpy as np

from tilewright.frontend.builders.resizing import area_matrix, by_matrices, cubic_matrix, extents, resize_matrix
from tilewright.frontend.idioms import (
    cast,
    channels_first,
    channels_last,
    dtype_of,
    index_axis,
    is_float,
    like,
    rank_of,
    reshape,
    shape_of,
)
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import Any, TensorType
from tilewright.relay.op.onnx_host import host_call

_METHODS = {"ResizeBilinear": "linear", "ResizeNearestNeighbor": "nearest_neighbor", "ResizeBicubic": "cubic"}


@converts(*_METHODS)
def convert_resize(node: TfNode) -> Expr:
    height, width = node.ints(1, "size")
    corners, half = node.attr("align_corners", False), node.attr("half_pixel_centers", False)
    if node.operator == "ResizeBicubic" and all(isinstance(extent, int) for extent in shape_of(node[0])[1:3]):
        rows, columns = extents(node[0], 1, "bicubic")
        sides = cubic_matrix(rows, height, corners, half), cubic_matrix(columns, width, corners, half)
        return by_matrices(cast(node[0], "float32"), 1, sides)
    mode = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    data = node[0] if is_float(node.dtype()) or node.operator == "ResizeNearestNeighbor" else cast(node[0], "float32")
    options: dict[str, AnyValue] = {"coordinate_transformation_mode": mode, "method": _METHODS[node.operator]}
    if node.operator == "ResizeNearestNeighbor":
        options["rounding_method"] = "round_prefer_ceil" if corners else "floor"
        if half and not corners:  # floor((i + 0.5) * scale) is the nearest centre, the later one of two
            options["rounding_method"] = "round_prefer_ceil"
    if node.operator == "ResizeBicubic":
        options.update(cubic_alpha=-0.5 if half else -0.75, cubic_exclude=half)
    made = channels_last(op.image.resize2d(channels_first(data), size=(height, width), **options))
    return made if node.operator == "ResizeNearestNeighbor" else cast(made, "float32")


@converts("CropAndResize")
def convert_crop_and_resize(node: TfNode) -> Expr:
    made = op.image.crop_and_resize(
        channels_first(cast(node[0], "float32")), node[1], node[2], crop_size=node.ints(3, "size"),
        method={"bilinear": "bilinear", "nearest": "nearest_neighbor"}[node.attr("method", "bilinear")],
        extrapolation_value=node.attr("extrapolation_value", 0.0),
    )  # fmt: skip
    return channels_last(made)


#: The kernels of ScaleAndTranslate by their names in tf.image.resize.
_KERNELS = {"triangle": "bilinear", "keyscubic": "bicubic"}


@converts("ScaleAndTranslate")
def convert_scale_and_translate(node: TfNode) -> Expr:
    size, kernel = node.ints(1, "size"), node.attr("kernel_type", "lanczos3")
    moved = [node[position] for position in (2, 3)]
    if not all(isinstance(one, Constant) for one in moved):
        node.unsupported("its scale or translation is computed at run time")
    scale, shift = (np.asarray(one.data, "float64") for one in moved if isinstance(one, Constant))
    sides = [
        resize_matrix(before, after, _KERNELS.get(kernel, kernel), node.attr("antialias", True), float(by), float(to))
        for before, after, by, to in zip(extents(node[0], 1, kernel), size, scale, shift)
    ]
    return by_matrices(cast(node[0], "float32"), 1, sides)


@converts("ResizeArea")
def convert_resize_area(node: TfNode) -> Expr:
    if node.attr("align_corners", False):
        node.unsupported("align_corners")
    size = node.ints(1, "size")
    sides = [area_matrix(before, after) for before, after in zip(extents(node[0], 1, "area"), size)]
    return by_matrices(cast(node[0], "float32"), 1, sides)


def _hsv_of(value: Expr) -> Expr:
    axis = rank_of(value) - 1
    red, green, blue = (index_axis(value, axis, one) for one in range(3))
    high, low = op.maximum(red, op.maximum(green, blue)), op.minimum(red, op.minimum(green, blue))
    width, zero, one = high - low, like(0, value), like(1, value)
    grey = op.logical_not(width > zero)
    saturation = op.where(high > zero, width / op.where(high > zero, high, one), zero)
    sixth = 1 / 6 / op.where(grey, one, width)
    by_green = sixth * (blue - red) + 2 / 6
    by_blue = sixth * (red - green) + 4 / 6
    by_red = sixth * (green - blue)
    hue = op.where(op.equal(red, high), by_red, op.where(op.equal(green, high), by_green, by_blue))
    hue = op.where(grey, zero, hue)
    return op.stack([hue + op.where(hue < zero, one, zero), saturation, high], axis=axis)


def _rgb_of(value: Expr) -> Expr:
    hue, saturation, brightness = _parts(value)
    pale = 1 - saturation
    made = [(pale + saturation * part) * brightness for part in _pure_colour(hue)]
    return op.stack(made, axis=rank_of(value) - 1)


def _pure_colour(hue: Expr) -> list[Expr]:
    """Red, green and blue, 0 … 1, of a hue, 0 … 1."""
    turns = hue * 6
    parts = (op.abs(turns - 3) - 1, 2 - op.abs(turns - 2), 2 - op.abs(turns - 4))
    return [op.clip(part, 0.0, 1.0) for part in parts]


converts.functions({"RGBToHSV": lambda node: _hsv_of(node[0]), "HSVToRGB": lambda node: _rgb_of(node[0])})


@converts("AdjustContrastv2")
def convert_adjust_contrast(node: TfNode) -> Expr:
    value = node[0]
    mean = op.mean(value, axis=(node.rank() - 3, node.rank() - 2), keepdims=True)
    return (value - mean) * cast(node[1], dtype_of(value)) + mean


@converts("AdjustSaturation")
def convert_adjust_saturation(node: TfNode) -> Expr:
    hue, saturation, brightness = _parts(_hsv_of(node[0]))
    more = op.clip(saturation * cast(node[1], dtype_of(saturation)), 0.0, 1.0)
    return _rgb_of(op.stack([hue, more, brightness], axis=node.rank() - 1))


@converts("AdjustHue")
def convert_adjust_hue(node: TfNode) -> Expr:
    """The hue turned between the least and the largest channel, which stay: numbers outside of 0 … 1 are no colours."""
    last = node.rank() - 1
    hue = _parts(_hsv_of(node[0]))[0]
    turned = hue + cast(node[1], dtype_of(hue))
    turned = turned - op.floor(turned)
    low = op.min(node[0], axis=(last,))
    width = op.max(node[0], axis=(last,)) - low
    return op.stack([low + width * part for part in _pure_colour(turned)], axis=last)


def _parts(value: Expr) -> list[Expr]:
    return [index_axis(value, rank_of(value) - 1, position) for position in range(3)]


@converts("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def convert_non_max_suppression(node: TfNode) -> Expr:
    """The boxes that are kept, as many as there are."""
    boxes, scores = op.expand_dims(node[0], axis=0), op.expand_dims(node[1], axis=0, num_newaxis=2)
    limits = [
        reshape(cast(node[2], "int64"), (1,)),
        *(reshape(node[position], (1,)) for position in (3, 4) if node.has(position)),
    ]
    rows = host_call("NonMaxSuppression", [boxes, scores, *limits], TensorType([Any(), 3], "int64"))
    return cast(index_axis(rows, 1, 2), "int32")
