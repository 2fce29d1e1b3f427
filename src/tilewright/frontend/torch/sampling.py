"""Resizing, sampling on grids, windows as columns, padding that mirrors or repeats."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.resizing import by_matrices
from tilewright.frontend.builders.sampling import affine_grid, pixels_of, sampled
from tilewright.frontend.builders.sliding import Window, channel_patches
from tilewright.frontend.idioms import along, constant, index_axis, rank_of, reshape, shape_of, transpose
from tilewright.frontend.torch.build import arange, element_type, extent_of
from tilewright.frontend.torch.byte_planes import resized_bytes
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import as_dim
from tilewright.runtime.host_ops.resample import Axis, weighted_taps


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
    return reshape(channel_patches(data, Window(kernel, step, dilation, tuple(zip(padding, padding)))), node.shape)


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


@converts("aten.upsample_linear1d", "aten.upsample_bilinear2d", "aten.upsample_trilinear3d", "aten.upsample_bicubic2d",
          "aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa")  # fmt: skip
def convert_upsample_linear(node: TorchNode) -> Expr:
    """Interpolated along one axis after another: each pixel of the result is a few of the data, weighted."""
    data = _planes(node)
    rank = rank_of(data) - 2
    scales = _scales(node, rank)
    if not is_static([*shape_of(data)[2:], *node.shape[2:]]):
        node.unsupported("planes of symbolic extent")
    bytes_, smooth = element_type(data) == "uint8", "_aa" in node.target
    for axis in reversed(range(2, 2 + rank)) if bytes_ else range(2, 2 + rank):
        extent, count, scale = shape_of(data)[axis], node.shape[axis], scales[axis - 2]
        if extent == count and (bytes_ or not scale):
            continue
        positions, weights = _taps(node, extent, count, scale)
        if bytes_:
            data = resized_bytes(data, axis, _matrix(positions, weights, extent))
        elif smooth:
            data = by_matrices(data, axis, [_matrix(positions, weights, extent)])
        else:
            data = _interpolated(data, axis, positions, weights)
    return idioms.cast(data, node.dtype)


def _taps(node: TorchNode, extent: int, count: int, scale: float | None) -> tuple[np.ndarray, np.ndarray]:
    """The elements of an axis that each pixel of the result is made of, and their weights."""
    corners, smooth = bool(node["align_corners"]), "_aa" in node.target
    scale = scale or count / extent
    if corners and smooth:  # which PyTorch only takes for another scale
        scale, corners = ((count - 1) / (extent - 1) if count > 1 and extent > 1 else math.inf), False
    coordinates, mode = "align_corners" if corners else "half_pixel", "cubic" if "cubic" in node.target else "linear"
    a = -0.5 if smooth else -0.75
    return weighted_taps(Axis(extent, count, scale), coordinates, mode, a, smooth, smooth, exact=True)


def _matrix(positions: np.ndarray, weights: np.ndarray, extent: int) -> np.ndarray:
    """[results, elements]: the weights by the elements that they are for."""
    matrix = np.zeros((len(positions), extent))
    np.add.at(matrix, (np.arange(len(positions))[:, None], positions), weights)
    return matrix


def _interpolated(data: Expr, axis: int, positions: np.ndarray, weights: np.ndarray) -> Expr:
    """Along one axis the sum of neighbours, each weighted by its distance."""
    terms = [
        op.take(data, Constant(position), axis=axis, mode="clip")
        * along(weight, axis, rank_of(data), element_type(data))
        for position, weight in zip(positions.T, weights.T)
    ]
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
    extents = shape_of(data)[2:]
    if not is_static(extents) or (len(extents) == 3 and method == "bicubic"):
        what = "in space, or a symbolic extent," if len(extents) == 3 else "of a symbolic extent"
        node.unsupported(f"bicubic sampling {what}")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(method, method)
    return sampled(data, pixels_of(grid, extents, corners), mode, padding, corners)


@converts("aten.affine_grid_generator")
def convert_affine_grid(node: TorchNode, size: Any, align_corners: bool, theta: Expr) -> Expr:
    *_, height, width = size
    if len(size) != 4 or not is_static((height, width)):
        node.unsupported("a grid that is not of two axes of known extent")
    return affine_grid(theta, (shape_of(theta)[0], height, width), align_corners)
