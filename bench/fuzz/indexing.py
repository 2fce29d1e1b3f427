"""Operators that read or write at indices; the indices are in range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.values import Array, draw_array


def indices(draw: Draft, shape: tuple[int, ...], extent: int, negative: bool = True, kind: type | None = None) -> Array:
    """Indices of an axis of size `extent`, counted from either end."""
    count = int(np.prod(shape))
    if count and not extent:
        raise Rejected("nothing to index")
    drawn = [draw.integer(-extent if negative else 0, extent - 1) for _ in range(count)]
    return np.array(drawn, kind or draw.choice([np.int32, np.int64])).reshape(shape)


def gather(draw: Draft, operator: str) -> None:
    """Gather along any axis by indices of any rank."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    axis = draw.axis(data.rank) if draw.chance(0.8) else None
    shape = draw.shape(draw.integer(0, 2))
    where = indices(draw, shape, data.shape[axis or 0], draw.since(operator) >= 11)
    draw.emit(operator, [data, draw.known(where, 0.5)], axis=axis)


def gather_elements(draw: Draft, operator: str) -> None:
    """GatherElements by indices of the rank of the data."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0 and 0 not in v.shape)
    axis = draw.axis(data.rank) if draw.chance(0.8) else None
    shape = [draw.integer(1, size) for size in data.shape]
    shape[axis or 0] = draw.integer(1, 5)
    where = indices(draw, tuple(shape), data.shape[axis or 0])
    draw.emit(operator, [data, draw.known(where, 0.5)], axis=axis)


def _positions(draw: Draft, data: Value, batch: int, distinct: bool) -> Array:
    """Positions in the axes of the data behind `batch` ones; each once where `distinct`."""
    depth = draw.integer(1, data.rank - batch)
    extents = data.shape[batch : batch + depth]
    shape = (*data.shape[:batch], *draw.shape(draw.integer(0, 2)))
    count = int(np.prod(shape))
    if not distinct:
        columns = [indices(draw, shape, extent, kind=np.int64) for extent in extents]
        return np.stack(columns, axis=-1)
    total = int(np.prod(extents))
    if count > total:
        raise Rejected("too many positions")
    flat = np.array(draw.rng.sample(range(total), count), np.int64)
    return np.stack(np.unravel_index(flat, extents), axis=-1).astype(np.int64).reshape(*shape, depth)


def gather_nd(draw: Draft, operator: str) -> None:
    """GatherND with and without batch axes."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0 and 0 not in v.shape)
    batch = draw.integer(0, data.rank - 1) if draw.since(operator) >= 12 and draw.chance(0.4) else 0
    where = draw.known(_positions(draw, data, batch, False), 0.5)
    draw.emit(operator, [data, where], batch_dims=batch or None)


def _reduction(draw: Draft, operator: str) -> str | None:
    """The reduction of a scattering operator; None where it replaces."""
    since = draw.since(operator)
    kinds = ["none", *(["add", "mul"] if since >= 16 else []), *(["max", "min"] if since >= 18 else [])]
    return draw.choice([None, *kinds])


def scatter_elements(draw: Draft, operator: str) -> None:
    """ScatterElements and Scatter; where elements are replaced, each at most once."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0 and 0 not in v.shape)
    axis = draw.axis(data.rank)
    reduction = _reduction(draw, operator)
    if data.element in (T.BOOL, T.STRING):
        reduction = None
    shape = [draw.integer(1, size) for size in data.shape]
    where = np.empty(shape, draw.choice([np.int32, np.int64]))
    extent = data.shape[axis]
    moved = np.moveaxis(where, axis, -1)
    for index in np.ndindex(*moved.shape[:-1]):
        moved[index] = draw.rng.sample(range(extent), shape[axis])
        if reduction not in (None, "none"):
            moved[index] = [draw.integer(-extent, extent - 1) for _ in range(shape[axis])]
    updates = draw.operand([data.element], shape=tuple(shape))
    draw.emit(operator, [data, draw.known(where, 0.5), updates], axis=axis, reduction=reduction)


def scatter_nd(draw: Draft, operator: str) -> None:
    """ScatterND; where elements are replaced, each at most once."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0 and 0 not in v.shape)
    reduction = _reduction(draw, operator)
    if data.element in (T.BOOL, T.STRING):
        reduction = None
    where = _positions(draw, data, 0, reduction in (None, "none"))
    shape = (*where.shape[:-1], *data.shape[where.shape[-1] :])
    updates = draw.operand([data.element], shape=shape)
    draw.emit(operator, [data, draw.known(where, 0.5), updates], reduction=reduction)


