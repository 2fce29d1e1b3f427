"""A matrix of weights of a few bits: what it stands for, and the operators that read it as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ShapeError, UnsupportedError
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.nn.coded_weights import dense_of_codes, take_of_codes
from tilewright.topi.reference.blockwise import code_bits, packed_codes

Array = np.ndarray[Any, Any]

#: Codes of a block: up to the most, sums of 8 bits fit 32; fewer than the least are no format's. Kernels' steps, of any
#: bits, divide a whole one.
_MOST, _LEAST, _WHOLE = 256, 8, 32


@dataclass(frozen=True, eq=False)
class CodedWeights:
    """Weights [N, K] as (code - zero) * scale, with a scale and a zero point for each block of the depth.

    With a `table` they are table[code] * scale.

    `packed` [N, blocks, bytes] are codes of `bits` bits as `nn.dense_blockwise` has them, `scales` [N, G] and `zeros`
    [N, G] floats or bytes; without zeros each is 2 ** (bits - 1). Element k of the depth has their column `groups[k]`,
    without groups that of its block.
    """

    packed: Array
    bits: int
    scales: Array
    zeros: Array | None
    depth: int
    groups: Array | None = None
    table: tuple[float, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """[N, K]."""
        return len(self.packed), self.depth

    @property
    def block(self) -> int:
        """Codes of a block."""
        return self.packed.shape[2] * 8 // self.bits

    @property
    def nbytes(self) -> int:
        """The bytes of codes, scales and zero points."""
        return sum(x.nbytes for x in (self.packed, self.scales, self.zeros) if x is not None)

    def dense(self, data: Expr, bias: Expr | Array | None = None, accuracy_level: int = 0) -> Expr:
        """`data` [..., K] times the transpose of the weights, [..., N], with a bias [N] if there is one.

        `accuracy_level` is that of `nn.dense_blockwise`: by default as exact as float32.
        """
        found = tensor_type_of(data).shape[-1]
        if found != self.depth:
            raise ShapeError(f"a product with weights {list(self.shape)} takes data [..., {self.depth}], not {found}")
        codes = code_bits(self.packed, self.bits)
        result = dense_of_codes(
            data, codes, self.scales, self.zeros, self.bits, self.groups, accuracy_level, self.table
        )
        if bias is None:
            return result
        return result + (bias if isinstance(bias, Expr) else Constant(np.asarray(bias)))

    def take(self, indices: Expr) -> Expr:
        """Rows of the weights, a table of embeddings, in the type of the scales: [..., K] for `indices` [...]."""
        if self.groups is not None or self.table is not None:
            raise UnsupportedError(
                "rows of weights in act-order or of a table cannot be picked, only multiplied: `dense`"
            )
        codes = code_bits(self.packed, self.bits).reshape(len(self.packed), -1)[:, : self.depth]
        zeros = np.array(1 << (self.bits - 1)) if self.zeros is None else self.zeros
        return take_of_codes(codes, indices, self.scales, zeros, self.bits, self.block, (0, 1))

    def numpy(self) -> Array:
        """The weights [N, K] that the codes stand for, in float64: for tests and comparisons."""
        codes = code_bits(self.packed, self.bits).reshape(len(self.packed), -1)[:, : self.depth]
        group = np.arange(self.depth) // self.block if self.groups is None else self.groups
        zeros = float(1 << (self.bits - 1)) if self.zeros is None else self.zeros.astype(np.float64)[:, group]
        meant = codes - zeros if self.table is None else np.array(self.table)[codes]
        return meant * self.scales.astype(np.float64)[:, group]


def coded(
    codes: Array,
    bits: int,
    scales: Array,
    zeros: Array | None,
    group: int,
    table: tuple[float, ...] | None = None,
) -> CodedWeights:
    """Weights of `codes` [N, K], one a byte, whose groups of `group` along the depth have a column of scales each.

    Groups that are longer than a kernel's blocks become several blocks with the same scale.
    """
    units, depth = codes.shape
    count = -(-depth // group)
    for name, found in (("scales", scales), ("zero points", zeros)):
        if found is not None and found.shape != (units, count):
            raise ShapeError(f"{name} of shape {(units, count)} are needed for groups of {group}, not {found.shape}")
    block = group if group <= _MOST else math.gcd(group, _MOST)
    if count == 1:
        block = min(_MOST, -(-depth // _WHOLE) * _WHOLE)
    if block < _LEAST:
        raise UnsupportedError(f"groups of {group} weights; a multiple of {_LEAST} is needed")
    blocks = -(-depth // block)
    if blocks != count:
        column = np.arange(blocks) * block // group
        scales, zeros = scales[:, column], None if zeros is None else zeros[:, column]
    if zeros is not None and (zeros == 1 << (bits - 1)).all():
        zeros = None
    filled = np.pad(codes, ((0, 0), (0, blocks * block - depth))).reshape(units, blocks, block)
    scales, zeros = np.ascontiguousarray(scales), None if zeros is None else np.ascontiguousarray(zeros)
    return CodedWeights(packed_codes(filled, bits), bits, scales, zeros, depth, table=table)


def affine(codes: Array, bits: int, scales: Array, offsets: Array, group: int) -> CodedWeights:
    """Weights `scale * code + offset` with numbers [N, G] in float32.

    A group whose scale is 0 has codes of 0 and the offset as its scale, at zero point 1.
    """
    flat = scales == 0
    if flat.any():
        width = np.repeat(flat, group, axis=1)[:, : codes.shape[1]]
        codes, scales = np.where(width, np.uint8(0), codes), np.where(flat, -offsets, scales)
    zeros = np.where(flat, np.float32(1), -offsets / np.where(flat, np.float32(1), scales)).astype(np.float32)
    half = scales.astype(np.float16)
    return coded(codes, bits, half if (half == scales).all() else scales, zeros, group)
