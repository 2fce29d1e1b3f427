"""Frames of the serial protocol of `serial.c`, as bytes: COBS (Cheshire and Baker, 1999), a length and CRC-32."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

#: Length of the body, number, kind; and the check sum behind the body.
_HEAD, _SUM = struct.Struct("<HHB"), struct.Struct("<I")


class Frame(NamedTuple):
    """A request or an answer."""

    number: int
    kind: str
    body: bytes

    def to_bytes(self) -> bytes:
        """The frame between zero bytes, the first of which ends what noise has left."""
        text = _HEAD.pack(len(self.body), self.number, ord(self.kind)) + self.body
        return b"\0" + _stuffed(text + _SUM.pack(zlib.crc32(text))) + b"\0"

    @staticmethod
    def of(data: bytes) -> Frame | None:
        """The frame that stood between two zero bytes; None for what is not whole."""
        text = _unstuffed(data)
        if text is None or len(text) < _HEAD.size + _SUM.size:
            return None
        text, (check,) = text[: -_SUM.size], _SUM.unpack(text[-_SUM.size :])
        length, number, kind = _HEAD.unpack_from(text)
        if length != len(text) - _HEAD.size or check != zlib.crc32(text):
            return None
        return Frame(number, chr(kind), text[_HEAD.size :])


def _stuffed(data: bytes) -> bytes:
    """Bytes without a zero: each run of up to 254 others behind its length, the zero after it left out."""
    parts = []
    for run in data.split(b"\0"):
        while len(run) >= 254:
            parts.append(b"\xff" + run[:254])
            run = run[254:]
        parts.append(bytes([len(run) + 1]) + run)
    return b"".join(parts)


def _unstuffed(data: bytes) -> bytes | None:
    """The bytes that `_stuffed` was made of; None where it was not."""
    parts, start = [], 0
    while start < len(data):
        end = start + data[start]
        if data[start] == 0 or end > len(data):
            return None
        parts.append(data[start + 1 : end])
        if data[start] != 255 and end < len(data):
            parts.append(b"\0")
        start = end
    return b"".join(parts)
