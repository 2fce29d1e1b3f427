"""A checksum of weights that costs no more than reading them: it finds damage, it is no signature.

The 64-bit words of each megabyte are added up (modulo 2^64), and the sums hashed. Bytes between weights count as 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from tilewright.runtime.container import WeightPart

_BLOCK = 1 << 20


def weights_sum(parts: Iterable[WeightPart], nbytes: int) -> str:
    """The checksum, in hexadecimal digits, of a section of `nbytes` that has `parts` at offsets that 8 divides."""
    sums = [0] * -(-nbytes // _BLOCK)
    for offset, part in parts:
        data = np.frombuffer(part, np.uint8) if not isinstance(part, np.ndarray) else part.reshape(-1).view(np.uint8)
        for block in range(offset // _BLOCK, -(-(offset + data.size) // _BLOCK)):
            start, end = max(block * _BLOCK - offset, 0), min((block + 1) * _BLOCK - offset, data.size)
            sums[block] += _added(data[start:end])
    return hashlib.sha256(b"".join((total % 2**64).to_bytes(8, "little") for total in sums)).hexdigest()


def _added(data: np.ndarray) -> int:
    """The sum of the words of `data`, zeros behind its end."""
    whole = data.size // 8 * 8
    return int(data[:whole].view("<u8").sum(dtype=np.uint64)) + int.from_bytes(data[whole:].tobytes(), "little")
