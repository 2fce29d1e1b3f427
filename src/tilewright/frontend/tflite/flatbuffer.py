"""Reading FlatBuffers by a schema, with every offset checked against the file before it is followed.

A file is a position of its root table; a table a signed offset to its vtable, which holds one 16-bit offset a field;
strings, vectors and other tables are reached by unsigned 32-bit offsets (https://flatbuffers.dev/internals).
Vectors of numbers are views of the file. A table that several positions point to is read once, and the positions
together are fewer than the file has bytes, so no file makes more in memory than a small multiple of itself."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.tflite.schema import ENUMS, TABLES

_FORMATS = {
    "bool": "<?", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q",
    "f32": "<f", "f64": "<d",
}  # fmt: skip
_DTYPES = {name: np.dtype(spelling.replace("<b", "<i1").replace("<B", "<u1")) for name, spelling in _FORMATS.items()}


class _Field(NamedTuple):
    slot: int
    kind: str
    default: Any


class Record:
    """A table that was read: its fields as attributes, those that the file leaves out with their defaults."""

    def __init__(self, kind: str, values: dict[str, Any]) -> None:
        self.kind = kind
        self._values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"{self.kind} has no field {name}") from None


@cache
def _fields(table: str) -> dict[str, _Field]:
    """The fields of a table by name."""
    found: dict[str, _Field] = {}
    for slot, field in enumerate(TABLES.get(table, ())):
        if field != "-":
            name, kind = field.split(":")
            kind, _, default = kind.partition("=")
            found[name] = _Field(slot, kind, _default(kind, default))
    return found


def _default(kind: str, spelled: str) -> Any:
    if kind in _FORMATS:
        return _DTYPES[kind].type(spelled or 0).item()
    return "" if kind == "string" else None


def empty_record(kind: str) -> Record:
    """A table of `kind` all of whose fields have their defaults."""
    return Record(kind, {name: field.default for name, field in _fields(kind).items()})


class Reader:
    """Reads the tables of one file; `label` names it in errors."""

    def __init__(self, data: memoryview, label: str) -> None:
        self.data = data
        self.label = label
        self._read: dict[tuple[int, str], Record] = {}
        self._positions_left = len(data)

    def root(self, kind: str) -> Record:
        """The root table of the file."""
        return self._table(self._follow(0), kind)

    def _damaged(self, what: str) -> ModelError:
        return ModelError(f"{self.label} ({len(self.data)} bytes) is a truncated or damaged TFLite model: {what}")

    def _number(self, kind: str, at: int) -> Any:
        spelling = _FORMATS[kind]
        if not 0 <= at <= len(self.data) - struct.calcsize(spelling):
            raise self._damaged(f"it ends before byte {at}")
        return struct.unpack_from(spelling, self.data, at)[0]

    def _follow(self, at: int) -> int:
        """The position that the offset at `at` points to."""
        return int(at + self._number("u32", at))

    def _table(self, at: int, kind: str) -> Record:
        if (at, kind) in self._read:
            return self._read[at, kind]
        vtable = at - self._number("i32", at)
        size = self._number("u16", vtable)
        if size < 4 or size % 2 or vtable + size > len(self.data):
            raise self._damaged(f"the table of fields at byte {vtable} has {size} bytes")
        values: dict[str, Any] = {}
        for name, field in _fields(kind).items():
            slot = 4 + 2 * field.slot
            offset = self._number("u16", vtable + slot) if slot < size else 0
            values[name] = self._field(field, at + offset, values, name) if offset else field.default
        self._read[at, kind] = found = Record(kind, values)
        return found

    def _field(self, field: _Field, at: int, values: dict[str, Any], name: str) -> Any:
        kind = field.kind
        if kind in _FORMATS:
            return self._number(kind, at)
        if kind.startswith("["):
            return self._vector(self._follow(at), kind[1:-1])
        if kind.startswith("union/"):
            members, code = ENUMS[kind.removeprefix("union/")], values[f"{name}_type"]
            if not 0 < code < len(members):
                return None
            return self._table(self._follow(at), members[code])
        if kind == "string":
            return self._string(self._follow(at))
        return self._table(self._follow(at), kind)

    def _extent(self, at: int, size: int) -> tuple[int, int]:
        """The offset of the elements of a vector of `size` bytes each, and their number."""
        count = self._number("u32", at)
        if at + 4 + count * size > len(self.data):
            raise self._damaged(f"the {count} elements at byte {at + 4} reach beyond its end")
        return at + 4, count

    def _string(self, at: int) -> str:
        begin, count = self._extent(at, 1)
        return bytes(self.data[begin : begin + count]).decode("utf-8", "replace")

    def _vector(self, at: int, kind: str) -> Any:
        if kind in _DTYPES:
            begin, count = self._extent(at, _DTYPES[kind].itemsize)
            if kind == "bool":  # a byte that is neither 0 nor 1 is no bool of NumPy's
                return np.frombuffer(self.data, np.uint8, count, begin) != 0
            return np.frombuffer(self.data, _DTYPES[kind], count, begin)
        begin, count = self._extent(at, 4)
        self._positions_left -= count
        if self._positions_left < 0:
            raise self._damaged("its tables point to more offsets than it has bytes")
        read = self._string if kind == "string" else lambda position: self._table(position, kind)
        return [read(self._follow(begin + 4 * index)) for index in range(count)]
