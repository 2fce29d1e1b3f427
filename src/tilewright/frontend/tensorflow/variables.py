"""The variables of a SavedModel: an index, which is a sorted string table, and files of numbers.

The table is LevelDB's: a footer names the block of the index, whose entries name blocks of keys and values; a key
shares its beginning with the one before. Every position is compared with the file before it is followed.
https://github.com/google/leveldb/blob/main/doc/table_format.md
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.messages import Record
from tilewright.frontend.source import Source
from tilewright.frontend.tensorflow.schema import SCHEMA, STRING, described, type_name
from tilewright.frontend.tensorflow.tensors import from_bytes, shape_of_proto
from tilewright.frontend.wire import read_message, varint
from tilewright.support.dtype import DType

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
#: Keys of one table at most, and what all of them take together.
_MOST_KEYS, _MOST_KEY_BYTES = 1 << 20, 1 << 28


class Variables:
    """The arrays of a bundle by key, read when they are used."""

    def __init__(self, folder: Path, prefix: str = "variables") -> None:
        self._folder, self._prefix = folder, prefix
        index = folder / f"{prefix}.index"
        self._entries: dict[str, Record] = {}
        self._shards = 1
        self._files: dict[int, memoryview] = {}
        if index.is_file():
            self._read_index(Source.of(index))

    @property
    def keys(self) -> list[str]:
        """All keys, sorted."""
        return sorted(self._entries)

    def _read_index(self, source: Source) -> None:
        label = source.label
        for key, value in _entries(source.contents, label):
            if not key:
                header = read_message(value, SCHEMA, "BundleHeaderProto", label, "a table of variables")
                if header.endianness:
                    raise UnsupportedError(f"{label}: numbers with their highest byte first")
                self._shards = int(header.num_shards)
                continue
            name = key.decode("utf-8", "replace")
            self._entries[name] = read_message(value, SCHEMA, "BundleEntryProto", label, "a table of variables")

    def array(self, key: str) -> np.ndarray:
        """The variable under `key`. Raises `ModelError` where the files do not have it."""
        label = f"{self._folder / self._prefix}: {key!r}"
        entry = self._entries.get(key)
        if entry is None:
            raise ModelError(f"{label} is not in the table of variables")
        if entry.slices:
            raise UnsupportedError(f"{label} is cut in slices, which is not supported")
        name, shape = type_name(entry.dtype), shape_of_proto(entry.shape)
        if name is None:
            raise UnsupportedError(f"{label} holds {described(entry.dtype)}, which is not supported")
        if shape is None or min(shape, default=0) < 0:
            raise ModelError(f"{label} has the shape {shape}")
        kind = DType(name).numpy
        data = self._file(int(entry.shard_id))
        begin, size = int(entry.offset), int(entry.size)
        if begin < 0 or size != math.prod(shape) * kind.itemsize or begin + size > len(data):
            raise ModelError(f"{label}: {size} bytes at byte {begin} of {len(data)}, for {name} of shape {list(shape)}")
        return from_bytes(data[begin : begin + size], kind, shape, label)

    def is_numbers(self, key: str) -> bool:
        """True if there is an array under `key`."""
        return key in self._entries and self._entries[key].dtype != STRING

    def _file(self, shard: int) -> memoryview:
        if not 0 <= shard < self._shards <= 1 << 16:
            raise ModelError(f"{self._folder / self._prefix}: the file {shard} of {self._shards}")
        if shard not in self._files:
            path = self._folder / f"{self._prefix}.data-{shard:05d}-of-{self._shards:05d}"
            self._files[shard] = Source.of(path).contents
        return self._files[shard]


def _entries(data: memoryview, label: str) -> Iterator[tuple[bytes, memoryview]]:
    """The keys and values of a table in order. Raises `ModelError` for an invalid table."""
    if len(data) < _FOOTER or struct.unpack_from("<Q", data, len(data) - 8)[0] != _MAGIC:
        raise ModelError(f"{label} ({len(data)} bytes) is no table of variables")
    try:
        footer = data[len(data) - _FOOTER :]
        _, at = _handle(footer, 0)
        index, _ = _handle(footer, at)
        keys = size = 0
        for _, position in _block(data, index):
            handle, _ = _handle(position, 0)
            for key, value in _block(data, handle):
                keys, size = keys + 1, size + len(key)
                if keys > _MOST_KEYS or size > _MOST_KEY_BYTES:
                    raise ValueError(f"more than {_MOST_KEYS} keys, or longer ones than {_MOST_KEY_BYTES} bytes")
                yield key, value
    except (ValueError, struct.error) as error:
        raise ModelError(f"{label} ({len(data)} bytes) is a damaged table of variables: {error}") from None


def _block(data: memoryview, handle: tuple[int, int]) -> Iterator[tuple[bytes, memoryview]]:
    offset, size = handle
    if offset + size + 5 > len(data):
        raise ValueError(f"a block of {size} bytes at byte {offset}")
    if data[offset + size]:
        raise ValueError("a compressed block")
    block = data[offset : offset + size]
    if size < 4:
        raise ValueError(f"a block of {size} bytes")
    end = size - 4 - 4 * struct.unpack_from("<I", block, size - 4)[0]
    if end < 0:
        raise ValueError("more restarts than the block has room for")
    at, key = 0, b""
    while at < end:
        shared, at = varint(block, at)
        fresh, at = varint(block, at)
        length, at = varint(block, at)
        if shared > len(key) or at + fresh + length > end:
            raise ValueError("an entry that reaches beyond its block")
        key = key[:shared] + bytes(block[at : at + fresh])
        yield key, block[at + fresh : at + fresh + length]
        at += fresh + length


def _handle(data: memoryview, at: int) -> tuple[tuple[int, int], int]:
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at
