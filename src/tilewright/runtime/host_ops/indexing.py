"""ONNX operators that read and write at indices, and move blocks, for values that only the host can hold.

An index that is out of range is an `InputError`; one below zero counts from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op, require_shape

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]

#: How what is written joins what is there; None replaces it.
_REDUCTIONS: dict[str, Callable[[Any, Any], Any] | None] = {
    "none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _in_range(indices: Array, extent: int) -> Array:
    """Indices counted from the front."""
    if ((indices < -extent) | (indices >= extent)).any():
        raise InputError(f"an index is out of range for an axis of size {extent}")
    return np.where(indices < 0, indices + extent, indices).astype(np.int64)


def _positions(attrs: Attrs, data: Array, indices: Array) -> tuple[Array, ...]:
    """The positions in `data` of the elements that `indices`, along an axis, stand for."""
    axis = int(attrs.get("axis", 0)) % data.ndim
    grid: list[Array] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = _in_range(indices, data.shape[axis])
    return tuple(grid)


def _write(attrs: Attrs, data: Array, positions: tuple[Array, ...], updates: Array) -> Array:
    """`data` with `updates` at `positions`; where several floats are joined in one, in float64."""
    join = _REDUCTIONS[attrs.get("reduction", "none")]
    result = data.astype(np.float64) if join is not None and data.dtype.kind == "f" else data.copy()
    if join is None:
        result[positions] = updates
        return result
    grid = np.broadcast_arrays(*positions)
    for at in np.ndindex(grid[0].shape):
        position = tuple(int(part[at]) for part in grid)
        result[position] = join(result[position], updates[at])
    return result.astype(data.dtype, copy=False)


@onnx_op("GatherElements")
def gather_elements(attrs: Attrs, data: Array, indices: Array) -> Array:
    """out[i][j] = data[index[i][j]][j] along axis 0."""
    return data[_positions(attrs, data, indices)]


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(attrs: Attrs, data: Array, indices: Array, updates: Array) -> Array:
    """out[index[i][j]][j] = updates[i][j] along axis 0."""
    require_shape("updates", updates, indices.shape)
    return _write(attrs, data, _positions(attrs, data, indices), updates)


def _coordinates(data: Array, indices: Array, batch: int = 0) -> tuple[Array, ...]:
    """The last axis of `indices` as positions in the axes of `data` behind `batch` ones, which it shares."""
    positions = [_in_range(indices[..., i], data.shape[batch + i]) for i in range(indices.shape[-1])]
    shared = np.indices(indices.shape[:-1], sparse=True)[:batch]
    return (*shared, *positions)


@onnx_op("GatherND")
def gather_nd(attrs: Attrs, data: Array, indices: Array) -> Array:
    """The slices of `data` at coordinates."""
    batch = int(attrs.get("batch_dims", 0))
    require_shape("indices", indices, (*data.shape[:batch], *indices.shape[batch:]))
    return data[_coordinates(data, indices, batch)]


@onnx_op("ScatterND")
def scatter_nd(attrs: Attrs, data: Array, indices: Array, updates: Array) -> Array:
    """`data` with slices at coordinates replaced by `updates`, or joined with them."""
    inner = data.ndim - indices.shape[-1]
    require_shape("updates", updates, (*indices.shape[:-1], *data.shape[data.ndim - inner :]))
    positions = [position.reshape((*position.shape, *[1] * inner)) for position in _coordinates(data, indices)]
    rest = np.indices(data.shape[data.ndim - inner :], sparse=True)
    return _write(attrs, data, (*positions, *rest), updates)


@onnx_op("TensorScatter")
def tensor_scatter(attrs: Attrs, cache: Array, update: Array, starts: Array | None = None) -> Array:
    """A cache (batch, …) with `update` written along an axis from a position of each sample on, in a circle if
    asked.
    """
    axis = int(attrs.get("axis", -2)) % cache.ndim
    result = np.moveaxis(cache.copy(), axis, 1)
    news, extent = np.moveaxis(update, axis, 1), cache.shape[axis]
    require_shape("an update", news, (*result.shape[:1], news.shape[1], *result.shape[2:]))
    require_shape("starts", starts, cache.shape[:1])
    for sample in range(cache.shape[0]):
        positions = (0 if starts is None else int(starts[sample])) + np.arange(news.shape[1])
        result[sample, positions % extent if attrs.get("mode") == "circular" else _in_range(positions, extent)] = news[
            sample
        ]
    return np.asarray(np.moveaxis(result, 1, axis), order="C")


@onnx_op("DepthToSpace")
def depth_to_space(attrs: Attrs, data: Array) -> Array:
    """Channels as blocks of pixels: (N, C·b², H, W) to (N, C, H·b, W·b)."""
    size = int(attrs["blocksize"])
    batch, channels, height, width = data.shape
    deep = channels // size**2
    if attrs.get("mode", "DCR") == "DCR":
        parts = data.reshape(batch, size, size, deep, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = data.reshape(batch, deep, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    return np.asarray(parts, order="C").reshape(batch, deep, height * size, width * size)


@onnx_op("SpaceToDepth")
def space_to_depth(attrs: Attrs, data: Array) -> Array:
    """Blocks of pixels as channels: the opposite of `depth_to_space`."""
    size = int(attrs["blocksize"])
    batch, channels, height, width = data.shape
    parts = data.reshape(batch, channels, height // size, size, width // size, size)
    order = (0, 3, 5, 1, 2, 4) if attrs.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = np.asarray(parts.transpose(order), order="C")
    return moved.reshape(batch, channels * size**2, height // size, width // size)
