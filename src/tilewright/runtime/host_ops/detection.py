"""Host operators of object detection: what is kept of many boxes depends on all that were kept before."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.registry import host_op

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of `box` [4] with `others` [n, 4], each (left, top, right, bottom) in either order."""
    low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    lows, highs = np.minimum(others[:, :2], others[:, 2:]), np.maximum(others[:, :2], others[:, 2:])
    shared = np.prod(np.maximum(np.minimum(high, highs) - np.maximum(low, lows), 0), 1)
    union = np.prod(high - low) + np.prod(highs - lows, 1) - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0)


def greedy(boxes: Array, order: Array, threshold: float, limit: int, kinds: Array | None = None) -> list[int]:
    """The boxes kept of those in `order`: best first, without what overlaps a kept one (of its kind) too much."""
    kept: list[int] = []
    while order.size and (limit < 0 or len(kept) < limit):
        best, order = int(order[0]), order[1:]
        kept.append(best)
        rival = overlaps(boxes[best], boxes[order]) > threshold
        if kinds is not None:
            rival &= kinds[order] == kinds[best]
        order = order[~rival]
    return kept


@host_op("vision.get_valid_counts")
def get_valid_counts(attrs: Attrs, data: Array, score_threshold: Array) -> tuple[Array, Array, Array]:
    """(how many rows count, those rows first and -1 behind, where they came from) of boxes [B, N, …]."""
    batches, count, _ = data.shape
    out, indices = np.full_like(data, -1), np.full((batches, count), -1, np.int32)
    counts = np.zeros(batches, np.int32)
    for b in range(batches):
        good = data[b, :, attrs["score_index"]] > float(score_threshold)
        if attrs["id_index"] >= 0:
            good &= data[b, :, attrs["id_index"]] >= 0
        rows = np.nonzero(good)[0]
        counts[b] = len(rows)
        out[b, : len(rows)], indices[b, : len(rows)] = data[b, rows], rows
    return counts, out, indices


@host_op("vision.non_max_suppression")
def non_max_suppression(
    attrs: Attrs, data: Array, valid_count: Array, indices: Array, max_output_size: Array, iou_threshold: Array
) -> Any:
    """Boxes [B, N, …], best first, the suppressed ones -1; or with return_indices the rows kept and how many.

    Without a threshold above 0 all count and stay where they are.
    """
    batches, count, _ = data.shape
    out, kept_rows = np.full_like(data, -1), np.full((batches, count), -1, np.int32)
    numbers = np.zeros((batches, 1), np.int32)
    first, score, kind = attrs["coord_start"], attrs["score_index"], attrs["id_index"]
    for b in range(batches):
        rows = np.arange(int(valid_count[b]))
        order = rows
        if float(iou_threshold) > 0:
            order = rows[np.argsort(-data[b, rows, score], kind="stable")]
            order = order[: attrs["top_k"]] if attrs["top_k"] > 0 else order
        kinds = None if attrs["force_suppress"] or kind < 0 else data[b, :, kind]
        kept = order.tolist()
        if float(iou_threshold) > 0:
            kept = greedy(data[b, :, first : first + 4], order, float(iou_threshold), int(max_output_size), kinds)
        numbers[b] = len(kept)
        if attrs["return_indices"]:
            kept_rows[b, : len(kept)] = indices[b, kept]
        if attrs["invalid_to_bottom"]:
            out[b, : len(kept)] = data[b, kept]
        else:
            out[b, np.nonzero(np.isin(order, kept))[0]] = data[b, kept]
    return (kept_rows, numbers) if attrs["return_indices"] else out


