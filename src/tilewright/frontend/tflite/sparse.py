"""Sparse constants: the traversal of their dimensions, each dense or compressed, spread into a dense array.

The format is that of TACO: dimensions in the order `traversal_order`, those behind the rank being blocks of the
dimensions that `block_map` names; a compressed one holds segments and indices.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.tflite.flatbuffer import Record


def densified(
    sparsity: Record, raw: np.ndarray, shape: tuple[int, ...], dtype: np.dtype[Any], where: str
) -> np.ndarray:
    """The dense array of `shape` whose stored elements are `raw`. Raises `ModelError` where the format is broken."""
    try:
        return _spread(sparsity, raw.view(dtype), shape)
    except (ValueError, IndexError, AttributeError, TypeError, OverflowError) as error:
        raise ModelError(f"{where} has a sparse form that does not fit its shape {list(shape)}: {error}") from None


def _spread(sparsity: Record, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    order = sparsity.traversal_order.tolist()
    blocks = [] if sparsity.block_map is None else sparsity.block_map.tolist()
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(sparsity.dim_metadata) != len(order):
        raise ValueError(f"traversal order {order} of {rank} dimensions and {len(blocks)} blocks")
    positions = np.zeros(1, np.int64)
    coordinates: dict[int, np.ndarray] = {}
    sizes: dict[int, int] = {}
    for dim, metadata in zip(order, sparsity.dim_metadata):
        if metadata.format == 0:
            count = sizes[dim] = int(metadata.dense_size)
            if count < 0 or positions.size * count > max(prod(shape), values.size):
                raise ValueError(f"a dense dimension of {count}")
            parents, own = np.repeat(np.arange(positions.size), count), np.tile(np.arange(count), positions.size)
            positions = np.repeat(positions, count) * count + own
        else:
            parents, own, positions = _compressed(metadata, positions)
        coordinates = {known: found[parents] for known, found in coordinates.items()}
        coordinates[dim] = own
    result = np.zeros(shape, values.dtype)
    full = [coordinates[axis] for axis in range(rank)]
    for number, axis in enumerate(blocks):
        full[axis] = full[axis] * sizes[rank + number] + coordinates[rank + number]
    result[tuple(full)] = values[positions]
    return result


def _compressed(metadata: Record, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each stored index below `positions`: the number of its parent, its coordinate, its position."""
    segments = np.asarray(metadata.array_segments.values, np.int64)
    indices = np.asarray(metadata.array_indices.values, np.int64)
    begins, ends = segments[positions], segments[positions + 1]
    if (
        (begins < 0).any()
        or (ends < begins).any()
        or (ends > indices.size).any()
        or (ends - begins).sum() > indices.size
    ):
        raise ValueError("segments that are out of order")
    counts = ends - begins
    parents = np.repeat(np.arange(positions.size), counts)
    stored = np.concatenate([np.arange(b, e) for b, e in zip(begins, ends)]) if counts.size else begins
    if (indices < 0).any():
        raise ValueError("negative indices")
    return parents, indices[stored], stored
