"""Convolutions, pooling, and sampling of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.values import FLOATS

#: Element types in which a reference computes networks.
REAL = (T.FLOAT, T.DOUBLE, T.FLOAT16)


def image(draw: Draft, element: int, ranks: Sequence[int] = (3, 4, 4, 4, 5), channels: int | None = None) -> Value:
    """Data in NCW, NCHW or NCDHW, of the graph or new; never empty."""
    rank = draw.choice(ranks)
    found = draw.tensors([element], lambda v: v.rank == rank and 0 not in v.shape and channels in (None, v.shape[1]))
    if found and draw.chance(0.7):
        return found[-1]
    depth = channels or draw.choice([1, 2, 3, 4, 8, 16])
    side = {3: 12, 4: 9, 5: 5}[rank]
    return draw.leaf(element, (draw.integer(1, 2), depth, *(draw.integer(1, side) for _ in range(rank - 2))), "small")


def window(draw: Draft, sizes: Sequence[int], operator: str, largest: int = 3) -> dict[str, Any]:
    """Attributes of a window that fits: kernel, strides, dilations, padding."""
    kernel = [draw.integer(1, largest) for _ in sizes]
    found: dict[str, Any] = {"kernel_shape": kernel}
    if draw.chance(0.6):
        found["strides"] = [draw.integer(1, 3) for _ in sizes]
    dilated = draw.chance(0.3) and draw.takes(operator, "dilations")
    dilations = [draw.integer(1, 2) if dilated else 1 for _ in sizes]
    if dilated:
        found["dilations"] = dilations
    how = draw.choice(["pads", "pads", "none", "auto"])
    wide = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    if how == "auto" and not dilated:
        found["auto_pad"] = draw.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    elif how == "pads":
        found["pads"] = [draw.integer(0, min(2, k - 1)) for k in kernel * 2]
    pads = found.get("pads", [0] * 2 * len(sizes))
    same = str(found.get("auto_pad", "")).startswith("SAME")
    strides = found.get("strides", [1] * len(sizes))
    if same and any((-(-s // t) - 1) * t + k < s for s, t, k in zip(sizes, strides, kernel)):
        raise Rejected("the padding would be below zero, which each reference takes differently")
    if not same and any(s + pads[i] + pads[i + len(sizes)] < wide[i] for i, s in enumerate(sizes)):
        raise Rejected("the window is wider than the data")
    return found


def conv(draw: Draft, operator: str) -> None:
    """Conv and ConvTranspose in groups, depthwise or whole."""
    element = draw.element(operator, only=REAL)
    data = image(draw, element)
    channels, sizes = data.shape[1], data.shape[2:]
    attributes = window(draw, sizes, operator)
    groups = draw.choice(n for n in (1, 1, 1, 2, channels) if channels % n == 0)
    outputs = groups * draw.choice([1, 2, 3, 8])
    kernel = attributes["kernel_shape"]
    if operator == "Conv":
        weight = (outputs, channels // groups, *kernel)
    else:
        weight = (channels, outputs // groups, *kernel)
        strides = attributes.get("strides", [1] * len(sizes))
        if draw.chance(0.3):
            attributes["output_padding"] = [draw.integer(0, s - 1) for s in strides]
    if draw.chance(0.3):
        del attributes["kernel_shape"]
    bias = draw.operand([element], shape=(outputs,), kind="small") if draw.chance(0.5) else None
    filters = draw.operand([element], shape=weight, kind="small")
    (made,) = draw.emit(operator, [data, filters, bias], group=groups if groups > 1 else None, **attributes)
    if 0 in made.shape:
        draw.withdraw()
        raise Rejected("the padding leaves nothing")


def deform_conv(draw: Draft, operator: str) -> None:
    """DeformConv in two dimensions, with and without a mask."""
    element = draw.element(operator, only=REAL)
    data = image(draw, element, ranks=(4,))
    batch, channels, *sizes = data.shape
    attributes = window(draw, sizes, operator)
    attributes.pop("auto_pad", None)
    kernel, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
    dilations, pads = attributes.get("dilations", [1, 1]), attributes.get("pads", [0] * 4)
    if any(s + pads[i] + pads[i + 2] < (kernel[i] - 1) * dilations[i] + 1 for i, s in enumerate(sizes)):
        raise Rejected("the window is wider than the data")
    out = [
        (s + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i, s in enumerate(sizes)
    ]
    taps = int(np.prod(kernel))
    outputs = draw.integer(1, 4)
    filters = draw.leaf(element, (outputs, channels, *kernel), "small")
    offset = draw.leaf(element, (batch, 2 * taps, *out), "unit")
    bias = draw.leaf(element, (outputs,), "small") if draw.chance(0.5) else None
    mask = draw.leaf(element, (batch, taps, *out), "unit") if draw.chance(0.5) else None
    draw.emit(operator, [data, filters, offset, bias, mask], **attributes)


def pool(draw: Draft, operator: str) -> None:
    """MaxPool, AveragePool, LpPool."""
    data = image(draw, draw.element(operator, only=(*REAL, T.INT8, T.UINT8)))
    attributes = window(draw, data.shape[2:], operator)
    if draw.chance(0.4) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = draw.integer(0, 1)
    if operator == "AveragePool" and draw.chance(0.5):
        attributes["count_include_pad"] = draw.integer(0, 1)
    if operator == "LpPool":
        attributes["p"] = draw.integer(1, 3)
    wanted = [True] + ([draw.chance(0.3)] if operator == "MaxPool" and draw.since(operator) >= 8 else [])
    if operator == "MaxPool" and draw.chance(0.2):
        attributes["storage_order"] = draw.integer(0, 1)
    draw.emit(operator, [data], wanted, **attributes)


def global_pool(draw: Draft, operator: str) -> None:
    """GlobalAveragePool, GlobalMaxPool, GlobalLpPool."""
    data = image(draw, draw.element(operator, only=REAL))
    draw.emit(operator, [data], p=draw.integer(1, 3) if operator == "GlobalLpPool" else None)


def max_unpool(draw: Draft, operator: str) -> None:
    """MaxUnpool of what a MaxPool gave."""
    data = image(draw, draw.element(operator, only=REAL), ranks=(4,))
    if any(size < 2 or size % 2 for size in data.shape[2:]):
        raise Rejected("the indices are of another image than is inferred")
    pooled, where = draw.emit("MaxPool", [data], 2, kernel_shape=[2, 2], strides=[2, 2])
    size = draw.known(np.array(data.shape, np.int64)) if draw.chance(0.5) else None
    draw.emit(operator, [pooled, where, size], kernel_shape=[2, 2], strides=[2, 2])


def resize(draw: Draft, operator: str) -> None:
    """Resize in each mode, to sizes or by scales."""
    element = draw.element(operator, only=(*REAL, T.UINT8, T.INT8, T.INT32))
    data = image(draw, element, ranks=(4, 4, 3))
    mode = draw.choice(["nearest", "linear", "cubic"] if element in REAL else ["nearest"])
    if mode == "cubic" and data.rank != 4:
        raise Rejected("cubic is of images")
    out = [*data.shape[:2], *(max(1, round(s * draw.choice([0.5, 1, 1.5, 2, 3]))) for s in data.shape[2:])]
    scales = np.array([o / s for o, s in zip(out, data.shape)], np.float32)
    if draw.since(operator) < 11:
        draw.emit(operator, [data, draw.known(scales)], mode="nearest" if mode == "cubic" else mode)
        return
    kinds = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    if draw.since(operator) >= 19:
        kinds.append("half_pixel_symmetric")
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": draw.choice(kinds)}
    if mode == "nearest":
        attributes["nearest_mode"] = draw.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic" and draw.chance(0.5):
        attributes |= {"cubic_coeff_a": -0.5, "exclude_outside": draw.integer(0, 1)}
    if draw.since(operator) >= 18 and mode != "nearest" and draw.chance(0.3):
        attributes["antialias"] = 1
    roi = draw.constant(np.array([], np.float32)) if draw.since(operator) < 13 else None
    if draw.chance(0.5):
        no_scales = draw.constant(np.array([], np.float32)) if draw.since(operator) < 13 else None
        draw.emit(operator, [data, roi, no_scales, draw.known(np.array(out, np.int64))], **attributes)
    else:
        draw.emit(operator, [data, roi, draw.known(scales)], **attributes)


def upsample(draw: Draft, operator: str) -> None:
    """Upsample by whole factors, which are an attribute before opset 9."""
    data = image(draw, draw.element(operator, only=REAL), ranks=(4,))
    scales = [1.0, 1.0, float(draw.integer(1, 3)), float(draw.integer(1, 3))]
    mode = draw.choice(["nearest", "linear"])
    if draw.since(operator) < 9:
        draw.emit(operator, [data], mode=mode, scales=scales)
    else:
        draw.emit(operator, [data, draw.known(np.array(scales, np.float32))], mode=mode)


def grid_sample(draw: Draft, operator: str) -> None:
    """GridSample at points in and out of the image."""
    element = draw.element(operator, only=(T.FLOAT, T.DOUBLE))
    data = image(draw, element, ranks=(4, 4, 5) if draw.since(operator) >= 20 else (4,))
    spatial = data.rank - 2
    grid = draw.leaf(element, (data.shape[0], *(draw.integer(1, 4) for _ in range(spatial)), spatial), "unit")
    new = draw.since(operator) >= 20
    modes = ["linear", "nearest", "cubic"] if new else ["bilinear", "nearest", "bicubic"]
    mode = draw.choice(modes if spatial == 2 else modes[:2])
    padding = draw.choice(["zeros", "border", "reflection"])
    draw.emit(operator, [data, grid], mode=mode, padding_mode=padding, align_corners=draw.integer(0, 1))


def affine_grid(draw: Draft, operator: str) -> None:
    """AffineGrid in two and three dimensions."""
    spatial = draw.integer(2, 3)
    batch = draw.integer(1, 2)
    size = [batch, draw.integer(1, 3), *(draw.integer(1, 4) for _ in range(spatial))]
    theta = draw.operand([draw.element(operator, only=(T.FLOAT, T.DOUBLE))], shape=(batch, spatial, spatial + 1))
    draw.emit(operator, [theta, draw.known(np.array(size, np.int64))], align_corners=draw.integer(0, 1))


def regions(draw: Draft, operator: str) -> None:
    """RoiAlign and MaxRoiPool of regions within the image."""
    element = draw.element(operator, only=(T.FLOAT, T.DOUBLE))
    data = image(draw, element, ranks=(4,))
    count = draw.integer(1, 3)
    batch, _, height, width = data.shape
    corners = [[draw.integer(0, width - 1), draw.integer(0, height - 1)] for _ in range(count)]
    boxes = np.array([[x, y, x + draw.integer(1, 4), y + draw.integer(1, 4)] for x, y in corners])
    which = np.array([draw.integer(0, batch - 1) for _ in range(count)], np.int64)
    kind = np.float32 if element == T.FLOAT else np.float64
    if operator == "MaxRoiPool":
        rois = np.concatenate([which[:, None], boxes], axis=1).astype(kind)
        draw.emit(operator, [data, draw.known(rois, 0.5)], pooled_shape=[draw.integer(1, 3), draw.integer(1, 3)])
        return
    attributes = {"output_height": draw.integer(1, 3), "output_width": draw.integer(1, 3)}
    attributes |= {"sampling_ratio": draw.integer(0, 2), "spatial_scale": draw.choice([1.0, 0.5])}
    kinds = draw.choice([None, "half_pixel", "output_half_pixel"])
    inputs = [data, draw.known(boxes.astype(kind), 0.5), draw.known(which, 0.5)]
    mode = draw.choice([None, "avg", "max"])
    draw.emit(operator, inputs, mode=mode, coordinate_transformation_mode=kinds, **attributes)


def causal_conv(draw: Draft, operator: str) -> None:
    """CausalConvWithState, with and without what came before."""
    element = draw.element(operator, only=FLOATS)
    batch, channels, length, taps = (draw.integer(1, n) for n in (2, 4, 6, 4))
    data = draw.operand([element], shape=(batch, channels, length), kind="small")
    weight = draw.leaf(element, (channels, 1, taps), "small")
    bias = draw.leaf(element, (channels,), "small") if draw.chance(0.5) else None
    past = draw.leaf(element, (batch, channels, taps - 1), "small") if draw.chance(0.5) else None
    activation = draw.choice([None, "none", "silu", "swish"])
    draw.emit(operator, [data, weight, bias, past], 2, activation=activation)


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), conv),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), global_pool),
    **dict.fromkeys(("RoiAlign", "MaxRoiPool"), regions),
    "DeformConv": deform_conv, "MaxUnpool": max_unpool, "Resize": resize, "Upsample": upsample,
    "GridSample": grid_sample, "AffineGrid": affine_grid, "CausalConvWithState": causal_conv,
}  # fmt: skip
