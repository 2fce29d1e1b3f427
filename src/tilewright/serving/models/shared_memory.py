"""Shared memory of local clients: regions by name, read and written as files, so that one cut short does no harm."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.serving.models.errors import RequestError

#: Regions that clients may have registered at a time: each keeps a file open.
MOST_REGIONS = 256


@dataclass(frozen=True)
class Region:
    """Bytes of a POSIX shared memory object, open as a file."""

    name: str
    key: str
    offset: int
    byte_size: int
    descriptor: int

    def to_json(self) -> dict[str, Any]:
        """As the protocol's status has it."""
        return {"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.byte_size}


class SharedMemory:
    """The regions that clients registered. A mapping would end the server where its owner cuts the file short."""

    def __init__(self, folder: Path = Path("/dev/shm")) -> None:
        self._folder = folder
        self._regions: dict[str, Region] = {}

    def register(self, name: str, key: Any, offset: Any, byte_size: Any) -> None:
        """Register a region. Raises `RequestError` for a key that is none, sizes that do not fit, a known name."""
        if name in self._regions:
            raise RequestError(f"shared memory region {name!r} already in manager")
        if len(self._regions) >= MOST_REGIONS:
            raise RequestError(f"there are {MOST_REGIONS} shared memory regions; unregister one", 503)
        sizes = (offset, byte_size)
        if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in sizes) or not byte_size:
            raise RequestError(f"shared memory region {name!r}: offset and byte_size are bytes, not {sizes}")
        plain = key.removeprefix("/") if isinstance(key, str) else ""
        if not plain or "/" in plain or "\0" in plain or plain in (".", ".."):
            raise RequestError(f"shared memory region {name!r}: {key!r} is no name of shared memory")
        descriptor = self._open(name, plain, offset + byte_size)
        self._regions[name] = Region(name, key, offset, byte_size, descriptor)

    def unregister(self, name: str = "") -> None:
        """Forget a region, or all without a name."""
        for one in [name] if name else list(self._regions):
            region = self._regions.pop(one, None)
            if region is not None:
                os.close(region.descriptor)

    def status(self, name: str = "") -> list[dict[str, Any]]:
        """The region of a name, or all. Raises `RequestError` where there is none of it."""
        if name and name not in self._regions:
            raise RequestError(f"unable to find system shared memory region {name!r}", 404)
        return [region.to_json() for region in self._regions.values() if name in ("", region.name)]

    def read(self, name: str, offset: int, byte_size: int, tensor: str) -> memoryview:
        """A copy of bytes of a region, from an offset in it. Raises `RequestError` where it has not so many."""
        region = self._span(name, offset, byte_size, tensor)
        data = bytearray(byte_size)
        if os.preadv(region.descriptor, [data], region.offset + offset) != byte_size:
            raise RequestError(f"{tensor!r}: shared memory region {name!r} was cut short")
        return memoryview(data)

    def write(self, name: str, offset: int, byte_size: int, data: Any, tensor: str) -> None:
        """Write a tensor of at most `byte_size` bytes. Raises `RequestError` where it does not fit."""
        region = self._span(name, offset, byte_size, tensor)
        if len(data) > byte_size:
            raise RequestError(f"output {tensor!r} has {len(data)} bytes, and its shared memory {byte_size}")
        if os.fstat(region.descriptor).st_size < region.offset + offset + len(data):
            raise RequestError(f"{tensor!r}: shared memory region {name!r} was cut short")
        os.pwrite(region.descriptor, data, region.offset + offset)

    def _span(self, name: str, offset: int, byte_size: int, tensor: str) -> Region:
        region = self._regions.get(name)
        if region is None:
            raise RequestError(f"{tensor!r}: unable to find shared memory region {name!r}")
        whole = all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in (offset, byte_size))
        if not whole or offset + byte_size > region.byte_size:
            raise RequestError(
                f"{tensor!r}: bytes {offset} to {offset}+{byte_size} are not all in shared memory region {name!r}, "
                f"which has {region.byte_size}"
            )
        return region

    def _open(self, name: str, plain: str, end: int) -> int:
        try:
            descriptor = os.open(self._folder / plain, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise RequestError(f"unable to open shared memory region {name!r}: {error}") from None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size < end:
            os.close(descriptor)
            raise RequestError(f"shared memory region {name!r} ends at byte {end}, and the object has {found.st_size}")
        return descriptor
