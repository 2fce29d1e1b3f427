"""Rows of tables found by keys, and sums of those that sparse lists name."""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import cast, constant, like, reshape
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("HASHTABLE_LOOKUP")
def convert_hashtable_lookup(node: Node) -> list[Expr]:
    """Inputs: what is looked up [n], keys in order [k], values [k, …]. Results: values, zeros where none, and hits."""
    if node.rank() != 1 or node.rank(1) != 1 or node.shape(2)[:1] != node.shape(1):
        raise ModelError(f"{node.label}: {node.shape()} looked up among {node.shape(1)} keys of values {node.shape(2)}")
    same = op.equal(op.expand_dims(node[0], axis=1), op.expand_dims(node[1], axis=0))
    place = op.argmax(cast(same, "int32"), axis=1)
    hit = op.any(same, axis=(1,))
    rows = op.take(node[2], place, axis=0)
    wide = reshape(hit, (*node.shape(), *(1,) * (node.rank(2) - 1)))
    return [op.where(wide, rows, like(0, rows)), cast(hit, "uint8")]


@converts("HASHTABLE")
def convert_hashtable(node: Node) -> Expr:
    return constant(node.importer.handle(f"table {int(node.option('table_id', 0))}"), "int32")


def _table(node: Node) -> str:
    """The name of the table that input 0 is."""
    handle = node.array(0)
    if handle is None or handle.size != 1 or not 0 <= int(handle.reshape(-1)[0]) < len(node.importer.handles):
        node.unsupported("a table that is chosen at run time")
    return node.importer.handles[int(handle.reshape(-1)[0])]


@converts("HASHTABLE_IMPORT")
def convert_hashtable_import(node: Node) -> list[Expr]:
    """Keys and values of a table; as in the interpreter, those of the first import stay."""
    keys, values = node.static(1, "keys").reshape(-1), node.static(2, "values").reshape(-1)
    if keys.size != values.size:
        raise ModelError(f"{node.label}: {keys.size} keys of {values.size} values")
    node.importer.tables.setdefault(_table(node), (keys, values))
    return []


@converts("HASHTABLE_FIND")
def convert_hashtable_find(node: Node) -> Expr:
    """What a table has for each key, or the default. The interpreter has tables of text to int64 and back only."""
    keys, values = node.importer.tables.get(_table(node), (np.empty(0), np.empty(0)))
    default = node.static(2, "default").reshape(-1)
    if default.size != 1:
        raise ModelError(f"{node.label}: {default.size} defaults")
    return op.text.look_up(node[1], keys.tolist(), values.tolist(), default.tolist()[0], dtype=node.output().dtype)


@converts("HASHTABLE_SIZE")
def convert_hashtable_size(node: Node) -> Expr:
    """How many keys a table has."""
    keys, _ = node.importer.tables.get(_table(node), (np.empty(0), None))
    return constant([keys.size], "int64")


@converts("EMBEDDING_LOOKUP_SPARSE")
def convert_sparse_embedding(node: Node) -> Expr:
    """Inputs: rows [n], their places [n, r] in a shape [r], weights [n], table. Sums of rows over the last axis."""
    shape, row = node.ints(2, "shape"), node.shape(4)[1:]
    combiner = node.choice("combiner", ("SUM", "MEAN", "SQRTN"), default=0)
    lead = shape[:-1]
    if node.rank(1) != 2 or node.shape(1)[1] != len(shape) or min(shape, default=0) < 0:
        raise ModelError(f"{node.label}: places {node.shape(1)} in a shape {shape}")
    count = prod(lead)
    steps = [prod(lead[axis + 1 :]) for axis in range(len(lead))] + [0]
    bucket = op.sum(op.multiply(node[1], constant(steps, "int32")), axis=(1,))
    places = op.expand_dims(bucket, axis=0)
    weights = node[3]
    wide = reshape(weights, (*node.shape(3), *(1,) * len(row)))
    rows = op.multiply(op.take(node[4], node[0], axis=0, mode="clip"), wide)
    sums = op.scatter_nd(constant(np.zeros((count, *row))), places, rows, mode="add")
    if combiner != "SUM":
        parts = weights if combiner == "MEAN" else op.multiply(weights, weights)
        total = op.scatter_nd(constant(np.zeros(count)), places, parts, mode="add")
        total = op.sqrt(total) if combiner == "SQRTN" else total
        total = op.where(op.equal(total, constant(0.0)), constant(1.0), total)
        sums = op.divide(sums, reshape(total, (count, *(1,) * len(row))))
    return reshape(sums, (*lead, *row))
