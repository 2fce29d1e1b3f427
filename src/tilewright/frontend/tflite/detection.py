"""Suppression of boxes that overlap a better one, hard or soft, in a loop that chooses one box a round.

Bodla et al., Soft-NMS: improving object detection with one line of code (ICCV 2017).
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.frontend.idioms import cast, constant, index_axis, like, reshape
from tilewright.frontend.tflite.control import loop, named
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_Y1, _X1, _Y2, _X2 = range(4)


@converts("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def convert_suppression(node: Node) -> list[Expr]:
    """Inputs: boxes [N, 4], scores [N], how many at most, thresholds of overlap and score, and V5 the softness.

    Results: the chosen boxes by number, V5 their scores, zeros behind them, and how many there are.
    """
    if node.is_quantized() or node.rank() != 2 or node.shape()[1] != 4 or node.rank(1) != 1:
        node.bad(f"it takes boxes [N, 4] and scores [N] of floats, not {node.shape()}, {node.shape(1)}")
    most = node.ints(2, "number of boxes")[0]
    count = node.shape()[0]
    if not isinstance(count, int) or most < 0:
        node.unsupported(f"{most} of {count} boxes")
    overlap, least = (reshape(node[index], ()) for index in (3, 4))
    soft = reshape(node[5], ()) if node.name.endswith("V5") else constant(0.0)
    zero = constant(0, "int32")
    candidates = op.sum(cast(node[1] > least, "int32"), axis=(0,))
    limit = op.minimum(candidates, most)
    start: list[Expr] = [
        zero, node[1], constant(np.zeros(most), "int32"), constant(np.zeros(most), "float32"), node[0], overlap, least,
        soft, limit,
    ]  # fmt: skip

    def goes_on(values: list[Expr]) -> Expr:
        chosen, scores = values[0], values[1]
        better = op.max(scores) > values[6]
        return op.logical_and(chosen < values[8], better)

    def choose(values: list[Expr]) -> list[Expr]:
        chosen, scores, numbers, found, boxes, *options = values
        best = cast(op.argmax(scores, axis=0), "int32")
        here = op.equal(constant(np.arange(most), "int32"), chosen)
        numbers = op.where(here, best, numbers)
        found = op.where(here, op.take(scores, best, axis=0), found)
        # covers itself, and so is gone; one without area covers nothing, and LiteRT chooses it again
        shared = _overlap(boxes, op.take(boxes, best, axis=0))
        gone = shared >= options[0]
        scores = op.where(gone, -np.inf, _softened(scores, shared, options[2]))
        return [chosen + 1, scores, numbers, found, boxes, *options]

    if count == 0 or most == 0:
        chosen, _, numbers, found = start[:4]
    else:
        chosen, _, numbers, found = loop(node, "suppression", start, goes_on, choose)[:4]
    return [numbers, found, chosen] if node.name.endswith("V5") else [numbers, chosen]


def _softened(scores: Expr, shared: Expr, sigma: Expr) -> Expr:
    """Scores less what the overlap with the chosen box takes of them, where `sigma` is positive."""
    zero = like(0, sigma)
    scale = op.where(sigma > zero, -0.5 / sigma, zero)
    return scores * op.exp(scale * (shared * shared))


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
        return (box[1] - box[0]) * (box[3] - box[2])

    zero = constant(0.0)
    many, single = sides(corners), sides(own)
    height = op.minimum(many[1], single[1]) - op.maximum(many[0], single[0])
    width = op.minimum(many[3], single[3]) - op.maximum(many[2], single[2])
    shared = op.maximum(height, zero) * op.maximum(width, zero)
    union = area(many) + area(single) - shared
    empty = op.minimum(area(many), area(single)) <= zero
    empty = op.logical_or(empty, op.equal(union, zero))
    return op.where(empty, zero, shared / op.where(empty, 1.0, union))


# ----------------------------------------------- Rows of tables found by keys, and sums of those that sparse lists name
@converts("HASHTABLE_LOOKUP")
def convert_hashtable_lookup(node: Node) -> list[Expr]:
    """Inputs: what is looked up [n], keys in order [k], values [k, …]. Results: values, zeros where none, and hits."""
    if node.rank() != 1 or node.rank(1) != 1 or node.shape(2)[:1] != node.shape(1):
        node.bad(f"{node.shape()} looked up among {node.shape(1)} keys of values {node.shape(2)}")
    same = op.equal(op.expand_dims(node[0], axis=1), op.expand_dims(node[1], axis=0))
    position = op.argmax(cast(same, "int32"), axis=1)
    hit = op.any(same, axis=(1,))
    rows = op.take(node[2], position, axis=0)
    wide = reshape(hit, (*node.shape(), *(1,) * (node.rank(2) - 1)))
    return [op.where(wide, rows, 0), cast(hit, "uint8")]


converts.functions({
    "HASHTABLE": lambda node: constant(
        node.importer.handle(f"table {int(node.option('table_id', 0))}"), "int32"
    ),
})  # fmt: skip


@converts("HASHTABLE_IMPORT")
def convert_hashtable_import(node: Node) -> list[Expr]:
    """Keys and values of a table; as in the interpreter, those of the first import stay."""
    keys, values = node.static(1, "keys").reshape(-1), node.static(2, "values").reshape(-1)
    if keys.size != values.size:
        node.bad(f"{keys.size} keys of {values.size} values")
    node.importer.tables.setdefault(named(node, "table"), (keys, values))
    return []


@converts("HASHTABLE_FIND")
def convert_hashtable_find(node: Node) -> Expr:
    """The table's entry for each key, or the default. The interpreter has tables of text to int64 and back only."""
    keys, values = node.importer.tables.get(named(node, "table"), (np.empty(0), np.empty(0)))
    default = node.static(2, "default").reshape(-1)
    if default.size != 1:
        node.bad(f"{default.size} defaults")
    return op.text.look_up(node[1], keys.tolist(), values.tolist(), default.tolist()[0], dtype=node.output().dtype)