def compress(draw: Draft, operator: str) -> None:
    """Compress of all elements or along an axis; the condition may be short."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank > 0)
    axis = draw.axis(data.rank) if draw.chance(0.6) else None
    extent = data.array.size if axis is None else data.shape[axis]
    condition = draw_array(draw.rng, T.BOOL, (draw.integer(0 if extent == 0 else 1, max(extent, 0)),))
    draw.emit(operator, [data, draw.known(condition, 0.5)], axis=axis)


def one_hot(draw: Draft, operator: str) -> None:
    """OneHot; an index out of range makes a row of the off value."""
    depth = draw.integer(1, 6)
    shape = draw.shape(draw.integer(0 if draw.since(operator) > 9 else 1, 3))
    where = indices(draw, shape, depth + 1, draw.since(operator) >= 11, kind=np.int64)
    element = draw.choice(e for e in (T.FLOAT, T.INT64, T.INT32, T.FLOAT16, T.DOUBLE, T.UINT8) if True)
    count = draw.known(np.array([depth] if draw.chance(0.5) else depth, np.int64))
    axis = draw.integer(-1, len(shape)) if draw.chance(0.7) else None
    draw.emit(operator, [draw.known(where, 0.4), count, draw.leaf(element, (2,))], axis=axis)


def reverse_sequence(draw: Draft, operator: str) -> None:
    """ReverseSequence with time or batch first."""
    data = draw.operand([draw.element(operator)], fits=lambda v: v.rank >= 2 and 0 not in v.shape)
    time = draw.integer(0, 1)
    lengths = [draw.integer(1, data.shape[time]) for _ in range(data.shape[1 - time])]
    draw.emit(operator, [data, draw.known(np.array(lengths, np.int64), 0.5)], time_axis=time, batch_axis=1 - time)


def tensor_scatter(draw: Draft, operator: str) -> None:
    """TensorScatter into a cache, from its start on or in a circle."""
    cache = draw.operand([draw.element(operator)], fits=lambda v: v.rank in (3, 4) and 0 not in v.shape)
    axis = draw.integer(1, cache.rank - 1)
    count = draw.integer(1, cache.shape[axis])
    shape = tuple(count if i == axis else size for i, size in enumerate(cache.shape))
    mode = draw.choice([None, "linear", "circular"])
    last = cache.shape[axis] - 1 if mode == "circular" else cache.shape[axis] - count
    starts = np.array([draw.integer(0, last) for _ in range(cache.shape[0])], np.int64)
    where = draw.known(starts, 0.5) if draw.chance(0.8) else None
    axis = axis - cache.rank if draw.chance(0.5) else axis
    draw.emit(operator, [cache, draw.operand([cache.element], shape=shape), where], axis=axis, mode=mode)


def non_max_suppression(draw: Draft, operator: str) -> None:
    """NonMaxSuppression of boxes as corners or centers."""
    batch, boxes, classes = draw.integer(1, 2), draw.integer(1, 6), draw.integer(1, 3)
    corners = draw_array(draw.rng, T.FLOAT, (batch, boxes, 4), "unit")
    center = draw.integer(0, 1)
    if center:
        corners[..., 2:] = np.abs(corners[..., 2:]) + np.float32(0.1)
    scores = draw_array(draw.rng, T.FLOAT, (batch, classes, boxes), "unit")
    limits = [np.array([draw.integer(0, 4)], np.int64), np.array([0.4], np.float32), np.array([-0.2], np.float32)]
    given = [draw.known(limit) if i == 0 or draw.chance(0.6) else None for i, limit in enumerate(limits)]
    data = [draw.known(corners, 0.3), draw.known(scores, 0.3)]
    draw.emit(operator, [*data, *given], center_point_box=center)


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    "Gather": gather, "GatherElements": gather_elements, "GatherND": gather_nd, "Scatter": scatter_elements,
    "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "Compress": compress, "OneHot": one_hot,
    "ReverseSequence": reverse_sequence, "TensorScatter": tensor_scatter, "NonMaxSuppression": non_max_suppression,
}  # fmt: skip
