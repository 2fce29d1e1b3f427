"""ONNX operators that find or pick elements, so that how many there are depends on the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op, require_shape

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


@onnx_op("NonZero")
def nonzero(attrs: Attrs, data: Array) -> Array:
    """Coordinates of the elements that are not zero, one row an axis."""
    return np.array(np.nonzero(np.atleast_1d(data)), np.int64).reshape(max(data.ndim, 1), -1)


@onnx_op("Compress")
def compress(attrs: Attrs, data: Array, condition: Array) -> Array:
    """The slices along an axis (of the flat data without one) where the condition holds."""
    axis = attrs.get("axis")
    return np.compress(condition, data if axis is not None else data.reshape(-1), 0 if axis is None else int(axis))


@onnx_op("Unique")
def unique(attrs: Attrs, data: Array) -> tuple[Array, Array, Array, Array]:
    """Distinct slices along an axis with first positions, the way back, and counts; sorted, or as they first occur."""
    axis = attrs.get("axis")
    work = data.astype(np.float32) if data.dtype.name == "bfloat16" else data
    if data.dtype == object:  # NumPy compares slices of numbers only: texts by their ranks
        work = np.unique(data.astype(str), return_inverse=True)[1].reshape(data.shape)
    _, first, inverse, counts = np.unique(work, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not attrs.get("sorted", 1):
        order = np.argsort(first, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        first, inverse, counts = first[order], position[inverse], counts[order]
    values = np.take(data.reshape(-1) if axis is None else data, first, 0 if axis is None else axis)
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@onnx_op("TopK")
def top_k(attrs: Attrs, data: Array, count: Array) -> tuple[Array, Array]:
    """The `count` largest or smallest elements along an axis and their positions; equal ones in order of position."""
    k, axis = int(count.reshape(-1)[0]), int(attrs.get("axis", -1))
    if not 0 <= k <= data.shape[axis]:
        raise InputError(f"cannot take {k} of {data.shape[axis]} elements")
    moved = np.moveaxis(data, axis, -1)
    if attrs.get("largest", 1):
        backwards = np.argsort(moved[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        order = moved.shape[-1] - 1 - backwards
    else:
        order = np.argsort(moved, axis=-1, kind="stable")
    picked = order[..., :k]
    values = np.take_along_axis(moved, picked, -1)
    return (
        np.asarray(np.moveaxis(values, -1, axis), order="C"),
        np.asarray(np.moveaxis(picked, -1, axis), order="C").astype(np.int64),
    )


@onnx_op("OneHot")
def one_hot(attrs: Attrs, indices: Array, depth: Array, values: Array) -> Array:
    """values[1] where the index equals the position along a new axis, else values[0]."""
    require_shape("the values off and on", values, (2,))
    count = int(depth.reshape(-1)[0])
    if count < 1:
        raise ValueError(f"a depth of {count}")
    axis = int(attrs.get("axis", -1))
    at = axis + indices.ndim + 1 if axis < 0 else axis
    wanted = np.mod(indices, count)
    inside = (indices >= -count) & (indices < count)
    shape = [1] * (indices.ndim + 1)
    shape[at] = count
    hit = np.expand_dims(wanted, at) == np.arange(count).reshape(shape)
    return np.where(hit & np.expand_dims(inside, at), values[1], values[0]).astype(values.dtype)


@onnx_op("NonMaxSuppression")
def non_max_suppression(
    attrs: Attrs,
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
) -> Array:
    """Rows (batch, class, box) of the boxes kept: best first, dropping what overlaps a better one too much.

    boxes [batches, n, 4], scores [batches, classes, n].
    """
    require_shape("boxes", boxes, (scores.shape[0], scores.shape[2], 4))
    limit = 0 if most is None else int(most.reshape(-1)[0])
    overlap = 0.0 if iou_threshold is None else float(iou_threshold.reshape(-1)[0])
    kept: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        corners = _corners(boxes[batch], bool(attrs.get("center_point_box", 0)))
        for kind in range(scores.shape[1]):
            row = scores[batch, kind]
            order = np.argsort(-row, kind="stable")
            if score_threshold is not None:
                order = order[row[order] > score_threshold.reshape(-1)[0]]
            kept += [(batch, kind, int(box)) for box in _suppressed(corners, order, overlap, limit)]
    return np.array(kept, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centred: bool) -> Array:
    """Boxes as (low, low, high, high)."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if centred:
        return np.concatenate([first - second / 2, first + second / 2], 1)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)


def _suppressed(corners: Array, order: Array, overlap: float, limit: int) -> list[int]:
    """The boxes kept of those in `order`, at most `limit`."""
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    kept: list[int] = []
    while order.size and len(kept) < limit:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        low = np.maximum(corners[order, :2], corners[best, :2])
        high = np.minimum(corners[order, 2:], corners[best, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = areas[order] + areas[best] - shared
        order = order[~((union > 0) & (shared > overlap * union))]
    return kept


@onnx_op("Gather")
def gather(attrs: Attrs, data: Array, indices: Array) -> Array:
    """Slices along an axis picked by index."""
    return np.take(data, indices, int(attrs.get("axis", 0)))


@onnx_op("ReverseSequence")
def reverse_sequence(attrs: Attrs, data: Array, lengths: Array) -> Array:
    """The first steps of each sample in reverse, as many as its length says."""
    batch_axis, time_axis = int(attrs.get("batch_axis", 1)), int(attrs.get("time_axis", 0))
    require_shape("lengths", lengths, (data.shape[batch_axis],))
    result = data.copy()
    moved = np.moveaxis(result, (batch_axis, time_axis), (0, 1))
    for sample, length in zip(moved, lengths.tolist()):
        sample[:length] = sample[:length][::-1].copy()
    return result
