"""NumPy references of `topi/nn/byte_layers.py`, and the packing of what its kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.topi.reference.byte_conv import windows

#: Roundings of a scaled sum, as TensorFlow Lite has them: twice, halves away from zero (where the second drops any);
#: once, halves up.
AWAY, ONCE = "away", "once"

#: Bytes and 32-bit numbers of a vector.
LANES, WORDS = 16, 4


def scaled(total: np.ndarray, m: np.ndarray, shift: np.ndarray, rounding: str) -> np.ndarray:
    """int32 sums times m / 2^(31 + shift), or m / 2^(32 + shift) where they are rounded `ONCE`."""
    product = total.astype(np.int64) * m
    high = product >> 32 if rounding == ONCE else (product + (1 << 30)) >> 31
    return (high - ((high < 0) & (shift > 0) & (rounding == AWAY)) + (1 << shift.astype(np.int64) >> 1)) >> shift


def packed_rows(weights: np.ndarray) -> np.ndarray:
    """int8 [O, K] as [O'/2, K'/16, 2, 16]: 16 bytes of each of two channels, filled up with zeros, O' to fours."""
    whole = np.pad(weights, ((0, -len(weights) % WORDS), (0, -weights.shape[1] % LANES)))
    return np.ascontiguousarray(whole.reshape(len(whole) // 2, 2, -1, LANES).transpose(0, 2, 1, 3))


def unpacked_rows(weights: np.ndarray) -> np.ndarray:
    """The weights [O', K'] of packed ones."""
    pairs, steps, two, lanes = weights.shape
    return weights.transpose(0, 2, 1, 3).reshape(pairs * two, steps * lanes)


def packed_taps(weights: np.ndarray) -> np.ndarray:
    """int8 [KH * KW, C] as [C'/16, KH * KW, 16], filled up with zeros; of 8 channels with the same ones again."""
    whole = np.pad(weights, ((0, 0), (0, -weights.shape[1] % LANES)))
    if 2 * weights.shape[1] == LANES:
        whole = np.tile(weights, 2)
    return np.ascontiguousarray(whole.reshape(len(whole), -1, LANES).transpose(1, 0, 2))


def packed_scale(bias: np.ndarray, m: np.ndarray, shift: np.ndarray, lanes: int) -> np.ndarray:
    """int32 [O'/lanes, 3, lanes] of numbers of channels, filled up, shifts counted to the left.

    16 lanes have the order in which depthwise kernels hold sums, every fourth one beside the other; those of 8 channels
    are there twice.
    """
    if lanes == 2 * len(bias):
        bias, m, shift = (np.tile(part, 2) for part in (bias, m, shift))
    rows = np.stack([np.pad(part, (0, -len(part) % lanes)) for part in (bias, m, -shift)])
    blocks = rows.reshape(3, -1, lanes)
    if lanes == LANES:
        blocks = blocks.reshape(3, -1, WORDS, WORDS).swapaxes(2, 3).reshape(blocks.shape)
    return np.ascontiguousarray(blocks.transpose(1, 0, 2)).astype(np.int32)


def unpacked_scale(scale: np.ndarray, channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bias, multipliers and shifts of packed ones."""
    lanes = scale.shape[2]
    blocks = scale.transpose(1, 0, 2)
    if lanes == LANES:
        blocks = blocks.reshape(3, -1, WORDS, WORDS).swapaxes(2, 3)
    bias, m, left = blocks.reshape(3, -1)[:, :channels]
    return bias, m, -left


def conv2d_scaled(data: np.ndarray, weight: np.ndarray, scale: np.ndarray, attrs: Any) -> np.ndarray:
    """`topi.nn.byte_layers.conv2d_scaled`."""
    bias, m, shift = unpacked_scale(scale, attrs["channels"])
    return _finished(conv2d_sums(data, weight, bias, attrs), m, shift, attrs)


def conv2d_sums(data: np.ndarray, weight: np.ndarray, bias: np.ndarray, attrs: Any) -> np.ndarray:
    """`topi.nn.byte_layers.conv2d_sums`."""
    (kh, kw), channels, count = attrs["kernel_size"], attrs["channels"], data.shape[3]
    taps = unpacked_rows(weight)[:channels, : kh * kw * count].reshape(channels, kh, kw, count).astype(np.int32)
    total: np.ndarray = np.einsum("nyxchw,ohwc->nyxo", windows(data, (kh, kw), attrs).astype(np.int32), taps)
    return total + bias[:channels]


def depthwise_scaled(data: np.ndarray, weight: np.ndarray, scale: np.ndarray, attrs: Any) -> np.ndarray:
    """`topi.nn.byte_layers.depthwise_scaled`."""
    channels = data.shape[3]
    taken = windows(data, attrs["kernel_size"], attrs).astype(np.int32)
    taps = weight.transpose(1, 0, 2).reshape(*attrs["kernel_size"], -1)[..., :channels].astype(np.int32)
    bias, m, shift = unpacked_scale(scale, channels)
    return _finished(np.einsum("nyxchw,hwc->nyxc", taken, taps) + bias, m, shift, attrs)


def add_scaled(a: np.ndarray, b: np.ndarray, attrs: Any) -> np.ndarray:
    """`topi.nn.byte_layers.add_scaled`."""
    parts = []
    for value, (zero, left, m, shift) in zip((a, b), (attrs["first"], attrs["second"]), strict=True):
        wide = (value.astype(np.int32) - zero) << left
        parts.append(scaled(wide, np.asarray(m), np.asarray(shift), AWAY))
    return _finished(sum(parts), np.asarray(attrs["m"]), np.asarray(attrs["shift"]), attrs)


def _finished(total: Any, m: np.ndarray, shift: np.ndarray, attrs: Any) -> np.ndarray:
    value = scaled(total, m, shift, attrs["rounding"]) + attrs["zero"]
    return value.clip(attrs["low"], attrs["high"]).astype(np.int8)
