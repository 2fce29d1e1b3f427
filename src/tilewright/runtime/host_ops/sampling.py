"""Reading images at computed coordinates on the host, for images whose sizes only a run can tell: GridSample,
DeformConv.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op, require_shape
from tilewright.runtime.host_ops.windows import axes_of
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]
#: The elements that a sample reads along an axis: positions, integral but of the type of the grid, and weights.
Taps = list[tuple[Array, Array]]

#: The parameter of Keys' kernel.
_CUBIC = -0.75


def _wide(data: Array) -> Array:
    return data.astype(np.float32) if DType(data.dtype).is_half else data


def _taps(positions: Array, mode: str) -> Taps:
    """The input elements and weights of samples at `positions` of one axis, by "nearest", "linear" or "cubic"
    interpolation.
    """
    if mode == "nearest":
        return [(np.rint(positions), np.ones_like(positions))]
    low = np.floor(positions)
    part = positions - low
    if mode == "linear":
        return [(low, 1 - part), (low + 1, part)]
    return [(low + offset, _cubic(np.abs(part - offset), offset in (0, 1))) for offset in (-1, 0, 1, 2)]


def _cubic(distance: Array, near: bool) -> Array:
    a = _CUBIC
    if near:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def _inside(positions: Array, extent: int, padding: str, corners: bool) -> Array:
    """Positions beyond the edge moved onto it ("border"), or mirrored at it ("reflection")."""
    if padding == "reflection":
        low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
        period = 2 * (high - low)
        if period <= 0:
            return np.zeros_like(positions)
        part = np.mod(np.abs(positions - low), period)
        positions = np.minimum(part, period - part) + low
    return np.clip(positions, 0, extent - 1)


def _sampled(data: Array, taps: Sequence[Taps], padding: str, corners: bool) -> Array:
    """The weighted sums of `data` [N, C, …] at taps of shape [N, samples …], which is [N, C, samples …].

    What lies outside is zero with "zeros"; with others it is read inside.
    """
    extents, samples = data.shape[2:], taps[0][0][0].shape[1:]
    rows = np.arange(data.shape[0]).reshape(-1, *[1] * len(samples))
    total = np.zeros((data.shape[0], *samples, data.shape[1]), data.dtype)
    if 0 in extents:
        if len(data) and 0 not in samples:
            raise InputError(f"images of the extents {extents} have no elements to sample")
        return np.moveaxis(total, -1, 1)
    for chosen in itertools.product(*taps):
        index, weight, valid = [], np.ones((), data.dtype), np.ones((), bool)
        for (position, share), extent in zip(chosen, extents):
            if padding == "zeros":
                valid = valid & (position >= 0) & (position < extent)
            else:
                position = _inside(position, extent, padding, corners)
            index.append(np.nan_to_num(np.clip(position, 0, extent - 1)).astype(np.int64))
            weight = weight * share
        picked = np.moveaxis(data, 1, -1)[(rows, *index)]
        picked = np.where(valid[..., None], picked, 0)
        with np.errstate(invalid="ignore", over="ignore"):
            total = total + (picked * weight[..., None]).astype(data.dtype)
    return np.moveaxis(total, -1, 1)


@onnx_op("GridSample")
def grid_sample(attrs: Attrs, data: Array, grid: Array) -> Array:
    """`data` [N, C, …] at the positions of `grid` [N, …, axes], -1 to 1, whose last axis counts from the last
    extent.
    """
    mode = attrs.get("mode", "linear").removeprefix("bi")
    padding, corners = attrs.get("padding_mode", "zeros"), bool(attrs.get("align_corners", 0))
    extents = data.shape[2:]
    if grid.ndim != data.ndim or grid.shape[-1] != len(extents) or grid.shape[0] != data.shape[0]:
        raise ValueError(f"a grid of shape {grid.shape} for images of shape {data.shape}")
    taps = []
    for axis, extent in enumerate(extents):
        given = _wide(grid)[..., len(extents) - 1 - axis]
        half = ((extent - 1) if corners else extent) / 2
        positions = given * given.dtype.type(half) + given.dtype.type((extent - 1) / 2)
        if padding != "zeros" and mode != "cubic":
            positions = _inside(positions, extent, padding, corners)
        taps.append(_taps(positions, mode))
    return np.asarray(_sampled(_wide(data), taps, padding, corners), data.dtype)


@onnx_op("DeformConv")
def deform_conv(
    attrs: Attrs, data: Array, weight: Array, offset: Array, bias: Array | None = None, mask: Array | None = None
) -> Array:
    """A convolution [N, M, rows, columns] whose taps are moved by `offset` and weighted by `mask`."""
    groups, moved = int(attrs.get("group", 1)), int(attrs.get("offset_group", 1))
    (batch, channels, *extents), (outputs, taken, *kernel) = data.shape, weight.shape
    if channels != taken * groups or outputs % groups or channels % moved:
        raise ValueError(f"weights of shape {weight.shape} in {groups} groups for data of shape {data.shape}")
    axes = axes_of({**attrs, "kernel_shape": kernel}, extents)
    count, steps = int(np.prod(kernel)), tuple(axis.steps(extent) for axis, extent in zip(axes, extents))
    require_shape("offsets", offset, (batch, moved * count * 2, *steps))
    require_shape("a mask", mask, (batch, moved * count, *steps))
    require_shape("a bias", bias, (outputs,))
    moves = _wide(offset).reshape(batch * moved, count, 2, *steps)
    taps = []
    for index, axis in enumerate(axes):
        tap = np.indices(kernel)[index].reshape(-1, 1, 1) * axis.dilation
        start = np.indices(steps)[index] * axis.stride - axis.before
        taps.append(_taps(moves[:, :, index] + (tap + start).astype(moves.dtype), "linear"))
    images = _wide(data).reshape(batch * moved, channels // moved, *extents)
    read = _sampled(images, taps, "zeros", False).reshape(batch, moved, channels // moved, count, *steps)
    if mask is not None:
        read = read * _wide(mask).reshape(batch, moved, 1, count, *steps)
    columns = read.reshape(batch, groups, taken, count, -1)
    kernels = _wide(weight).reshape(groups, outputs // groups, taken, count)
    total = np.einsum("ngctp,goct->ngop", columns, kernels, optimize=True).reshape(batch, outputs, *steps)
    return np.asarray(total if bias is None else total + _wide(bias).reshape(-1, 1, 1), data.dtype)
