"""Operations of `keras.ops.image`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.builders.sliding import Window, patches
from tilewright.frontend.idioms import cast, constant, dtype_of, index_axis, like, rank_of, shape_of
from tilewright.frontend.keras.convolution import per_axis
from tilewright.frontend.keras.image import resized
from tilewright.frontend.keras.layer import Operation, as_float, tensors
from tilewright.frontend.keras.registry import operation
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _last(data_format: Any) -> bool:
    return data_format != "channels_first"


@operation("Resize")
def convert_resize(
    _item: Operation, images: Any, size: Any, interpolation: str = "bilinear", antialias: bool = False,
    crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant",
    fill_value: float = 0.0, data_format: Any = None,
) -> Expr:  # fmt: skip
    (value,) = tensors(images)
    single = rank_of(value) == 3
    value = op.expand_dims(value, axis=0) if single else value
    made = resized(
        value, (int(size[0]), int(size[1])), interpolation, antialias, _last(data_format), crop_to_aspect_ratio,
        pad_to_aspect_ratio, float(fill_value),
    )  # fmt: skip
    return op.squeeze(made, axis=(0,)) if single else made


@operation("RGBToGrayscale")
def convert_grayscale(_item: Operation, images: Any, data_format: Any = None) -> Expr:
    (value,) = tensors(images)
    axis = rank_of(value) - 1 if _last(data_format) else rank_of(value) - 3
    shape = [1] * rank_of(value)
    shape[axis] = 3
    share = np.asarray([0.2989, 0.587, 0.114]).reshape(shape)
    whole = as_float(value)
    made = op.sum(whole * constant(share, dtype_of(whole)), axis=(axis,), keepdims=True)
    return cast(made, dtype_of(value))


@operation("RGBToHSV")
def convert_rgb_to_hsv(_item: Operation, images: Any, data_format: Any = None) -> Expr:
    value = as_float(images)
    axis = rank_of(value) - 1 if _last(data_format) else rank_of(value) - 3
    red, green, blue = (index_axis(value, axis, one) for one in range(3))
    high, low = op.maximum(red, op.maximum(green, blue)), op.minimum(red, op.minimum(green, blue))
    width = high - low
    zero, one = like(0, value), like(1, value)
    saturation = op.where(high > zero, width / op.where(high > zero, high, one), zero)
    safe = 1 / 6 / op.where(width > zero, width, one)
    turns = [
        safe * (green - blue),
        safe * (blue - red) + 2 / 6,
        safe * (red - green) + 4 / 6,
    ]
    hue = op.where(op.equal(red, high), turns[0], op.where(op.equal(green, high), turns[1], turns[2]))
    hue = op.where(width > zero, hue, zero)
    hue = hue + op.where(hue < zero, one, zero)
    return op.stack([hue, saturation, high], axis=axis)


@operation("HSVToRGB")
def convert_hsv_to_rgb(_item: Operation, images: Any, data_format: Any = None) -> Expr:
    value = as_float(images)
    axis = rank_of(value) - 1 if _last(data_format) else rank_of(value) - 3
    hue, saturation, brightness = (index_axis(value, axis, one) for one in range(3))
    turns = hue * 6
    one = like(1, value)
    parts = [
        op.clip(op.abs(turns - 3) - one, 0.0, 1.0),
        op.clip(2 - op.abs(turns - 2), 0.0, 1.0),
        op.clip(2 - op.abs(turns - 4), 0.0, 1.0),
    ]
    faded = one - saturation
    made = [(faded + saturation * part) * brightness for part in parts]
    return op.stack(made, axis=axis)


@operation("ExtractPatches")
def convert_extract_patches(
    _item: Operation, images: Any, size: Any, strides: Any = None, dilation_rate: Any = 1, padding: str = "valid",
    data_format: Any = None,
) -> Expr:  # fmt: skip
    (value,) = tensors(images)
    last = _last(data_format)
    extents = per_axis(size, 2)
    plain = value if last else op.transpose(value, axes=(0, 2, 3, 1))
    shape = Window(extents, extents if strides is None else per_axis(strides, 2), per_axis(dilation_rate, 2), padding)
    made = patches(plain, shape)
    return made if last else op.transpose(made, axes=(0, 3, 1, 2))


@operation("PadImages", "CropImages")
def convert_frame(item: Operation, images: Any, data_format: Any = None, **sides: Any) -> Expr:
    (value,) = tensors(images)
    rank = rank_of(value)
    first = rank - 3 if _last(data_format) else rank - 2
    crop = item.class_name == "CropImages"
    word = "cropping" if crop else "padding"
    ends = []
    for axis, (before, behind, target) in enumerate((("top", "bottom", "height"), ("left", "right", "width"))):
        lead, tail, wanted = sides.get(f"{before}_{word}"), sides.get(f"{behind}_{word}"), sides.get(f"target_{target}")
        extent = shape_of(value)[first + axis]
        total = None if wanted is None else (extent - wanted if crop else wanted - extent)
        if [lead, tail, total].count(None) != 1:
            item.unsupported("sides of which not two of three are given")
        lead = total - tail if lead is None else lead  # type: ignore[operator]
        ends.append((int(lead), int(total - lead if tail is None else tail)))
    if crop:
        end = [shape_of(value)[first + axis] - behind for axis, (_, behind) in enumerate(ends)]
        begin = [before for before, _ in ends]
        return op.strided_slice(value, begin=begin, end=end, strides=(1, 1), axes=(first, first + 1))
    widths = [(0, 0)] * rank
    widths[first], widths[first + 1] = ends
    return op.nn.pad(value, pad_width=widths)
