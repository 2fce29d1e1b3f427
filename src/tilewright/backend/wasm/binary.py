"""Bytes of WebAssembly: a reader that checks bounds, and the numbers and vectors that a module is written of.

Source: the WebAssembly specification 2.0, section 5 (binary format).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tilewright.errors import ArtifactError

T = TypeVar("T")

MAGIC = b"\0asm\x01\0\0\0"
_PADDED = 5  # bytes of a number of 32 bits that a linker may write again


class Reader:
    """A position within `data`, up to `end`. Every method raises `ArtifactError` beyond it."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self.data, self.position, self.end = data, start, len(data) if end is None else end

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start = self.position
        if count > self.end - start:
            raise damaged(f"it ends within {count} bytes at {start}")
        self.position = start + count
        return self.data[start : self.position]

    def byte(self) -> int:
        """The next byte."""
        return self.take(1)[0]

    def number(self) -> int:
        """An unsigned number of at most 32 bits (LEB128)."""
        value = 0
        for shift in range(0, 35, 7):
            part = self.byte()
            value |= (part & 127) << shift
            if not part & 128:
                if value >> 32:
                    break
                return value
        raise damaged(f"a number before byte {self.position} has more than 32 bits")

    def signed(self) -> int:
        """A signed number of at most 64 bits (LEB128)."""
        value = 0
        for shift in range(0, 70, 7):
            part = self.byte()
            value |= (part & 127) << shift
            if not part & 128:
                return value - (1 << shift + 7) if part & 64 else value
        raise damaged(f"a number before byte {self.position} has more than 64 bits")

    def text(self) -> str:
        """A name: its length and UTF-8."""
        try:
            return self.take(self.number()).decode()
        except UnicodeDecodeError:
            raise damaged(f"a name before byte {self.position} is no text") from None

    def vector(self, element: Callable[[Reader], T]) -> list[T]:
        """A count and as many elements, each read by `element`."""
        count = self.number()
        if count > self.end - self.position:  # an element has a byte at least
            raise damaged(f"it announces {count} elements at byte {self.position}")
        return [element(self) for _ in range(count)]

    def part(self) -> Reader:
        """A reader of the next bytes, whose number stands before them."""
        size = self.number()
        start = self.position
        self.take(size)
        return Reader(self.data, start, start + size)

    @property
    def more(self) -> bool:
        """True before the end."""
        return self.position < self.end


def damaged(why: str) -> ArtifactError:
    """The error for an object that is no object."""
    return ArtifactError(f"the WebAssembly object is damaged: {why}. Compile the model again")


def number(value: int) -> bytes:
    """`value`, which is not negative, in LEB128."""
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def signed(value: int) -> bytes:
    """`value` in signed LEB128."""
    made = bytearray()
    while not -64 <= value < 64:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value & 127])


def padded(value: int) -> bytes:
    """An unsigned or signed number of 32 bits in the five bytes that a relocation fills."""
    rest = [(value >> 7 * i) & 127 for i in range(_PADDED)]
    return bytes([*(part | 128 for part in rest[:-1]), rest[-1]])


def text(value: str) -> bytes:
    """A name: its length and UTF-8."""
    data = value.encode()
    return number(len(data)) + data


def vector(parts: Sequence[bytes]) -> bytes:
    """A count and its elements."""
    return number(len(parts)) + b"".join(parts)


def section(kind: int, parts: Iterable[bytes]) -> bytes:
    """A section of a module."""
    body = b"".join(parts)
    return bytes([kind]) + number(len(body)) + body


def custom(name: str, body: bytes) -> bytes:
    """A section that a machine ignores."""
    return section(0, [text(name), body])
