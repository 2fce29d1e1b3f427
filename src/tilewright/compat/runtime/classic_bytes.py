"""Texts, lists and arrays as the classic stack's binary files hold them, little-endian.

A text is u64 length and bytes, a list u64 count and items, an array what `support/array_format.py` says.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.compat.runtime.array import NDArray, array
from tilewright.errors import ArtifactError
from tilewright.support.array_format import read_array


def text(words: str) -> bytes:
    """A text as bytes."""
    data = words.encode()
    return struct.pack("<Q", len(data)) + data


def number(value: int) -> bytes:
    """An i64 as bytes."""
    return struct.pack("<q", value)


def items(values: Sequence[Any], write: Callable[[Any], bytes]) -> bytes:
    """A list as bytes."""
    return struct.pack("<Q", len(values)) + b"".join([write(value) for value in values])


class Reader:
    """Reads values from byte `at` on. Raises `struct.error` or `ArtifactError` beyond the end."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, code: str) -> int:
        """The next number, its kind as `struct` spells it."""
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return int(value)

    def text(self) -> str:
        """The next text."""
        length = self.take("Q")
        if self.at + length > len(self.data):
            raise ArtifactError("a text goes beyond its end")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def number(self) -> int:
        """The next i64."""
        return self.take("q")

    def list(self, read: Callable[[], Any]) -> list[Any]:
        """The next list, of items that take eight bytes at least."""
        count = self.take("Q")
        if count > (len(self.data) - self.at) // 8:
            raise ArtifactError("a list goes beyond its end")
        return [read() for _ in range(count)]

    def array(self) -> NDArray:
        """The next array."""
        value, self.at = read_array(self.data, self.at)
        return array(value)
