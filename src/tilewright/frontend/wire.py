"""Reading protocol buffers by a schema, with every length checked against the file before it is followed.

    model = read_message(memoryview, SCHEMA, "NetParameter", label="net.caffemodel", what="a Caffe model")

Large data stays where it is: `bytes` fields and packed floats are views of the file. The messages within a message are
read when they are first looked at, and refused then where they are damaged: of a file with many functions those that
nobody calls cost nothing. Every message and every number that is not packed takes a unit of a budget, so that what a
file makes in memory is bounded.
Wire format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.messages import Field, Record, Schema

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
#: Added to the wire type of a run of numbers that are not packed: each with the tag of the first, one after another.
_RUN = 8

#: Messages within messages, as protocol buffers themselves limit them.
_MOST_DEPTH = 100
#: Messages and unpacked values of one file at most: some hundred bytes of memory each.
_MOST_VALUES = 2_000_000

_FIXED: dict[str, np.dtype[Any]] = {
    "float": np.dtype("<f4"), "double": np.dtype("<f8"), "fixed32": np.dtype("<u4"), "fixed64": np.dtype("<u8"),
    "sfixed32": np.dtype("<i4"), "sfixed64": np.dtype("<i8"),
}  # fmt: skip


def read_message(data: memoryview | bytes, schema: Schema, kind: str, label: str, what: str) -> Record:
    """The message of `kind` that `data` is. Raises `ModelError`: `label` is a truncated or damaged `what`.

    So does a field of a message within it, when it is first read.
    """
    whole = _Reader(memoryview(data), schema, label, what).message(memoryview(data), kind, 0)
    whole.given()
    return whole


def looks_like(data: memoryview, schema: Schema, kind: str, most: int = 64) -> set[str] | None:
    """The names of the first fields of a message of `kind`, for telling formats apart; never raises.

    None where a field is unknown, of another wire type, or unsound, before `data` ends or `most` were seen. `data` may
    be the beginning of a file, which then ends within its last field.
    """
    seen: set[str] = set()
    try:
        for count, (number, wire, _, _) in enumerate(_fields(data, whole=False)):
            field = schema.numbers(kind).get(number)
            if field is None or wire % _RUN not in (_wire_type(field), BYTES if field.repeated else _wire_type(field)):
                return None
            seen.add(field.name)
            if count + 1 >= most:
                break
    except ValueError:
        return None
    return seen


def first_fields(data: memoryview, most: int = 4) -> list[tuple[int, int, int]]:
    """(number, begin, end) of the first fields, as far as they are sound; for telling formats apart; never raises."""
    found: list[tuple[int, int, int]] = []
    try:
        for number, _, start, end in _fields(data, whole=False):
            found.append((number, start, min(end, len(data))))
            if len(found) == most:
                break
    except ValueError:
        pass
    return found


def _wire_type(field: Field) -> int:
    if field.is_message or field.kind in ("string", "bytes"):
        return BYTES
    if field.kind in _FIXED:
        return FIXED64 if _FIXED[field.kind].itemsize == 8 else FIXED32
    return VARINT


def field_at(data: memoryview, position: int) -> tuple[int, int, int, int]:
    """(number, wire type, begin of the payload, end, perhaps behind the data) of the field whose tag is at `position`.

    Raises `ValueError` where it is not sound.
    """
    begin = position
    key, position = varint(data, position)
    number, wire, start = key >> 3, key & 7, position
    if wire == VARINT:
        _, position = varint(data, position)
    elif wire == BYTES:
        length, start = varint(data, position)
        position = start + length
    elif wire in (FIXED64, FIXED32):
        position += 8 if wire == FIXED64 else 4
    else:
        raise ValueError(f"wire type {wire} at byte {begin}")
    return number, wire, start, position


def _fields(data: memoryview, whole: bool = True) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, begin of the payload, end) of each field. Raises `ValueError` where that is not sound.

    Of a run of numbers of fixed width it is (number, wire type + `_RUN`, begin of the first tag, end).
    """
    position, size = 0, len(data)
    while position < size:
        begin = position
        number, wire, start, position = field_at(data, begin)
        if wire in (FIXED64, FIXED32) and data[position : position + start - begin] == data[begin:start]:
            position = _end_of_run(data, begin, start - begin, position - begin)
            yield number, wire + _RUN, begin, position
            continue
        if number == 0 or (position > size and whole):
            raise ValueError(f"the field {number} at byte {begin} reaches byte {position} of {size}")
        yield number, wire, start, position


