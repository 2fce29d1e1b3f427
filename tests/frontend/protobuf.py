"""Encoding protocol buffers by a schema, for tests: the inverse of `wire.py`, written apart from it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tilewright.frontend.messages import Field, Schema

_PACKS = {
    "float": "<f", "double": "<d", "fixed32": "<I", "fixed64": "<Q", "sfixed32": "<i", "sfixed64": "<q",
}  # fmt: skip


def varint(value: int) -> bytes:
    """A number, two's complement of 64 bits where it is negative."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(schema: Schema, kind: str, values: Mapping[str, Any]) -> bytes:
    """The message of `kind` with these fields: numbers packed, nested messages as mappings."""
    fields = schema.fields(kind)
    return b"".join(_field(schema, fields[name], value) for name, value in values.items())


def _field(schema: Schema, field: Field, value: Any) -> bytes:
    if field.kind.startswith("map/"):
        _, key, kind = field.kind.split("/", 2)
        entries = [
            _one(schema, Field("", 1, key, False, ""), k) + _one(schema, Field("", 2, kind, False, ""), v)
            for k, v in value.items()
        ]
        return b"".join(varint(field.number << 3 | 2) + varint(len(entry)) + entry for entry in entries)
    if field.repeated and (field.is_message or field.kind in ("string", "bytes")):
        return b"".join(_one(schema, field, item) for item in value)
    if field.repeated:
        packed = b"".join(_scalar(schema, field.kind, item) for item in value)
        return varint(field.number << 3 | 2) + varint(len(packed)) + packed
    return _one(schema, field, value)


def _one(schema: Schema, field: Field, value: Any) -> bytes:
    if field.is_message or field.kind in ("string", "bytes"):
        if field.is_message:
            value = encode(schema, field.kind, value)
        data = value.encode() if isinstance(value, str) else bytes(value)
        return varint(field.number << 3 | 2) + varint(len(data)) + data
    wire = {4: 5, 8: 1}[struct.calcsize(_PACKS[field.kind])] if field.kind in _PACKS else 0
    return varint(field.number << 3 | wire) + _scalar(schema, field.kind, value)


def _scalar(schema: Schema, kind: str, value: Any) -> bytes:
    if kind in _PACKS:
        return struct.pack(_PACKS[kind], value)
    if kind.startswith("sint"):
        return varint(value << 1 ^ value >> 63)
    if kind.startswith("enum/") and isinstance(value, str):
        number = schema.value(kind[5:], value)
        assert number is not None, f"{kind} has no member {value}"
        value = number
    return varint(int(value))
