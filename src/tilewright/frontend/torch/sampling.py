"""Resizing, sampling on grids, windows as columns, padding that mirrors or repeats."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.sampling import sampled
from tilewright.frontend.idioms import along, constant, index_axis, move_axis, rank_of, reshape, shape_of, transpose
from tilewright.frontend.torch.build import arange, element_type, extent_of
from tilewright.frontend.torch.byte_planes import neighbours, resized_bytes
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import as_dim


@converts("aten.pad", "aten.constant_pad_nd")
def convert_pad(node: TorchNode, pad: Any, mode: Any = "constant", value: Any = None) -> Expr:
    """Elements put around the last axes: a number, or those of the tensor mirrored, repeated or from the other side."""
    if mode == "constant":
        return pad_constant(node["self"], pad, value or 0)
    return _pad_by_index(node, pad, mode)


def pad_constant(data: Expr, pad: Any, value: float) -> Expr:
    """A number put around, or with negative widths elements cut off."""
    rank = rank_of(data)
    width = [(0, 0)] * rank
    for position in range(len(pad) // 2):
        axis = rank - 1 - position
        low, high = pad[2 * position], pad[2 * position + 1]
        extent = shape_of(data)[axis]
        if not is_static((low, high)):
            data = _pad_open(data, axis, low, high, value)
            continue
        if low < 0 or high < 0:
            data = op.strided_slice(
                data, begin=(max(-low, 0),), end=(extent - max(-high, 0),), strides=(1,), axes=(axis,)
            )
        width[axis] = (max(low, 0), max(high, 0))
    if not any(low or high for low, high in width):
        return data
    if element_type(data).is_bool:
        padded = op.nn.pad(op.cast(data, dtype="uint8"), pad_width=tuple(width), pad_value=int(bool(value)))
        return op.cast(padded, dtype="bool")
    return op.nn.pad(data, pad_width=tuple(width), pad_value=value)


def _pad_open(data: Expr, axis: int, low: Any, high: Any, value: float) -> Expr:
    """One axis with a number put around, or elements cut off: a run knows how many, and which of the two."""
    extent = shape_of(data)[axis]
    wanted = as_dim(extent + low + high)
    positions = arange(wanted) - _width(extent, low)
    last = extent_of(extent) - 1
    within = op.logical_and(positions >= 0, positions <= last)
    taken = op.take(data, op.minimum(op.maximum(positions, 0), last), axis=axis, mode="clip")
    spread = reshape(within, (wanted, *[1] * (rank_of(data) - axis - 1)))
    return op.where(spread, taken, value)


def _width(extent: Any, width: Any) -> Expr:
    """The number of elements put before an axis, less than none where some are cut off, as a scalar."""
    if isinstance(width, int):
        return constant(width, "int64")
    return extent_of(as_dim(extent + width)) - extent_of(extent)


#: Which element each position from before the first to behind the last shows.
_SOURCES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "reflect": lambda positions, extent: extent - 1 - np.abs(extent - 1 - np.abs(positions)),
    "replicate": lambda positions, extent: np.clip(positions, 0, extent - 1),
    "circular": lambda positions, extent: positions % extent,
}


@converts(*(f"aten.{mode}_pad{rank}d" for mode in ("reflection", "replication") for rank in (1, 2, 3)))
def convert_pad_by_name(node: TorchNode) -> Expr:
    return _pad_by_index(node, node["padding"], "reflect" if "reflection" in node.target else "replicate")


def _pad_by_index(node: TorchNode, pad: Any, mode: str) -> Expr:
    data = node["self"]
    for position in range(len(pad) // 2):
        axis = rank_of(data) - 1 - position
        extent = shape_of(data)[axis]
        low, high = pad[2 * position], pad[2 * position + 1]
        if not is_static((extent, low, high)):
            data = _pad_open_by_index(node, data, axis, (low, high), mode)
            continue
        if mode == "circular":  # what is cut off does not come round again
            left, right = max(-low, 0), max(-high, 0)
            rest = extent - left - right
            source = left + _SOURCES[mode](np.arange(-max(low, 0), rest + max(high, 0)), rest)
        else:
            source = _SOURCES[mode](np.arange(-low, extent + high), extent)
        if low or high:
            data = op.take(data, Constant(source), axis=axis, mode="clip")
    return data


def _pad_open_by_index(node: TorchNode, data: Expr, axis: int, widths: tuple[Any, Any], mode: str) -> Expr:
    """One axis with its own elements put around, of an extent or by widths that a run knows."""
    extent = shape_of(data)[axis]
    if mode == "circular" and not all(isinstance(width, int) and width >= 0 for width in widths):
        node.unsupported("padding round an axis by widths that a run knows")
    positions = arange(as_dim(extent + widths[0] + widths[1])) - _width(extent, widths[0])
    count, zero = extent_of(extent), constant(0, "int64")
    last = count - 1
    if mode == "circular":
        positions = op.floor_mod(positions, count)
    elif mode == "reflect":
        positions = last - op.abs(last - op.abs(positions))
    return op.take(data, op.minimum(op.maximum(positions, zero), last), axis=axis, mode="clip")


@converts("aten.im2col")
def convert_im2col(node: TorchNode, data: Expr) -> Expr:
    """The windows of planes as columns: [samples, channels * taps, windows]."""
    alone = rank_of(data) == 3
    data = op.expand_dims(data, axis=0) if alone else data
    if not is_static(shape_of(data)[1:]):
        node.unsupported("planes of symbolic extent")
    kernel, dilation, padding, step = (node.pair(name) for name in ("kernel_size", "dilation", "padding", "stride"))
    if any(padding):
        data = op.nn.pad(data, pad_width=((0, 0), (0, 0), *((part, part) for part in padding)))
    for axis in range(2):
        count = (shape_of(data)[2 + 2 * axis] - (kernel[axis] - 1) * dilation[axis] - 1) // step[axis] + 1
        positions = np.arange(kernel[axis])[:, None] * dilation[axis] + np.arange(count) * step[axis]
        data = op.take(data, Constant(positions), axis=2 + 2 * axis, mode="clip")
    return reshape(transpose(data, (0, 1, 2, 4, 3, 5)), node.shape)


def _planes(node: TorchNode) -> Expr:
    """The tensor to resize, which has another name in some overloads."""
    return node["input"] if "input" in node.arguments else node["self"]


_NEAREST = {"upsample_nearest1d": 1, "upsample_nearest2d": 2, "upsample_nearest3d": 3,
            "_upsample_nearest_exact1d": 1, "_upsample_nearest_exact2d": 2, "_upsample_nearest_exact3d": 3}  # fmt: skip


@converts(*(f"aten.{name}" for name in _NEAREST))
def convert_upsample_nearest(node: TorchNode) -> Expr:
    """Every pixel of the result is the one that its corner (or with "exact" its centre) lies in."""
    data, name = _planes(node), node.target.split(".")[1]
    rank = _NEAREST[name]
    scales = _scales(node, rank)
    if not is_static([*shape_of(data)[2:], *node.shape[2:]]):
        node.unsupported("planes of symbolic extent")
    for axis in range(2, 2 + rank):
        extent, count = shape_of(data)[axis], node.shape[axis]
        given = scales[axis - 2]
        ratio = np.float32(1 / given) if given else np.float32(extent) / np.float32(count)
        offset = np.float32(0.5 if "exact" in name else 0)
        positions = np.minimum(((np.arange(count, dtype=np.float32) + offset) * ratio).astype(np.int64), extent - 1)
        if list(positions) != list(range(extent)):
            data = op.take(data, Constant(positions), axis=axis, mode="clip")
    return data


def _scales(node: TorchNode, rank: int) -> list[float | None]:
    """The factors that the program states, in place of those between the extents."""
    listed = node.get("scale_factors")
    if listed:
        return list(listed)
    names = ["scales"] if rank == 1 else ["scales_d", "scales_h", "scales_w"][-rank:]
    return [node.get(name) for name in names]


_CUBIC = -0.75


@converts("aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d", "aten.upsample_bicubic2d",
          "aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa")  # fmt: skip
def convert_upsample_linear(node: TorchNode) -> Expr:
    """Interpolated along one axis after another: each pixel of the result is a few of the data, weighted."""
    data = _planes(node)
    rank = rank_of(data) - 2
    scales = _scales(node, rank)
    if not is_static([*shape_of(data)[2:], *node.shape[2:]]):
        node.unsupported("planes of symbolic extent")
    bytes_ = element_type(data) == "uint8"
    for axis in reversed(range(2, 2 + rank)) if bytes_ else range(2, 2 + rank):
        extent, count, scale = shape_of(data)[axis], node.shape[axis], scales[axis - 2]
        if extent == count and (bytes_ or not scale):
            continue
        corners, cubic = bool(node["align_corners"]), "cubic" in node.target
        positions = _source(extent, count, corners, scale, cubic)
        if "_aa" in node.target:
            weights = _smoothing(extent, count, _ratio(extent, count, corners, scale), cubic)
            data = resized_bytes(data, axis, weights) if bytes_ else _smoothed(data, axis, weights)
        elif bytes_:
            data = resized_bytes(data, axis, neighbours(positions, extent, _taps(positions, cubic)))
        else:
            data = _interpolated(data, axis, positions, cubic)
    return idioms.cast(data, node.dtype)


def _source(extent: int, count: int, corners: bool, scale: float | None, cubic: bool) -> np.ndarray:
    """The coordinate in the data of each pixel of the result."""
    pixels = np.arange(count, dtype=np.float64)
    ratio = _ratio(extent, count, corners, scale)
    if corners:
        return pixels * ratio
    found = (pixels + 0.5) * ratio - 0.5
    return found if cubic else np.maximum(found, 0)


def _ratio(extent: int, count: int, corners: bool, scale: float | None) -> float:
    """The number of pixels of the data for each one of the result."""
    if corners:
        return (extent - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale else extent / count


def _smoothing(extent: int, count: int, ratio: float, cubic: bool) -> np.ndarray:
    """Weights [results, elements] of means whose window grows as the result gets smaller."""
    wide = max(ratio, 1.0)
    reach = (2 if cubic else 1) * wide
    weights = np.zeros((count, extent))
    for position in range(count):
        centre = ratio * (position + 0.5)
        first, last = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), extent)
        distance = np.abs((np.arange(first, last) - centre + 0.5) / wide)
        part = _cubic_filter(distance) if cubic else np.maximum(1 - distance, 0)
        weights[position, first:last] = part / part.sum()
    return weights


def _smoothed(data: Expr, axis: int, weights: np.ndarray) -> Expr:
    """Along one axis weighted means: a product with their weights."""
    moved = move_axis(data, axis, rank_of(data) - 1)
    made = op.nn.dense(moved, Constant(weights.astype(element_type(data).numpy)), units=len(weights))
    return move_axis(made, rank_of(data) - 1, axis)


def _cubic_filter(distance: np.ndarray) -> np.ndarray:
    a = -0.5  # that of antialiased filters
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = (((distance - 5) * distance + 8) * distance - 4) * a
    return np.where(distance < 1, near, np.where(distance < 2, far, 0))


def _taps(positions: np.ndarray, cubic: bool) -> list[tuple[int, np.ndarray]]:
    """The neighbours that count, by steps from the element before each position, and their weights."""
    part = positions - np.floor(positions)
    if not cubic:
        return [(0, 1 - part), (1, part)]
    near, far = [1 - part, part], [2 - part, 1 + part]
    inner = [((_CUBIC + 2) * t - (_CUBIC + 3)) * t * t + 1 for t in near[::-1]]
    outer = [((_CUBIC * t - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC for t in far[::-1]]
    return [(-1, outer[0]), (0, inner[0]), (1, inner[1]), (2, outer[1])]


def _interpolated(data: Expr, axis: int, positions: np.ndarray, cubic: bool) -> Expr:
    """Along one axis the sum of neighbours, each weighted by its distance."""
    extent = shape_of(data)[axis]
    first = np.floor(positions).astype(np.int64)
    terms = []
    for step, weight in _taps(positions, cubic):
        taken = op.take(data, Constant(np.clip(first + step, 0, extent - 1)), axis=axis, mode="clip")
        terms.append(taken * along(weight, axis, rank_of(data), element_type(data)))
    return reduce(op.add, terms)


@converts("aten.grid_sampler_2d", "aten.grid_sampler", "aten.grid_sampler_3d")
def convert_grid_sample(node: TorchNode) -> Expr:
    rank = rank_of(node["input"]) - 2
    method = ("bilinear", "nearest", "bicubic")[node["interpolation_mode"]]
    padding = ("zeros", "border", "reflection")[node["padding_mode"]]
    if rank == 3 or (method == "bicubic" and padding != "zeros"):
        return _sampled_by_taps(node, method, padding)
    given = node["grid"]
    if padding != "zeros":
        # Bounding takes what is no number to the first pixel; reflecting makes such of infinities.
        lost = op.isnan(given) if padding == "border" else op.logical_not(op.isfinite(given))
        given = op.where(lost, -1, given)
    grid = transpose(given, (0, rank + 1, *range(1, rank + 1)))
    made = op.image.grid_sample(
        node["input"], grid, method=method, layout="NCHW",
        padding_mode=padding, align_corners=bool(node["align_corners"]),
    )  # fmt: skip
    if padding != "zeros" or method == "nearest":
        return made
    # Weights are fractions of the position, which are NaN there, though all pixels around are zeros.
    known = op.isfinite(grid)
    there = op.expand_dims(op.logical_and(index_axis(known, 1, 0), index_axis(known, 1, 1)), axis=1)
    return op.where(there, made, math.nan)


def _sampled_by_taps(node: TorchNode, method: str, padding: str) -> Expr:
    """Along two or three axes: the elements around each position, weighted, which the operator on images has not."""
    data, grid, corners = node["input"], node["grid"], bool(node["align_corners"])
    extents, last = shape_of(data)[2:], rank_of(grid) - 1
    if not is_static(extents) or (len(extents) == 3 and method == "bicubic"):
        what = "in space, or a symbolic extent," if len(extents) == 3 else "of a symbolic extent"
        node.unsupported(f"bicubic sampling {what}")
    centers = [
        _unnormalized(index_axis(grid, last, len(extents) - 1 - axis), extent, corners)
        for axis, extent in enumerate(extents)
    ]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    return sampled(data, centers, mode, padding, corners)


def _unnormalized(value: Expr, extent: int, corners: bool) -> Expr:
    """Coordinates from -1 to 1 as positions in the data."""
    return (value + 1) * ((extent - 1) / 2) if corners else ((value + 1) * extent - 1) * 0.5


@converts("aten.affine_grid_generator")
def convert_affine_grid(node: TorchNode, size: Any, align_corners: bool, theta: Expr) -> Expr:
    *_, height, width = size
    if len(size) != 4 or not is_static((height, width)):
        node.unsupported("a grid that is not of two axes of known extent")
    sides = []
    for extent in (width, height):
        line = np.linspace(-1, 1, extent) if extent > 1 else np.zeros(1)
        sides.append(line if align_corners else line * (extent - 1) / extent)
    columns, rows = np.meshgrid(*sides)
    base = np.stack([columns, rows, np.ones_like(rows)], -1).reshape(height * width, 3)
    flat = Constant(base.astype(element_type(theta).numpy))
    batch = shape_of(theta)[0]
    wide = op.broadcast_to(op.expand_dims(flat, axis=0), shape=(batch, height * width, 3))
    made = op.nn.batch_matmul(wide, theta, transpose_a=False, transpose_b=True)
    return reshape(made, (batch, height, width, 2))
