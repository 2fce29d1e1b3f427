"""Blocks of the batch: SpaceToBatchND and BatchToSpaceND, and the dilated convolutions that stand between them.

    BatchToSpaceND(conv(SpaceToBatchND(x, d, pads)), d, crops)  ->  conv(pad(x, pads - crops), dilation=d)

TensorFlow writes every dilated convolution over one axis so. The padding that fills up a block is cropped again, so
that what is left is known where the extent is symbolic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import product, reshape, shape_of, transpose
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Blocked, numbers_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import as_dim


def squeezed(value: Blocked, axes: Sequence[int]) -> Blocked:
    """Blocks without axes of extent 1."""

    def step(data: Expr) -> Expr:
        return op.squeeze(data, axis=tuple(axes))

    return value.then(step, step, [axis - sum(1 for one in axes if one < axis) for axis in value.axes])


def widened(value: Blocked, axis: int) -> Blocked:
    """Blocks with another axis of extent 1."""
    position = axis % (len(shape_of(value.data)) + 1)

    def step(data: Expr) -> Expr:
        return op.expand_dims(data, axis=position)

    return value.then(step, step, [one + (one >= position) for one in value.axes])


def dilated(node: TfNode) -> Blocked | None:
    """The dilated convolution of the data for a convolution of blocks; None if the pattern does not apply."""
    value = node.values[0] if node.values else None
    strides, dilations = node.attr("strides", []), node.attr("dilations", [])
    if not isinstance(value, Blocked) or node.attr("padding", "") != "VALID" or (set(strides) | set(dilations)) - {1}:
        return None
    apart = dict(zip(value.axes, value.blocks))
    kept = TfNode(node.record, node.name, [None, *node.values[1:]], node.importer)

    def convolved(data: Expr, dilation: Mapping[int, int]) -> Expr:
        kept.values[0], kept.dilation = data, dilation
        made = converts.find(node.operator)(kept)  # type: ignore[misc]
        assert isinstance(made, Expr)
        return made

    return value.then(lambda data: convolved(data, apart), lambda data: convolved(data, {}), value.axes)


def _pairs(node: TfNode, index: int, what: str) -> list[tuple[Any, Any]]:
    found = numbers_of(node.values[index]) if index < len(node.values) else None
    if found is None:
        node.unsupported(f"its {what} (input {index}) is computed at run time")
    return [(before, behind) for before, behind in found.reshape(-1, 2).tolist()]


def _blocks(node: TfNode) -> tuple[list[int], list[tuple[Any, Any]], str]:
    new = node.operator.endswith("ND")
    what = "crops" if node.operator.startswith("BatchTo") else "padding"
    return node.ints(1, "blocks") if new else [node.attr("block_size")] * 2, _pairs(node, 2 if new else 1, what), what


@converts("SpaceToBatchND", "SpaceToBatch")
def convert_space_to_batch(node: TfNode) -> Blocked:
    blocks, pads, _ = _blocks(node)
    if len(pads) != len(blocks):
        node.bad(f"{len(blocks)} blocks and padding of {len(pads)} axes")
    data = node[0]
    return Blocked(data, range(1, 1 + len(blocks)), blocks, pads, lambda: _cut(node, data, blocks, pads))


def _cut(node: TfNode, data: Expr, blocks: Sequence[int], pads: Sequence[tuple[Any, Any]]) -> Expr:
    """The blocks themselves."""
    rest = node.rank(data) - 1 - len(blocks)
    padded = op.nn.pad(data, pad_width=[(0, 0), *pads, *[(0, 0)] * rest])
    batch, *extents = shape_of(padded)
    count = len(blocks)
    split = [n for extent, block in zip(extents, blocks) for n in (as_dim(extent // block), block)]
    parts = reshape(padded, (batch, *split, *extents[count:]))
    order = [2 * one + 2 for one in range(count)] + [0] + [2 * one + 1 for one in range(count)]
    moved = transpose(parts, [*order, *range(2 * count + 1, 2 * count + 1 + rest)])
    return reshape(moved, (batch * product(blocks), *split[::2], *extents[count:]))


@converts("BatchToSpaceND", "BatchToSpace")
def convert_batch_to_space(node: TfNode) -> Expr:
    blocks, crops, _ = _blocks(node)
    value = node.values[0]
    joined = _joined(value, blocks, crops) if isinstance(value, Blocked) else None
    if joined is not None:
        return joined
    data = node[0]
    batch, *extents = shape_of(data)
    count, rest = len(blocks), node.rank(data) - 1 - len(blocks)
    parts = reshape(data, (*blocks, as_dim(batch // product(blocks)), *extents))
    order = [count] + [n for one in range(count) for n in (count + 1 + one, one)]
    moved = transpose(parts, [*order, *range(2 * count + 1, 2 * count + 1 + rest)])
    wide = [extent * block for extent, block in zip(extents, blocks)]
    made = reshape(moved, (as_dim(batch // product(blocks)), *wide, *extents[count:]))
    ends = [extent - behind for extent, (_, behind) in zip(wide, crops)]
    begins = [before for before, _ in crops]
    return op.strided_slice(made, begin=begins, end=ends, strides=[1] * count, axes=list(range(1, 1 + count)))


def _joined(value: Blocked, blocks: Sequence[int], crops: Sequence[tuple[Any, Any]]) -> Expr | None:
    """The operators between the two rearrangements, applied to the data; None if they do not commute with those."""
    if tuple(blocks) != value.blocks or value.axes != tuple(range(1, 1 + len(blocks))) or not value.steps:
        return None
    pads = [tuple(as_dim(pad - crop) for pad, crop in zip(*both)) for both in zip(value.pads, crops)]
    if not all(isinstance(extent, int) and extent >= 0 for pair in pads for extent in pair):
        return None
    data, rest = value.data, len(shape_of(value.data)) - 1 - len(blocks)
    if np.any(pads):
        data = op.nn.pad(data, pad_width=[(0, 0), *pads, *[(0, 0)] * rest])
    for step in value.steps:
        data = step(data)
    return data
