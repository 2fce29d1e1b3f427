"""Resizing of planes of bytes as PyTorch does it: weights are integers, and every axis is rounded by itself."""

from __future__ import annotations

from functools import reduce

import numpy as np

from tilewright.frontend.idioms import along, cast, constant, move_axis, rank_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

#: More taps than these are a product with the whole matrix of weights.
_MOST_TAPS = 16


def resized_bytes(data: Expr, axis: int, weights: np.ndarray) -> Expr:
    """Planes of bytes as int32, along one axis multiplied by `weights` [results, elements], rounded, from 0 to 255."""
    bits = _fraction_bits(float(weights.max()))
    scaled = weights * (1 << bits)
    whole = np.trunc(scaled + np.where(scaled < 0, -0.5, 0.5)).astype("int32")
    total = _weighted(cast(data, "int32"), axis, whole) + constant((1 << bits) >> 1, "int32")
    return op.clip(op.right_shift(total, constant(bits, "int32")), a_min=0, a_max=255)


def _fraction_bits(largest: float) -> int:
    """The number of fractional bits with which the largest weight still fits into 16 bits with its sign."""
    bits = 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits


def _weighted(data: Expr, axis: int, weights: np.ndarray) -> Expr:
    """The product along one axis, of which each row has few elements that are not 0, side by side."""
    count, extent = weights.shape
    first = (weights != 0).argmax(1)
    last = extent - (weights[:, ::-1] != 0).argmax(1)
    taps = int((last - first).max())
    if taps > _MOST_TAPS:
        moved = move_axis(data, axis, rank_of(data) - 1)
        return move_axis(op.nn.dense(moved, Constant(weights), units=count), rank_of(data) - 1, axis)
    first = np.minimum(first, extent - taps)
    terms = []
    for step in range(taps):
        taken = op.take(data, Constant(first + step), axis=axis, mode="clip")
        terms.append(taken * along(weights[np.arange(count), first + step], axis, rank_of(data), "int32"))
    return reduce(op.add, terms)