@converts("HASHTABLE_SIZE")
def convert_hashtable_size(node: Node) -> Expr:
    """The number of keys of a table."""
    keys, _ = node.importer.tables.get(named(node, "table"), (np.empty(0), None))
    return constant([keys.size], "int64")


@converts("EMBEDDING_LOOKUP_SPARSE")
def convert_sparse_embedding(node: Node) -> Expr:
    """Inputs: rows [n], their positions [n, r] in a shape [r], weights [n], table. Sums of rows over the last axis."""
    shape, row = node.ints(2, "shape"), node.shape(4)[1:]
    combiner = node.choice("combiner", ("SUM", "MEAN", "SQRTN"), default=0)
    lead = shape[:-1]
    if node.rank(1) != 2 or node.shape(1)[1] != len(shape) or min(shape, default=0) < 0:
        node.bad(f"positions {node.shape(1)} in a shape {shape}")
    count = prod(lead)
    steps = [prod(lead[axis + 1 :]) for axis in range(len(lead))] + [0]
    bucket = op.sum(node[1] * steps, axis=(1,))
    positions = op.expand_dims(bucket, axis=0)
    weights = node[3]
    wide = reshape(weights, (*node.shape(3), *(1,) * len(row)))
    rows = op.take(node[4], node[0], axis=0, mode="clip") * wide
    sums = op.scatter_nd(constant(np.zeros((count, *row))), positions, rows, mode="add")
    if combiner != "SUM":
        parts = weights if combiner == "MEAN" else weights * weights
        total = op.scatter_nd(constant(np.zeros(count)), positions, parts, mode="add")
        total = op.sqrt(total) if combiner == "SQRTN" else total
        total = op.where(op.equal(total, 0.0), 1.0, total)
        sums = sums / reshape(total, (count, *(1,) * len(row)))
    return reshape(sums, (*lead, *row))
