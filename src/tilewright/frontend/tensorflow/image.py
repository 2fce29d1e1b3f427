"""Resizing and cropping of images, colours, and detection."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.idioms import cast, channels_first, channels_last, dtype_of, index_axis, is_float, like
from tilewright.frontend.tensorflow.node import TfNode
from tilewright.frontend.tensorflow.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_METHODS = {"ResizeBilinear": "linear", "ResizeNearestNeighbor": "nearest_neighbor", "ResizeBicubic": "cubic"}


@converts(*_METHODS)
def convert_resize(node: TfNode) -> Expr:
    height, width = node.ints(1, "size")
    corners, half = node.b("align_corners"), node.b("half_pixel_centers")
    mode = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    data = node[0] if is_float(node.dtype()) or node.operator == "ResizeNearestNeighbor" else cast(node[0], "float32")
    options: dict[str, Any] = {"coordinate_transformation_mode": mode, "method": _METHODS[node.operator]}
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
    return op.image.crop_and_resize(
        cast(node[0], "float32"), node[1], node[2], crop_size=node.ints(3, "size"), layout="NHWC",
        method={"bilinear": "bilinear", "nearest": "nearest_neighbor"}[node.s("method", "bilinear")],
        extrapolation_value=node.f("extrapolation_value"),
    )  # fmt: skip


@converts("RGBToHSV")
def convert_rgb_to_hsv(node: TfNode) -> Expr:
    value, axis = node[0], node.rank() - 1
    red, green, blue = (index_axis(value, axis, one) for one in range(3))
    high, low = op.maximum(red, op.maximum(green, blue)), op.minimum(red, op.minimum(green, blue))
    width, zero, one = op.subtract(high, low), like(0, value), like(1, value)
    grey = op.logical_not(op.greater(width, zero))
    saturation = op.where(op.greater(high, zero), op.divide(width, op.where(op.greater(high, zero), high, one)), zero)
    sixth = op.divide(like(1 / 6, value), op.where(grey, one, width))
    by_green = op.add(op.multiply(sixth, op.subtract(blue, red)), like(2 / 6, value))
    by_blue = op.add(op.multiply(sixth, op.subtract(red, green)), like(4 / 6, value))
    by_red = op.multiply(sixth, op.subtract(green, blue))
    hue = op.where(op.equal(red, high), by_red, op.where(op.equal(green, high), by_green, by_blue))
    hue = op.where(grey, zero, hue)
    return op.stack([op.add(hue, op.where(op.less(hue, zero), one, zero)), saturation, high], axis=axis)


@converts("HSVToRGB")
def convert_hsv_to_rgb(node: TfNode) -> Expr:
    value, axis = node[0], node.rank() - 1
    hue, saturation, brightness = (index_axis(value, axis, one) for one in range(3))
    turns, one, two = op.multiply(hue, like(6, value)), like(1, value), like(2, value)
    parts = [
        op.subtract(op.abs(op.subtract(turns, like(3, value))), one),
        op.subtract(two, op.abs(op.subtract(turns, two))),
        op.subtract(two, op.abs(op.subtract(turns, like(4, value)))),
    ]
    pale = op.subtract(one, saturation)
    made = [op.multiply(op.add(pale, op.multiply(saturation, op.clip(part, 0.0, 1.0))), brightness) for part in parts]
    return op.stack(made, axis=axis)


@converts("AdjustContrastv2")
def convert_adjust_contrast(node: TfNode) -> Expr:
    value = node[0]
    mean = op.mean(value, axis=(node.rank() - 3, node.rank() - 2), keepdims=True)
    return op.add(op.multiply(op.subtract(value, mean), cast(node[1], dtype_of(value))), mean)
