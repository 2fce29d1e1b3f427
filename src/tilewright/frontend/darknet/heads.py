"""Detection heads: [yolo], [region] and [detection], as boxes with scores or as the layer itself leaves them.

Boxes: https://arxiv.org/abs/1804.02767 (YOLOv3) and https://arxiv.org/abs/1612.08242 (YOLO9000). The centre of a box is
a position within its cell, width and height are factors of an anchor; the score of a class is its probability times the
objectness.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontend.darknet.node import DarknetNode, converts
from tilewright.frontend.idioms import concatenate, reshape, shape_of, slice_axis, transpose
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: Scores that are not above this are zero, by the kind of head: OpenCV's figures.
_YOLO_THRESHOLD, _REGION_THRESHOLD = 0.2, 0.001


def _anchors(node: DarknetNode, count: int, masked: bool) -> np.ndarray:
    """The anchors that the head uses, [anchors, width and height]."""
    anchors = node.section.numbers("anchors")
    if len(anchors) != 2 * count:
        node.bad(f"num={count} anchors, and {len(anchors)} numbers of them")
    pairs = np.array(anchors, np.float32).reshape(-1, 2)
    mask = [int(position) for position in node.section.numbers("mask")] if masked else []
    if any(not 0 <= position < count for position in mask):
        node.bad(f"mask={mask} of {count} anchors")
    return pairs[mask] if mask else pairs


def _parts(node: DarknetNode, anchors: int, classes: int) -> list[Expr]:
    """Centres, sizes, objectness and classes: each [batch, anchors, its numbers, height, width]."""
    data = node.image()
    batch, channels, height, width = shape_of(data)
    if channels != anchors * (5 + classes):
        node.bad(
            f"{channels} channels for {anchors} anchors of {classes} classes; {anchors * (5 + classes)} are needed"
        )
    split = reshape(data, (batch, anchors, 5 + classes, height, width))
    return [slice_axis(split, 2, begin, end) for begin, end in ((0, 2), (2, 4), (4, 5), (5, 5 + classes))]


def _boxes(node: DarknetNode, centres: Expr, sizes: Expr, scale: np.ndarray) -> Expr:
    """Centres within cells and factors of anchors as fractions of the image; `scale` is [anchors, width and height]."""
    height, width = node.known(*shape_of(centres)[3:])
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    grid = np.stack([columns, rows]).astype(np.float32)[None, None]
    positions = (centres + grid) / np.array([width, height], np.float32).reshape(1, 1, 2, 1, 1)
    return concatenate([positions, sizes * scale[None, :, :, None, None]], 2)


def _rows(node: DarknetNode, boxes: Expr, objectness: Expr, classes: Expr, threshold: float) -> Expr:
    """[batch * cells * anchors, 5 + classes], cell by cell, the anchors of each in order."""
    scores = objectness * classes
    kept = op.where(scores > threshold, scores, 0)
    joined = concatenate([boxes, objectness, kept], 2)
    batch, anchors, fields, height, width = shape_of(joined)
    return reshape(transpose(joined, (0, 3, 4, 1, 2)), (batch * height * width * anchors, fields))


@converts("yolo")
def convert_yolo(node: DarknetNode) -> Expr:
    """[yolo]: the head of YOLO versions 3, 4 and 7 (`new_coords`)."""
    section = node.section
    classes = section.integer("classes", 20, 1)
    anchors = _anchors(node, section.integer("num", 1, 1), True)
    centres, sizes, objectness, scores = _parts(node, len(anchors), classes)
    new = bool(section.integer("new_coords", 0))
    stretch = section.number("scale_x_y", 1)
    if not new:
        centres, objectness, scores = (op.sigmoid(part) for part in (centres, objectness, scores))
    if stretch != 1:
        centres = centres * stretch - 0.5 * (stretch - 1)
    if not node.decode:
        return reshape(concatenate([centres, sizes, objectness, scores], 2), shape_of(node.image()))
    factors = (sizes * 2) * (sizes * 2) if new else op.exp(sizes)
    height, width = node.known(*node.size)
    boxes = _boxes(node, centres, factors, anchors / np.array([width, height], np.float32))
    return _rows(node, boxes, objectness, scores, _YOLO_THRESHOLD)


@converts("region")
def convert_region(node: DarknetNode) -> Expr:
    """[region]: the head of YOLO version 2, whose anchors count in cells."""
    section = node.section
    if section.integer("coords", 4) != 4 or "tree" in section.options or section.integer("background", 0):
        node.unsupported("coords other than 4, trees of classes and background are not supported")
    classes = section.integer("classes", 20, 1)
    count = section.integer("num", 1, 1)
    anchors = _anchors(node, count, False)
    centres, sizes, objectness, scores = _parts(node, count, classes)
    centres, objectness = op.sigmoid(centres), op.sigmoid(objectness)
    scores = op.nn.softmax(scores, axis=2) if section.integer("softmax", 0) else op.sigmoid(scores)
    if not node.decode:
        return reshape(concatenate([centres, sizes, objectness, scores], 2), shape_of(node.image()))
    height, width = node.known(*shape_of(centres)[3:])
    boxes = _boxes(node, centres, op.exp(sizes), anchors / np.array([width, height], np.float32))
    return _rows(node, boxes, objectness, scores, _REGION_THRESHOLD)


@converts("detection")
def convert_detection(node: DarknetNode) -> Expr:
    """[detection]: the head of YOLO version 1, classes of each cell, then confidences, then boxes."""
    section, data = node.section, node.flat()
    side, boxes, classes = (
        section.integer(name, default, 1) for name, default in (("side", 7), ("num", 1), ("classes", 1))
    )
    batch, count = shape_of(data)
    if count != side * side * (boxes * (1 + section.integer("coords", 1)) + classes):
        node.bad(f"{count} numbers for {side} x {side} cells of {boxes} boxes and {classes} classes")
    if not section.integer("softmax", 0):
        return data
    cells = reshape(slice_axis(data, 1, 0, side * side * classes), (batch, side * side, classes))
    scores = reshape(op.nn.softmax(cells, axis=-1), (batch, side * side * classes))
    return concatenate([scores, slice_axis(data, 1, side * side * classes, count)], 1)