def _end_of_run(data: memoryview, begin: int, tag: int, stride: int) -> int:
    """The end of the numbers that begin at `begin`, `stride` bytes each, of which the first `tag` are the same."""
    count = (len(data) - begin) // stride
    rows = np.frombuffer(data, np.uint8, count * stride, begin).reshape(count, stride)[:, :tag]
    other = np.flatnonzero((rows != rows[0]).any(axis=1))
    return begin + stride * (int(other[0]) if len(other) else count)


def _run_values(data: memoryview, dtype: np.dtype[Any]) -> np.ndarray:
    """The numbers of a run."""
    _, tag = varint(data, 0)
    rows = np.frombuffer(data, np.uint8).reshape(-1, tag + dtype.itemsize)
    return np.ascontiguousarray(rows[:, tag:]).view(dtype).reshape(-1)


def varint(data: memoryview, position: int) -> tuple[int, int]:
    """The number at `position`, of seven bits a byte, and its end. Raises `ValueError` where it does not end."""
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise ValueError(f"an unfinished number at byte {position}")


class _Reader:
    """Reads the messages of one file."""

    def __init__(self, data: memoryview, schema: Schema, label: str, what: str) -> None:
        self._schema = schema
        self._damaged = f"{label} ({len(data)} bytes) is a truncated or damaged {what.split(' ', 1)[-1]}"
        self._left = _MOST_VALUES

    def message(self, data: memoryview, kind: str, depth: int) -> Record:
        """The message of `kind` that `data` is, not read yet."""
        self._spend(kind)
        return Record(self._schema, kind, partial(self._values, data, kind, depth))

    def _values(self, data: memoryview, kind: str, depth: int) -> dict[str, Any]:
        """The fields of a message."""
        if depth > _MOST_DEPTH:
            raise self._error(kind, f"messages within messages more than {_MOST_DEPTH} deep")
        known = self._schema.numbers(kind)
        values: dict[str, Any] = {}
        pieces: dict[str, list[memoryview]] = {}
        try:
            for number, wire, start, end in _fields(data):
                field = known.get(number)
                if field is None:
                    continue
                if field.is_message and not field.repeated and not field.kind.startswith("map/"):
                    _expect(field, wire, BYTES)
                    pieces.setdefault(field.name, []).append(data[start:end])
                else:
                    self._add(values, field, wire, data[start:end], depth)
        except ValueError as error:
            raise self._error(kind, str(error)) from None
        for name, parts in pieces.items():  # a message given in pieces is all of them, one behind the other
            whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
            values[name] = self.message(whole, self._schema.fields(kind)[name].kind, depth + 1)
        for name, value in values.items():
            if isinstance(value, _Chunks):
                values[name] = value.joined()
        return values

    def _add(self, values: dict[str, Any], field: Field, wire: int, data: memoryview, depth: int) -> None:
        if wire >= _RUN:
            _expect(field, wire - _RUN, _wire_type(field))
            numbers = _run_values(data, _FIXED[field.kind])
            if field.repeated:
                values.setdefault(field.name, _Chunks(self._schema, field.kind)).add(numbers)
            else:
                values[field.name] = numbers[-1].item()
        elif field.kind.startswith("map/"):
            _expect(field, wire, BYTES)
            entry = self.message(data, field.kind, depth + 1)
            values.setdefault(field.name, {})[entry.key] = entry.value
        elif not field.repeated:
            _expect(field, wire, _wire_type(field))
            values[field.name] = self._scalar(field.kind, data)
        elif field.is_message:
            _expect(field, wire, BYTES)
            values.setdefault(field.name, []).append(self.message(data, field.kind, depth + 1))
        elif field.kind in ("string", "bytes"):
            _expect(field, wire, BYTES)
            self._spend(field.kind)
            values.setdefault(field.name, []).append(self._scalar(field.kind, data))
        elif wire == BYTES:
            values.setdefault(field.name, _Chunks(self._schema, field.kind)).packed(data)
        else:
            _expect(field, wire, _wire_type(field))
            self._spend(field.kind)
            values.setdefault(field.name, _Chunks(self._schema, field.kind)).one(self._scalar(field.kind, data))

    def _scalar(self, kind: str, data: memoryview) -> Any:
        if kind == "bytes":
            return data
        if kind == "string":
            return bytes(data).decode("utf-8", "replace")
        if kind in _FIXED:
            return np.frombuffer(data, _FIXED[kind])[0].item()
        return _signed(kind, varint(data, 0)[0], self._schema)

    def _spend(self, kind: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error(kind, f"more than {_MOST_VALUES} messages and numbers in it")

    def _error(self, kind: str, what: str) -> ModelError:
        return ModelError(f"{self._damaged}: in a {kind}, {what}")


class _Chunks:
    """The values of a repeated number, packed or one at a time; arrays of NumPy in the end, names of enumerations."""

    def __init__(self, schema: Schema, kind: str) -> None:
        self._schema = schema
        self._kind = kind
        self._parts: list[Any] = []

    def one(self, value: Any) -> None:
        """Add a value that stands alone."""
        if self._parts and isinstance(self._parts[-1], list):
            self._parts[-1].append(value)
        else:
            self._parts.append([value])

    def add(self, values: np.ndarray) -> None:
        """Add values that are read already."""
        self._parts.append(values)

    def packed(self, data: memoryview) -> None:
        """Add values that stand together."""
        if self._kind in _FIXED:
            if len(data) % _FIXED[self._kind].itemsize:
                raise ValueError(f"{len(data)} bytes of numbers of type {self._kind}")
            self._parts.append(np.frombuffer(data, _FIXED[self._kind]))
        else:
            values = _varints(data)
            if self._kind.startswith("enum/"):
                self._parts.append([_signed(self._kind, int(value), self._schema) for value in values])
            else:
                self._parts.append(_signed_all(self._kind, values))

    def joined(self) -> Any:
        """An array of the field's type; a list of names for enumerations."""
        if self._kind.startswith("enum/"):
            return [name for part in self._parts for name in part]
        dtype = _FIXED.get(self._kind) or _VARINT_DTYPES[self._kind]
        parts = [part if isinstance(part, np.ndarray) else np.array(part, dtype) for part in self._parts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


_VARINT_DTYPES: dict[str, np.dtype[Any]] = {
    "int32": np.dtype("i4"), "int64": np.dtype("i8"), "uint32": np.dtype("u4"), "uint64": np.dtype("u8"),
    "sint32": np.dtype("i4"), "sint64": np.dtype("i8"), "bool": np.dtype("?"),
}  # fmt: skip


def _expect(field: Field, found: int, wanted: int) -> None:
    if found != wanted:
        raise ValueError(f"the field {field.name} has wire type {found} instead of {wanted}")


def _signed(kind: str, value: int, schema: Schema) -> Any:
    """The value of a varint of `kind`."""
    if kind == "bool":
        return value != 0
    if kind.startswith("enum/"):
        return schema.member(kind[5:], value - (1 << 64) if value >> 63 else value)
    return _signed_all(kind, np.array([value], np.uint64))[0].item()


def _signed_all(kind: str, values: np.ndarray) -> np.ndarray:
    if kind.startswith("sint"):
        values = (values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))
    return values != 0 if kind == "bool" else values.astype(_VARINT_DTYPES[kind])


def _varints(data: memoryview) -> np.ndarray:
    """The numbers that `data` is, all at once. Raises `ValueError` for one that is longer than ten bytes or cut off."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not len(raw):
        return np.zeros(0, np.uint64)
    begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    if not len(ends) or ends[-1] != len(raw) - 1 or int((ends - begins).max()) >= 10:
        raise ValueError("an unfinished number among packed ones")
    values = np.zeros(len(ends), np.uint64)
    for step in range(int((ends - begins).max()) + 1):
        inside = begins + step <= ends
        values[inside] |= (raw[begins[inside] + step] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * step)
    return values
