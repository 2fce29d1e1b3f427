"""Operations of `keras.ops.image`."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.builders.sliding import Window, patches
from tilewright.frontend.idioms import (
    along,
    cast,
    channels_first,
    channels_last,
    dtype_of,
    index_axis,
    rank_of,
    shape_of,
)
from tilewright.frontend.keras.convolution import per_axis
from tilewright.frontend.keras.image import resized
from tilewright.frontend.keras.layer import FloatTensor, Operation, as_float
from tilewright.frontend.keras.registry import operation
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


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
