"""The last step of single-shot detectors: predictions and anchors to the boxes that are kept.

As the DetectionOutput layer of Caffe's SSD branch (https://arxiv.org/abs/1512.02325) computes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.registry import host_op

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


@host_op("vision.detection_output")
def detection_output(attrs: Attrs, shifts: Array, scores: Array, anchors: Array) -> Array:
    """[1, 1, rows, 7]: item of the batch, class, score, left, top, right, bottom; class by class, best first.

    With `keep_top_k` there are that many rows for each item: what is kept of all, then zeros.
    """
    batches, classes = len(shifts), attrs["num_classes"]
    count = anchors.shape[-1] // 4
    locations = 1 if attrs["share_location"] else classes
    shifts = shifts.reshape(batches, count, locations, 4)
    scores = scores.reshape(batches, count, classes)
    both = anchors.reshape(-1, count, 4)
    priors, variances = both[0], both[1] if len(both) > 1 else None
    rows: list[Array] = []
    for item in range(batches):
        found = []
        for label in range(classes):
            if label == attrs["background"]:
                continue
            boxes = _decoded(attrs, shifts[item, :, 0 if locations == 1 else label], priors, variances)
            kept = _suppressed(attrs, boxes, scores[item, :, label])
            head = np.tile(np.array([item, label], np.float32), (len(kept), 1))
            found.append(np.concatenate([head, scores[item, kept, label, None], boxes[kept]], 1))
        rows.append(_best(attrs, np.concatenate(found) if found else np.zeros((0, 7), np.float32)))
    kept_rows = np.concatenate(rows).astype(np.float32)
    if attrs["keep_top_k"] >= 0:
        kept_rows = np.pad(kept_rows, ((0, batches * attrs["keep_top_k"] - len(kept_rows)), (0, 0)))
    return kept_rows[None, None]


def _best(attrs: Attrs, rows: Array) -> Array:
    """The `keep_top_k` rows of the greatest scores, in the order in which they stand."""
    if attrs["keep_top_k"] < 0 or len(rows) <= attrs["keep_top_k"]:
        return rows
    return rows[np.sort(np.argsort(-rows[:, 2], kind="stable")[: attrs["keep_top_k"]])]


def _decoded(attrs: Attrs, shifts: Array, priors: Array, variances: Array | None) -> Array:
    """Predictions [n, 4] relative to anchors as corners."""
    if not attrs["variance_encoded"] and variances is not None:
        shifts = shifts * variances
    if attrs["code_type"] == "CORNER":
        return priors + shifts
    low, high = priors[:, :2], priors[:, 2:]
    size = high - low
    if attrs["code_type"] == "CORNER_SIZE":
        return priors + shifts * np.concatenate([size, size], 1)
    with np.errstate(over="ignore"):
        centre, half = (low + high) / 2 + shifts[:, :2] * size, np.exp(shifts[:, 2:]) * size / 2
    return np.concatenate([centre - half, centre + half], 1).astype(np.float32)


def _suppressed(attrs: Attrs, boxes: Array, scores: Array) -> Array:
    """The positions of the boxes kept: best first, none that overlaps a kept one too much."""
    positions = np.nonzero(scores > attrs["threshold"])[0]
    order = positions[np.argsort(-scores[positions], kind="stable")]
    if attrs["top_k"] >= 0:
        order = order[: attrs["top_k"]]
    kept: list[int] = []
    threshold = attrs["iou_threshold"]
    for position in order:
        if not kept or _overlaps(boxes[position], boxes[kept]).max() <= threshold:
            kept.append(int(position))
            if attrs["eta"] < 1 and threshold > 0.5:
                threshold *= attrs["eta"]
    return np.array(kept, np.int64)


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union with boxes whose corners may be the wrong way round: those are empty."""

    def area(corners: Array) -> Array:
        extent = corners[..., 2:] - corners[..., :2]
        return np.where((extent >= 0).all(-1), extent.prod(-1), 0)

    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.maximum(high - low, 0).prod(1)
    union = area(box) + area(others) - shared
    return np.where(shared > 0, shared / np.where(union > 0, union, 1), 0)
