"""Suppression of boxes that overlap a better one, hard or soft, in a loop that chooses one box a round.

Bodla et al., Soft-NMS: improving object detection with one line of code (ICCV 2017).
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import cast, constant, index_axis, like, reshape
from tilewright.frontend.tflite.control import loop
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_Y1, _X1, _Y2, _X2 = range(4)


@converts("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def convert_suppression(node: Node) -> list[Expr]:
    """Inputs: boxes [N, 4], scores [N], how many at most, thresholds of overlap and score, and V5 the softness.

    Results: the chosen boxes by number, V5 their scores, zeros behind them, and how many there are.
    """
    if node.is_quantized() or node.rank() != 2 or node.shape()[1] != 4 or node.rank(1) != 1:
        raise ModelError(
            f"{node.label} takes boxes [N, 4] and scores [N] of floats, not {node.shape()}, {node.shape(1)}"
        )
    most = node.ints(2, "number of boxes")[0]
    count = node.shape()[0]
    if not isinstance(count, int) or most < 0:
        node.unsupported(f"{most} of {count} boxes")
    overlap, least = (reshape(node[index], ()) for index in (3, 4))
    soft = reshape(node[5], ()) if node.name.endswith("V5") else constant(0.0)
    zero = constant(0, "int32")
    candidates = op.sum(cast(op.greater(node[1], least), "int32"), axis=(0,))
    limit = op.minimum(candidates, constant(most, "int32"))
    start: list[Expr] = [
        zero, node[1], constant(np.zeros(most), "int32"), constant(np.zeros(most), "float32"), node[0], overlap, least,
        soft, limit,
    ]  # fmt: skip

    def goes_on(values: list[Expr]) -> Expr:
        chosen, scores = values[0], values[1]
        better = op.greater(op.max(scores), values[6])
        return op.logical_and(op.less(chosen, values[8]), better)

    def choose(values: list[Expr]) -> list[Expr]:
        chosen, scores, numbers, found, boxes, *options = values
        best = cast(op.argmax(scores, axis=0), "int32")
        here = op.equal(constant(np.arange(most), "int32"), chosen)
        numbers = op.where(here, best, numbers)
        found = op.where(here, op.take(scores, best, axis=0), found)
        # covers itself, and so is gone; one without area covers nothing, and LiteRT chooses it again
        shared = _overlap(boxes, op.take(boxes, best, axis=0))
        gone = op.greater_equal(shared, options[0])
        scores = op.where(gone, constant(-np.inf), _softened(scores, shared, options[2]))
        return [op.add(chosen, constant(1, "int32")), scores, numbers, found, boxes, *options]

    if count == 0 or most == 0:
        chosen, _, numbers, found = start[:4]
    else:
        chosen, _, numbers, found = loop(node, "suppression", start, goes_on, choose)[:4]
    return [numbers, found, chosen] if node.name.endswith("V5") else [numbers, chosen]


def _softened(scores: Expr, shared: Expr, sigma: Expr) -> Expr:
    """Scores less what the overlap with the chosen box takes of them, where `sigma` is positive."""
    zero = like(0, sigma)
    scale = op.where(op.greater(sigma, zero), op.divide(like(-0.5, sigma), sigma), zero)
    return op.multiply(scores, op.exp(op.multiply(scale, op.multiply(shared, shared))))


def _overlap(boxes: Expr, one: Expr) -> Expr:
    """Of each box the part of the union with `one` that both cover; none for boxes without area."""
    corners = [index_axis(boxes, 1, corner) for corner in range(4)]
    own = [index_axis(one, 0, corner) for corner in range(4)]

    def sides(box: list[Expr]) -> list[Expr]:
        return [
            op.minimum(box[_Y1], box[_Y2]), op.maximum(box[_Y1], box[_Y2]),
            op.minimum(box[_X1], box[_X2]), op.maximum(box[_X1], box[_X2]),
        ]  # fmt: skip

    def area(box: list[Expr]) -> Expr:
        return op.multiply(op.subtract(box[1], box[0]), op.subtract(box[3], box[2]))

    zero = constant(0.0)
    many, single = sides(corners), sides(own)
    height = op.subtract(op.minimum(many[1], single[1]), op.maximum(many[0], single[0]))
    width = op.subtract(op.minimum(many[3], single[3]), op.maximum(many[2], single[2]))
    shared = op.multiply(op.maximum(height, zero), op.maximum(width, zero))
    union = op.subtract(op.add(area(many), area(single)), shared)
    empty = op.less_equal(op.minimum(area(many), area(single)), zero)
    empty = op.logical_or(empty, op.equal(union, zero))
    return op.where(empty, zero, op.divide(shared, op.where(empty, constant(1.0), union)))
