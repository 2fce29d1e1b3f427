"""Weights of a few bits as importers meet them, made operators that never hold them as floats: products and tables.

The formats differ in how they pack codes and order the depth; here they come as one code in each byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import tensor, transform
from tilewright.relay.op.gather import take
from tilewright.relay.op.nn.activation import pad
from tilewright.relay.op.nn.dense_blockwise import dense_blockwise
from tilewright.topi.reference.blockwise import WHOLE, packed_codes

Array = np.ndarray


def dense_of_codes(
    data: Expr,
    codes: Array,
    scales: Array,
    zeros: Array | None = None,
    bits: int = 4,
    groups: Array | None = None,
    accuracy_level: int = 0,
    table: Sequence[float] | None = None,
) -> Expr:
    """`data` [..., K] times the transpose of weights (code - zero point) * scale, for `codes` [N, blocks, block].

    `scales` and `zeros` are [N, blocks]. With `groups` [K] element k has the numbers of column `groups[k]` (act-order):
    the depth is then put in the order of these, in the weights here and in the data by a run. With a `table` codes
    stand for its numbers, without zero points.
    """
    columns, _, block = codes.shape
    depth = int(tensor_type_of(data).shape[-1])
    if groups is not None and not np.array_equal(groups, np.arange(depth) // block):
        order, block_group = _in_order_of_groups(groups, block)
        flat = np.pad(codes.reshape(columns, -1)[:, :depth], ((0, 0), (0, 1)))
        codes = np.pad(flat[:, order], ((0, 0), (0, -len(order) % block))).reshape(columns, -1, block)
        scales, zeros = scales[:, block_group], None if zeros is None else zeros[:, block_group]
        if (order == depth).any():  # a group that does not fill its last block
            data = pad(data, [(0, 0)] * (tensor_type_of(data).ndim - 1) + [(0, 1)])
        data = take(data, Constant(order.astype(np.int32)), axis=-1, mode="clip")
    weight, points = Constant(packed_codes(codes, bits)), None if zeros is None else Constant(zeros)
    return dense_blockwise(data, weight, Constant(scales), points, bits, None, accuracy_level, table)


def _in_order_of_groups(groups: Array, block: int) -> tuple[Array, Array]:
    """The elements of the depth group by group, in whole blocks, and the group of each block.

    Behind a group that does not fill its last block stands the number of the element behind the last one.
    """
    elements: list[Array] = []
    block_group: list[int] = []
    for group in np.unique(groups):
        found = np.flatnonzero(groups == group)
        filled = np.pad(found, (0, -len(found) % block), constant_values=len(groups))
        elements.append(filled)
        block_group += [int(group)] * (len(filled) // block)
    order = np.concatenate(elements)
    used = np.flatnonzero(order < len(groups))[-1] + 1
    return order[:used], np.asarray(block_group)


def take_of_codes(
    table: Array,
    indices: Expr,
    scales: Array,
    zeros: Array | None,
    bits: int,
    block: int,
    axes: tuple[int, int],
) -> Expr:
    """Slices of a table of codes, (code - zero point) * scale in the type of the scales; `axes`: gathered, in blocks.

    Only what a run picks becomes floats: codes are packed along the last axis, if that is another one.
    """
    gathered, blocked = axes
    packs = bits in WHOLE[:-1] and gathered != table.ndim - 1 and table.shape[-1] % (8 // bits) == 0
    dtype, position = str(scales.dtype), blocked + (tensor_type_of(indices).ndim - 1) * (blocked > gathered)
    block_of = Constant((np.arange(table.shape[blocked]) // block).astype(np.int32))

    def picked(values: Array) -> Expr:
        return take(Constant(np.ascontiguousarray(values)), indices, axis=gathered, mode="wrap")

    def spread(values: Array) -> Expr:
        return take(tensor.cast(picked(values), "float32"), block_of, axis=position, mode="clip")

    codes = _fields(picked(packed_codes(table, bits)), bits) if packs else picked(table)
    real = tensor.cast(codes, "float32")
    if zeros is not None:
        real = real - (spread(zeros) if zeros.ndim else Constant(zeros.astype(np.float32)))
    return tensor.cast(real * spread(scales), dtype)


def _fields(packed: Expr, bits: int) -> Expr:
    """The codes in the last axis of bytes, lowest bits first."""
    rank = tensor_type_of(packed).ndim
    shifts = Constant(np.arange(0, 8, bits, dtype=np.uint8))
    fields = tensor.right_shift(transform.expand_dims(packed, axis=-1), shifts)
    codes = tensor.bitwise_and(fields, Constant(np.uint8((1 << bits) - 1)))
    return transform.reshape(codes, (*[0] * (rank - 1), -3))
