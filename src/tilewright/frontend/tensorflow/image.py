"""Resizing and cropping of images, colours, and detection."""

from __future__ import annotations

from typing import Any as AnyValue

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import colours
from tilewright.frontend.builders.resizing import area_matrix, by_matrices, cubic_matrix, extents, resize_matrix
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
    if node.operator == "ResizeBicubic" and all(isinstance(extent, int) for extent in idioms.shape_of(node[0])[1:3]):
        rows, columns = extents(node[0], 1, "bicubic")
        sides = cubic_matrix(rows, height, corners, half), cubic_matrix(columns, width, corners, half)
        return by_matrices(idioms.cast(node[0], "float32"), 1, sides)
    mode = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    data = (
        node[0]
        if idioms.is_float(node.dtype()) or node.operator == "ResizeNearestNeighbor"
        else idioms.cast(node[0], "float32")
    )
    options: dict[str, AnyValue] = {"coordinate_transformation_mode": mode, "method": _METHODS[node.operator]}
    if node.operator == "ResizeNearestNeighbor":
        options["rounding_method"] = "round_prefer_ceil" if corners else "floor"
        if half and not corners:  # floor((i + 0.5) * scale) is the nearest centre, the later one of two
            options["rounding_method"] = "round_prefer_ceil"
    if node.operator == "ResizeBicubic":
        options.update(cubic_alpha=-0.5 if half else -0.75, cubic_exclude=half)
    made = idioms.channels_last(op.image.resize2d(idioms.channels_first(data), size=(height, width), **options))
    return made if node.operator == "ResizeNearestNeighbor" else idioms.cast(made, "float32")


@converts("CropAndResize")
def convert_crop_and_resize(node: TfNode) -> Expr:
    made = op.image.crop_and_resize(
        idioms.channels_first(idioms.cast(node[0], "float32")), node[1], node[2], crop_size=node.ints(3, "size"),
        method={"bilinear": "bilinear", "nearest": "nearest_neighbor"}[node.attr("method", "bilinear")],
        extrapolation_value=node.attr("extrapolation_value", 0.0),
    )  # fmt: skip
    return idioms.channels_last(made)


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
    return by_matrices(idioms.cast(node[0], "float32"), 1, sides)


@converts("ResizeArea")
def convert_resize_area(node: TfNode) -> Expr:
    if node.attr("align_corners", False):
        node.unsupported("align_corners")
    size = node.ints(1, "size")
    sides = [area_matrix(before, after) for before, after in zip(extents(node[0], 1, "area"), size)]
    return by_matrices(idioms.cast(node[0], "float32"), 1, sides)


converts.functions({
    "RGBToHSV": lambda node: colours.hsv_of(node[0], node.rank() - 1),
    "HSVToRGB": lambda node: colours.rgb_of(node[0], node.rank() - 1),
})  # fmt: skip


@converts("AdjustContrastv2")
def convert_adjust_contrast(node: TfNode) -> Expr:
    value = node[0]
    mean = op.mean(value, axis=(node.rank() - 3, node.rank() - 2), keepdims=True)
    return (value - mean) * idioms.cast(node[1], idioms.dtype_of(value)) + mean


@converts("AdjustSaturation")
def convert_adjust_saturation(node: TfNode) -> Expr:
    last = node.rank() - 1
    hue, saturation, brightness = colours.channels(colours.hsv_of(node[0], last), last)
    more = op.clip(saturation * idioms.cast(node[1], idioms.dtype_of(saturation)), 0.0, 1.0)
    return colours.rgb_of(op.stack([hue, more, brightness], axis=last), last)


@converts("AdjustHue")
def convert_adjust_hue(node: TfNode) -> Expr:
    """The hue turned between the least and the largest channel, which stay: numbers outside of 0 … 1 are no colours."""
    last = node.rank() - 1
    hue = colours.channels(colours.hsv_of(node[0], last), last)[0]
    turned = hue + idioms.cast(node[1], idioms.dtype_of(hue))
    turned = turned - op.floor(turned)
    low = op.min(node[0], axis=(last,))
    width = op.max(node[0], axis=(last,)) - low
    return op.stack([low + width * part for part in colours.pure_colour(turned)], axis=last)


@converts("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def convert_non_max_suppression(node: TfNode) -> Expr:
    """The boxes that are kept, as many as there are."""
    boxes, scores = op.expand_dims(node[0], axis=0), op.expand_dims(node[1], axis=0, num_newaxis=2)
    limits = [
        idioms.reshape(idioms.cast(node[2], "int64"), (1,)),
        *(idioms.reshape(node[position], (1,)) for position in (3, 4) if node.has(position)),
    ]
    rows = host_call("NonMaxSuppression", [boxes, scores, *limits], TensorType([Any(), 3], "int64"))
    return idioms.cast(idioms.index_axis(rows, 1, 2), "int32")
