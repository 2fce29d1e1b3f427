"""NumPy references of `topi/nn/byte_conv.py`, and the packing of weights that its kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Forms of weights: bytes, pairs whose sums fit 24 bits, pairs.
BYTES, PAIRS, WIDE_PAIRS = "bytes", "pairs", "wide_pairs"

#: Bytes of a word of pairs; the bits by which sums of `PAIRS` stand too high.
WORD, SCALE = 4, 8


def packed(weights: np.ndarray, block: int, form: str) -> np.ndarray:
    """int8 [O, KH, row] as [O/b, KH * row, b], or of a form of pairs as words [O/b, KH * row/4, b] of int32."""
    channels, kh, row = weights.shape
    values = weights.astype(np.int16)
    if form != BYTES:
        values = np.pad(values, ((0, 0), (0, 0), (0, -row % WORD))).reshape(channels, kh, -1, WORD)
        if form == PAIRS:
            values[..., 1::2] -= values[..., ::2] < 0
        values = np.ascontiguousarray(values.astype(np.int8)).view("<i4")[..., 0]
    blocked = values.reshape(channels // block, block, -1).transpose(0, 2, 1)
    return np.ascontiguousarray(blocked.astype(np.int8 if form == BYTES else np.int32))


def unpacked(weights: np.ndarray, form: str) -> np.ndarray:
    """The weights [O, KH * row] of packed ones; rows of words have zeros at their end."""
    blocks, terms, block = weights.shape
    plain = np.ascontiguousarray(weights.transpose(0, 2, 1).reshape(blocks * block, terms))
    if form == BYTES:
        return plain
    values = plain.astype("<i4").view(np.int8).reshape(blocks * block, terms * WORD).astype(np.int16)
    if form == PAIRS:
        values[..., 1::2] += values[..., ::2] < 0
    return values


def packed_bias(weights: np.ndarray, bias: np.ndarray, form: str) -> np.ndarray:
    """A bias int64 [O] as the kernel adds it to sums with `weights` [O, KH, row]."""
    if form == PAIRS:
        first = np.pad(weights.astype(np.int64), ((0, 0), (0, 0), (0, -weights.shape[2] % WORD)))[..., ::2]
        bias = (bias << SCALE) - 127 * first.sum(axis=(1, 2))
    return bias.astype(np.int32)


def unpacked_bias(weights: np.ndarray, bias: np.ndarray, form: str) -> np.ndarray:
    """The bias that `packed_bias` was made of, int64."""
    if form != PAIRS:
        return bias.astype(np.int64)
    return (bias.astype(np.int64) + 127 * weights[..., ::2].astype(np.int64).sum(axis=1)) >> SCALE


def conv2d_bytes(data: np.ndarray, weight: np.ndarray, bias: np.ndarray, attrs: Any) -> np.ndarray:
    """`topi.nn.byte_conv.conv2d_bytes` of packed weights."""
    (kh, kw), channels = attrs["kernel_size"], data.shape[3]
    plain = unpacked(weight, attrs["form"])
    taps = plain.reshape(len(plain), kh, -1)[:, :, : kw * channels].reshape(-1, kh, kw, channels)
    taken = windows(data, (kh, kw), attrs)
    total = np.einsum("nyxchw,ohwc->nyxo", taken.astype(np.int32), taps.astype(np.int32))
    return (total + unpacked_bias(plain, bias, attrs["form"])).astype(np.int32)


def dense_bytes(data: np.ndarray, weight: np.ndarray, bias: np.ndarray, form: str) -> np.ndarray:
    """`topi.nn.byte_conv.dense_bytes` of packed weights."""
    plain = unpacked(weight, form)
    taps = plain[:, : data.shape[1]].astype(np.int32)
    return (data.astype(np.int32) @ taps.T + unpacked_bias(plain, bias, form)).astype(np.int32)


def depthwise_bytes(data: np.ndarray, weight: np.ndarray, bias: np.ndarray, attrs: Any) -> np.ndarray:
    """`topi.nn.byte_conv.depthwise_conv2d_bytes`."""
    taken = windows(data, weight.shape[:2], attrs).astype(np.int32)
    return np.einsum("nyxchw,hwc->nyxc", taken, weight.astype(np.int32)) + bias


def windows(data: np.ndarray, kernel: tuple[int, int], attrs: Any) -> np.ndarray:
    """The windows [N, OH, OW, C, KH, KW] of padded images."""
    top, left, bottom, right = attrs["padding"]
    around = ((0, 0), (top, bottom), (left, right), (0, 0))
    image = np.pad(data, around, constant_values=attrs["pad_value"])
    views = np.lib.stride_tricks.sliding_window_view(image, kernel, axis=(1, 2))
    return views[:, :: attrs["strides"][0], :: attrs["strides"][1]]


def fixed_point(data: np.ndarray, m: np.ndarray, added: np.ndarray, exponent: np.ndarray, attrs: Any) -> np.ndarray:
    """`relay.op.nn.byte_conv.contrib_fixed_point`."""
    high = (data.astype(np.int64) * m + (1 << 30)) >> 31
    taken = attrs["away"] & (high < 0) & ((exponent > 0) | (not attrs["whole"]))
    return ((high + added - taken) >> exponent).astype(np.int32)
