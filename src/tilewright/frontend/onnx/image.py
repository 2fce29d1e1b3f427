"""Resize, Upsample and sampling. Shapes are static, so where each element reads from is known at import time.

Two resized axes that keep the usual conventions become `image.resize2d`. Anything else goes axis by axis: nearest is a
gather with constant indices, linear and cubic a weighted sum of such gathers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.builders.sampling import affine_grid, pixels_of, sampled, taps_of, weighted_samples
from tilewright.frontend.idioms import broadcast_to, cast, concatenate, constant, index_axis, like
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.node import OnnxNode, reshape
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.runtime.host_ops.resample import COORDINATES, ROUNDINGS, Axis, nearest_indices, outside, weighted_taps
from tilewright.runtime.host_ops.resize import sized
from tilewright.topi.shapes import Size, simplified

_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@dataclass(frozen=True)
class _Style:
    """The parameters of resizing: interpolation, coordinate convention, and the fine print of each."""

    mode: str
    coordinates: str = "asymmetric"
    rounding: str = "floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@converts("Upsample")
def convert_upsample(node: OnnxNode) -> Expr:
    """Scales as attributes (opsets 1 to 8)."""
    if node.opset < 7:
        scales = [1.0, 1.0, float(node.require("height_scale")), float(node.require("width_scale"))]
    else:
        scales = node.require("scales")
    return _upsample(node, scales)


converts.functions({"Upsample": lambda node: _upsample(node, node.static(1, "scales").tolist())}, since=9)
converts.functions({"Resize": lambda node: _upsample(node, node.static(1, "scales").tolist())}, since=10)


def _upsample(node: OnnxNode, scales: Sequence[float]) -> Expr:
    mode = node.choice("mode", "nearest", ("nearest", "linear", "bilinear"))
    axes = [Axis(extent, _scaled(extent, scale), scale) for extent, scale in zip(node.shape(), scales)]
    return _resize(node, dict(enumerate(axes)), _Style("nearest" if mode == "nearest" else "linear"))


@converts("Resize", since=11)
def convert_resize_11(
    node: OnnxNode, cubic_coeff_a: float = -0.75, exclude_outside: bool = False, antialias: bool = False,
    extrapolation_value: float = 0.0,
) -> Expr:  # fmt: skip
    """Scales or sizes, every coordinate convention, and from opset 18 axes, antialiasing and aspect policies."""
    style = _Style(
        node.choice("mode", "nearest", tuple(_METHODS)),
        node.choice("coordinate_transformation_mode", "half_pixel", tuple(COORDINATES)),
        node.choice("nearest_mode", "round_prefer_floor", tuple(ROUNDINGS)), cubic_coeff_a, exclude_outside,
        antialias, extrapolation_value,
    )  # fmt: skip
    return _resize(node, _resized_axes(node, style), style)


def _scaled(extent: Size, scale: float) -> Size:
    """The resized extent; of a symbolic one, where `scale` or its inverse is a whole number."""
    if isinstance(extent, int):
        return int(np.floor(extent * np.float32(scale)))
    inverse = 1 / scale
    if scale == round(scale):
        return simplified(extent * round(scale))
    if inverse == round(inverse):
        return simplified(extent // round(inverse))
    raise UnsupportedError(f"a dimension {extent} that varies from run to run cannot be resized by {scale}")


def _resized_axes(node: OnnxNode, style: _Style) -> dict[int, Axis]:
    shape = node.shape()
    axes = node.axes(node.attr("axes") or range(len(shape)), len(shape))
    roi = [0.0] * len(axes) + [1.0] * len(axes)
    if style.coordinates == "tf_crop_and_resize":
        roi = node.static(1, "roi").reshape(-1).tolist()
    scales = node.static(2, "scales").reshape(-1).tolist() if node.has(2) else []
    sizes = node.optional_ints(3, "sizes") or []
    policy = node.choice("keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
    if scales:
        outs = [_scaled(shape[axis], scale) for axis, scale in zip(axes, scales)]
    elif len(sizes) == len(axes):
        outs, scales = sized(policy, [shape[axis] for axis in axes], sizes)
    else:
        raise ModelError(f"{node.label}: neither scales nor sizes for its {len(axes)} axes are given")
    return {
        axis: Axis(shape[axis], out, scale, roi[position], roi[position + len(axes)])
        for position, (axis, out, scale) in enumerate(zip(axes, outs, scales))
    }


def _resize(node: OnnxNode, axes: dict[int, Axis], style: _Style) -> Expr:
    data = node[0]
    active = {index: axis for index, axis in axes.items() if not axis.is_identity(style.coordinates)}
    if not active:
        return data
    if _is_plain(node, active, style):
        plane = [active.get(index) or Axis(node.shape()[index], node.shape()[index], 1.0) for index in (2, 3)]
        return op.image.resize2d(
            data,
            size=tuple(axis.out for axis in plane),
            layout="NCHW",
            method=_METHODS[style.mode],
            coordinate_transformation_mode=style.coordinates,
            rounding_method=style.rounding if style.mode == "nearest" else "",
            cubic_alpha=style.cubic_a,
            cubic_exclude=style.exclude_outside,
            scales=_scales(plane),
        )
    if style.mode != "nearest" and node.dtype() != "float64":
        data = cast(data, "float32")
    for index, axis in active.items():
        data = _resize_axis(node, data, index, axis, style)
    data = cast(data, node.dtype())
    if style.coordinates != "tf_crop_and_resize":
        return data
    for index, axis in active.items():
        beyond = outside(axis)
        if beyond.any():
            mask = Constant(beyond.reshape([-1 if i == index else 1 for i in range(node.rank())]))
            data = op.where(mask, like(style.extrapolation, data), data)
    return data


def _scales(plane: list[Axis]) -> tuple[float, ...]:
    """The scales that coordinates are computed with, where they are not just the ratio of the sizes."""
    sizes_known = all(isinstance(axis.out, int) and isinstance(axis.extent, int) for axis in plane)
    if sizes_known and all(np.float32(axis.scale) == np.float32(axis.out / (axis.extent or 1)) for axis in plane):
        return ()
    return tuple(axis.scale for axis in plane)


def _is_plain(node: OnnxNode, active: dict[int, Axis], style: _Style) -> bool:
    """True for what `image.resize2d` computes: height and width of NCHW, without antialiasing or a crop."""
    return (
        node.rank() == 4
        and set(active) <= {2, 3}
        and style.coordinates != "tf_crop_and_resize"
        and not style.antialias
        and (style.mode == "cubic" or not style.exclude_outside)
        and node.dtype().is_float
    )


def _resize_axis(node: OnnxNode, data: Expr, index: int, axis: Axis, style: _Style) -> Expr:
    if style.mode == "nearest":
        picked = nearest_indices(axis, style.coordinates, style.rounding)
        return op.take(data, Constant(picked), axis=index, mode="clip")
    positions, weights = weighted_taps(
        axis, style.coordinates, style.mode, style.cubic_a, style.exclude_outside, style.antialias
    )
    return _interpolated(node, data, index, positions, weights)


def _interpolated(node: OnnxNode, data: Expr, index: int, positions: np.ndarray, weights: np.ndarray) -> Expr:
    """`data` (float32 or float64) with axis `index` interpolated: the weighted sum of the elements at `positions`."""
    trailing = [1] * (node.rank(data) - 1 - index)
    scaled = op.take(data, Constant(positions), axis=index, mode="clip") * constant(
        weights.reshape([*weights.shape, *trailing]), node.dtype(data)
    )
    return op.sum(scaled, axis=index + 1, keepdims=False)


# ------------------------------------------------------------------------------------------------ Sampling at positions
_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "nearest": "nearest", "cubic": "cubic"}


@converts("GridSample", since=16)
@converts("GridSample", domain=MICROSOFT)
def convert_grid_sample(node: OnnxNode, align_corners: bool = False) -> Expr:
    """Samples of X (N, C, …) at the positions in a grid (N, …, axes), whose last axis counts from the last extent."""
    mode = _MODES[node.choice("mode", "bilinear" if node.opset < 20 else "linear", tuple(_MODES))]
    padding = node.choice("padding_mode", "zeros", ("zeros", "border", "reflection"))
    extents = node.shape()[2:]
    if not is_static(extents):
        node.unsupported("samples of images of symbolic sizes")
    if node.shape(1)[-1] != len(extents):
        node.bad(f"a grid of shape {list(node.shape(1))} for images of shape {list(node.shape())}")
    return sampled(node[0], pixels_of(node[1], extents, align_corners), mode, padding, align_corners)


@converts("AffineGrid", since=20)
def convert_affine_grid(node: OnnxNode, x: Expr, align_corners: bool = False) -> Expr:
    batch, _, *extents = node.ints(1, "size")
    return affine_grid(x, (batch, *extents), align_corners)


@converts("DeformConv", since=19)
def convert_deform_conv(node: OnnxNode, group: int = 1, offset_group: int = 1) -> Expr:
    """A convolution whose taps are moved by learned offsets (and weighted by a mask): sampling, then a product."""
    (batch, channels, *extents), (units, _, *kernel) = node.shape(), node.shape(1)
    node.ignore("kernel_shape")
    strides, dilations = node.per_axis("strides", 1, 2), node.per_axis("dilations", 1, 2)
    pads = node.per_axis("pads", 0, 4)
    out = node.shape(2)[2:]
    count = kernel[0] * kernel[1]
    offsets = reshape(node, node[2], (batch * offset_group, count, 2, *out))
    data = reshape(node, node[0], (batch * offset_group, channels // offset_group, *extents))
    taps = []
    for axis in range(2):
        moved = index_axis(offsets, 2, axis)
        base = _tap_positions(kernel, out, strides, dilations, pads, axis)
        taps.append(taps_of(moved + constant(base, node.dtype(moved)), "linear"))
    columns = weighted_samples(data, taps)
    if node.has(4):
        columns = columns * reshape(node, node[4], (batch * offset_group, 1, count, *out))
    depth = channels // group * count
    stacked = reshape(node, columns, (batch * group, depth, out[0] * out[1]))
    weights = broadcast_to(reshape(node, node[1], (1, units, depth)), (batch, units, depth))
    matrices = reshape(node, weights, (batch * group, units // group, depth))
    product = op.nn.batch_matmul(matrices, stacked, transpose_a=False, transpose_b=False)
    result = reshape(node, product, (batch, units, *out))
    return op.nn.bias_add(result, node[3], axis=1) if node.has(3) else result


def _tap_positions(
    kernel: Sequence[int], out: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int],
    axis: int,
) -> np.ndarray:  # fmt: skip
    """The coordinates that each tap reads without an offset along an axis: (1, taps, rows, columns)."""
    tap = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilations[axis]
    return (tap + (np.indices(out)[axis][None] * strides[axis]) - pads[axis])[None].astype(np.float64)


@converts("Col2Im", since=18)
def convert_col2im(node: OnnxNode) -> Expr:
    """Patches (N, C * taps, positions) added up to images: each tap's plane, spread by the stride, at its offset."""
    image, block = node.ints(1, "image_shape"), node.ints(2, "block_shape")
    axes = len(image)
    strides, dilations = node.per_axis("strides", 1, axes), node.per_axis("dilations", 1, axes)
    pads = node.per_axis("pads", 0, 2 * axes)
    batch, columns, _ = node.shape()
    channels = columns // int(np.prod(block))
    padded = [image[a] + pads[a] + pads[a + axes] for a in range(axes)]
    steps = [(padded[a] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1 for a in range(axes)]
    count, positions = int(np.prod(block)), int(np.prod(steps))
    # Every element of the image gathers the patch elements that fall on it; the position behind the last holds zero.
    taps = np.indices(block).reshape(axes, -1)
    origin = np.indices(steps).reshape(axes, -1)
    source: list[list[int]] = [[] for _ in range(int(np.prod(padded)))]
    for tap in range(count):
        for position in range(positions):
            target = [int(origin[a, position] * strides[a] + taps[a, tap] * dilations[a]) for a in range(axes)]
            source[int(np.ravel_multi_index(target, padded))].append(tap * positions + position)
    deepest = max(map(len, source))
    table = np.array([entry + [count * positions] * (deepest - len(entry)) for entry in source]).reshape(
        *padded, deepest
    )
    for a in range(axes):
        table = np.take(table, range(pads[a], pads[a] + image[a]), axis=a)
    flat = reshape(node, node[0], (batch * channels, count * positions))
    zero = constant(np.zeros((batch * channels, 1)), node.dtype())
    picked = op.take(concatenate([flat, zero], 1), Constant(table), axis=1, mode="clip")
    return reshape(node, op.sum(picked, axis=(axes + 1,), keepdims=False), (batch, channels, *image))
