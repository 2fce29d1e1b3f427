"""Relay operators that came after v0.8, made of those here: `relay.trilu`, `relay.stft`, `relay.sliding_window`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.type_of import tensor_type_of


def _positions(data: relay.Expr, axis: int) -> relay.Expr:
    """The index along `axis` of each element of `data`, as int32, in a shape that broadcasts over `data`."""
    size = tensor_type_of(data).shape[axis]
    if isinstance(size, int):
        numbers = np.arange(size, dtype="int32")
        return relay.Constant(numbers[:, None] if axis == -2 else numbers)
    return op.subtract(op.cumsum(op.cast(op.ones_like(data), "int32"), axis), relay.const(1))


def trilu(data: relay.Expr, k: Any, upper: bool = True) -> relay.Expr:
    """Matrices [..., R, C] with zeros below (`upper`) or above their diagonal number `k`, a number or an expression."""
    rank = len(tensor_type_of(data).shape)
    if rank < 2:
        raise InputError(f"relay.trilu: matrices are needed, not a tensor of {rank} dimensions")
    diagonal = op.cast(k if isinstance(k, relay.Expr) else relay.const(int(k)), "int32")
    if len(tensor_type_of(diagonal).shape):
        diagonal = op.reshape(diagonal, ())
    number = op.subtract(_positions(data, -1), _positions(data, -2))
    kept = (op.greater_equal if upper else op.less_equal)(number, diagonal)
    return op.where(kept, data, op.zeros_like(data))


def sliding_window(data: relay.Expr, axis: int, window_shape: Sequence[int], strides: Sequence[int]) -> relay.Expr:
    """The windows over the dimensions from `axis` on: [..., windows along each, window_shape]; sizes are static.

    Where the last step is shorter than a window there is none.
    """
    shape = tensor_type_of(data).concrete_shape
    first = axis % len(shape)
    window, steps = [*map(int, window_shape)], [*map(int, strides)]
    if not len(window) == len(steps) == len(shape) - first:
        raise InputError(
            f"relay.sliding_window: a window of {len(window)} and strides of {len(steps)} dimensions do not go with "
            f"the {len(shape) - first} dimensions from {axis} on"
        )
    if any(size > whole or size < 1 or step < 1 for size, whole, step in zip(window, shape[first:], steps)):
        raise InputError(f"relay.sliding_window: no window {tuple(window)} fits into {tuple(shape[first:])}")
    counts = [(whole - size) // step + 1 for size, whole, step in zip(window, shape[first:], steps)]
    for position, (count, size, step) in enumerate(zip(counts, window, steps)):
        # One dimension becomes two: which window, and where in it.
        taken = (np.arange(count)[:, None] * step + np.arange(size)).astype("int32")
        data = op.take(data, relay.Constant(taken), axis=first + 2 * position)
    order = [*range(first + 2 * len(counts))]
    windows, within = order[first::2], order[first + 1 :: 2]
    return op.transpose(data, [*order[:first], *windows, *within])


def stft(
    data: relay.Expr,
    n_fft: int,
    hop_length: int,
    win_length: int,
    window: relay.Expr | None = None,
    normalized: bool = False,
    onesided: bool = True,
) -> relay.Expr:
    """The Fourier transform of frames of signals [B, L]: [B, frequencies, frames, 2], real and imaginary parts.

    Frames of `n_fft` elements begin every `hop_length`; `window` [win_length], by default ones, weighs their middle.
    """
    if not 0 < win_length <= n_fft:
        raise InputError(f"relay.stft: a window of {win_length} elements does not lie in a frame of {n_fft}")
    dtype = str(tensor_type_of(data).dtype)
    dtype = dtype if dtype.startswith("float") else "float32"
    rows = n_fft // 2 + 1 if onesided else n_fft
    angles = 2 * math.pi / n_fft * np.outer(np.arange(rows), np.arange(n_fft))
    table = np.stack([np.cos(angles), -np.sin(angles)]) * (1 / math.sqrt(n_fft) if normalized else 1)
    weights: relay.Expr = relay.Constant(table.reshape(2 * rows, 1, n_fft).astype(dtype))
    before = (n_fft - win_length) // 2
    if window is None:
        window = relay.Constant(np.ones(win_length, dtype))
    whole = op.reshape(op.cast(window, dtype), (win_length,))
    weights = op.multiply(weights, op.nn.pad(whole, ((before, n_fft - win_length - before),)))
    frames = op.nn.conv1d(op.expand_dims(op.cast(data, dtype), 1), weights, strides=hop_length)
    return op.transpose(op.reshape(frames, (0, 2, rows, -1)), (0, 2, 3, 1))