@host_op("vision.all_class_non_max_suppression")
def all_class_non_max_suppression(
    attrs: Attrs, boxes: Array, scores: Array, most: Array, iou_threshold: Array, score_threshold: Array
) -> Any:
    """The boxes [B, N, 4] kept for each class of scores [B, C, N].

    Output format "onnx": (rows (batch, class, box), padded to B·C·N with zeros; how many are valid [1]); "tensorflow":
    (rows (class, box) [B, C·N, 2], scores [B, C·N], how many [B]).
    """
    batches, classes, count = scores.shape
    kept: list[list[tuple[int, int, float]]] = [[] for _ in range(batches)]
    for b, c in np.ndindex(batches, classes):
        row = scores[b, c]
        order = np.argsort(-row, kind="stable")
        order = order[row[order] > float(score_threshold)]
        kept[b] += [(c, box, row[box]) for box in greedy(boxes[b], order, float(iou_threshold), int(most))]
    if attrs["output_format"] == "onnx":
        rows = [(b, c, box) for b in range(batches) for c, box, _ in kept[b]]
        out = np.zeros((batches * classes * count, 3), np.int64)
        out[: len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
        return out, np.array([len(rows)], np.int64)
    chosen = np.zeros((batches, classes * count, 2), np.int64)
    values = np.zeros((batches, classes * count), np.float32)
    for b in range(batches):
        best = sorted(kept[b], key=lambda item: -item[2])
        chosen[b, : len(best)] = np.array([item[:2] for item in best], np.int64).reshape(-1, 2)
        values[b, : len(best)] = [item[2] for item in best]
    return chosen, values, np.array([len(rows) for rows in kept], np.int64)


@host_op("vision.multibox_transform_loc")
def multibox_transform_loc(attrs: Attrs, scores: Array, shifts: Array, anchors: Array) -> tuple[Array, Array]:
    """(rows (class, score, x1, y1, x2, y2) [B, N, 6], how many count [B]) of class probabilities [B, C, N].

    `shifts` [B, 4·N] move the anchors [1, N, 4]; class 0 is the background.
    """
    batches, _, count = scores.shape
    out, counts = np.full((batches, count, 6), -1, np.float32), np.zeros(batches, np.int32)
    vx, vy, vw, vh = attrs["variances"]
    left, top, right, bottom = anchors[0].T
    width, height, x, y = right - left, bottom - top, (left + right) / 2, (top + bottom) / 2
    for b in range(batches):
        kind = scores[b, 1:].argmax(0)
        best = scores[b, 1:].max(0)
        good = np.nonzero(best >= attrs["threshold"])[0]
        px, py, pw, ph = shifts[b].reshape(-1, 4).T
        cx, cy = px * vx * width + x, py * vy * height + y
        w, h = np.exp(pw * vw) * width / 2, np.exp(ph * vh) * height / 2
        corners = np.stack([cx - w, cy - h, cx + w, cy + h], 1)
        corners = np.clip(corners, 0, 1) if attrs["clip"] else corners
        rows = np.concatenate([kind[:, None], best[:, None], corners], 1)[good]
        out[b, : len(good)], counts[b] = rows, len(good)
    return out, counts


@host_op("vision.proposal")
def proposal(attrs: Attrs, cls_prob: Array, bbox_pred: Array, im_info: Array) -> Array:
    """Regions (image, x1, y1, x2, y2) [B·post_n, 5] that a region proposal network finds worth a look."""
    stride = attrs["feature_stride"]
    anchors = _anchors(stride, attrs["ratios"], attrs["scales"])
    batches, _, height, width = cls_prob.shape
    grid_y, grid_x = np.meshgrid(np.arange(height) * stride, np.arange(width) * stride, indexing="ij")
    base = np.stack([grid_x, grid_y, grid_x, grid_y], -1)[:, :, None] + anchors
    out = np.zeros((batches * attrs["rpn_post_nms_top_n"], 5), np.float32)
    for b in range(batches):
        shifts = bbox_pred[b].reshape(len(anchors), 4, height, width).transpose(2, 3, 0, 1)
        scores = cls_prob[b, len(anchors) :].transpose(1, 2, 0).reshape(-1)
        boxes = _moved(base, shifts, bool(attrs["iou_loss"])).reshape(-1, 4)
        limits = np.array([im_info[b, 1], im_info[b, 0]] * 2) - 1
        boxes = np.clip(boxes, 0, limits)
        small = attrs["rpn_min_size"] * im_info[b, 2]
        is_small = np.any(boxes[:, 2:] - boxes[:, :2] + 1 < small, 1)
        scores = np.where(is_small, -1, scores)
        boxes = boxes + np.where(is_small[:, None], np.array([-small, -small, small, small]) / 2, 0)
        order = np.argsort(-scores, kind="stable")[: attrs["rpn_pre_nms_top_n"]]
        kept = greedy(boxes, order, attrs["threshold"], attrs["rpn_post_nms_top_n"])
        rows = np.resize(np.array(kept), attrs["rpn_post_nms_top_n"])
        part = slice(b * len(rows), (b + 1) * len(rows))
        out[part, 0], out[part, 1:] = b, boxes[rows]
    return out


def _anchors(stride: int, ratios: list[float], scales: list[float]) -> Array:
    """Boxes around one cell, for every ratio and scale."""
    middle, area = (stride - 1) / 2, stride * stride
    boxes = []
    for ratio in ratios:
        wide = np.rint(np.sqrt(area / ratio))
        high = np.rint(wide * ratio)
        for scale in scales:
            w, h = (wide * scale - 1) / 2, (high * scale - 1) / 2
            boxes.append((middle - w, middle - h, middle + w, middle + h))
    return np.array(boxes)


def _moved(boxes: Array, shifts: Array, added: bool) -> Array:
    """Boxes moved by predictions: corners added (`added`), or middles and logarithms of sizes."""
    if added:
        return boxes + shifts
    size = boxes[..., 2:] - boxes[..., :2] + 1
    middle = boxes[..., :2] + (size - 1) / 2 + shifts[..., :2] * size
    half = (np.exp(shifts[..., 2:]) * size - 1) / 2
    return np.concatenate([middle - half, middle + half], -1)
