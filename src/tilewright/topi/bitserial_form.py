"""Forms of products of few bits: methods, how weights are packed, what sums fit (`nn/bitserial.py` computes them)."""

from __future__ import annotations

from dataclasses import dataclass

#: Channels of a byte of weights, and of a nibble, which a table serves.
BYTE, NIBBLE = 8, 4

#: Tables that are made at a time.
GROUPS = 4

#: Bits of a digit of the data of `lookup`: the sum of four fits a byte.
DIGIT = 4

#: Bits of a word of `popcount`.
WORD = 32

#: The most bits of data and of weights.
DATA_BITS, WEIGHT_BITS = 8, 4

POPCOUNT, POPCOUNT_BYTES, LOOKUP = "popcount", "popcount_bytes", "lookup"
METHODS = (POPCOUNT, POPCOUNT_BYTES, LOOKUP)


@dataclass(frozen=True)
class BitSerial:
    """The form of a product of few bits; `units` are the output channels that count, the rest of a panel is 0."""

    method: str
    units: int
    data_bits: int
    scale: int = 1
    offset: int = 0


def steps_of_chunk(channels: int, data_bits: int, method: str) -> int:
    """The bytes of eight channels whose sums fit a byte: all of `channels`, or an equal part of a few more.

    Of lookups all parts together have an even number, whose tables are made at a time.
    """
    largest = BYTE if method == POPCOUNT_BYTES else BYTE * ((1 << min(data_bits, DIGIT)) - 1)
    steps, most = -(-channels // BYTE), 255 // largest
    chunks = -(-steps // most)
    if method == LOOKUP and chunks % 2 and -(-steps // chunks) % 2:
        chunks += -(-steps // chunks) == most
        return -(-steps // chunks) + chunks % 2
    return -(-steps // chunks)


def padded_channels(channels: int, data_bits: int, method: str) -> int:
    """`channels` and those of zeros that fill words, chunks or groups of tables."""
    if method == POPCOUNT:
        return -(-channels // WORD) * WORD
    steps = steps_of_chunk(channels, data_bits, method)
    return -(-channels // (BYTE * steps)) * BYTE * steps


def parts_of_sum(terms: int, data_bits: int) -> int:
    """Bytes of a word that holds the sum of so many digits of data of few bits: 2 or 4."""
    return 2 if terms * ((1 << min(data_bits, DIGIT)) - 1) < 1 << 16 else 4
