"""Products of few bits in NumPy, and the packing of their weights (`topi/nn/bitserial.py`)."""

from __future__ import annotations

import numpy as np

from tilewright.topi.bitserial_form import BYTE, POPCOUNT, WORD, parts_of_sum, steps_of_chunk


def pack_weight(weight: np.ndarray, bits: int, data_bits: int, method: str, lanes: int) -> np.ndarray:
    """The packed planes of weights [O, KH, KW, C], whose lowest `bits` count, in panels of `lanes` output channels.

    Words are [O/L, KH, KW, words, planes, L], bytes [O/L, KH, KW, chunks, steps, planes, L/h, h], with zeros behind the
    last channel of either kind. h is 2 where sums of 16 bits hold the largest result, else 4.
    """
    units, kh, kw, channels = weight.shape
    word = WORD if method == POPCOUNT else BYTE
    words = -(-channels // word)
    if method != POPCOUNT:
        steps = steps_of_chunk(channels, data_bits, method)
        words = -(-words // steps) * steps
    filled = np.pad(weight, ((0, -units % lanes), (0, 0), (0, 0), (0, words * word - channels)))
    planes = [np.packbits((filled >> bit & 1).astype(bool), axis=-1, bitorder="little") for bit in range(bits)]
    joined = np.ascontiguousarray(np.stack(planes, axis=3))  # a stack of transposed weights is transposed, too
    values = joined.view(f"<u{word // BYTE}").reshape(-1, lanes, kh, kw, bits, words)
    packed = values.astype(f"uint{word}").transpose(0, 2, 3, 5, 4, 1)
    if method == POPCOUNT:
        return np.ascontiguousarray(packed)
    split = parts_of_sum(kh * kw * words * BYTE, data_bits)
    chunks = packed.reshape(len(packed), kh, kw, words // steps, steps, bits, split, lanes // split)
    return np.ascontiguousarray(chunks.swapaxes(-1, -2))


def unpack_weight(packed: np.ndarray, units: int, channels: int) -> np.ndarray:
    """The weights [O, KH, KW, C] as numbers whose bits are the planes of what `pack_weight` made."""
    if packed.ndim == 6:
        word, values = WORD, packed
    else:
        panels, kh, kw, chunks, steps, bits, inner, split = packed.shape
        word, values = BYTE, packed.swapaxes(-1, -2).reshape(panels, kh, kw, chunks * steps, bits, split * inner)
    panels, kh, kw, words, bits, lanes = values.shape
    ones = values[..., None] >> np.arange(word, dtype=values.dtype) & 1
    numbers = (ones.astype(np.int32) << np.arange(bits)[:, None, None]).sum(axis=4)  # [panels, kh, kw, words, L, word]
    whole = numbers.transpose(0, 4, 1, 2, 3, 5).reshape(panels * lanes, kh, kw, words * word)
    return whole[:units, ..., :channels].astype(np.int32)
