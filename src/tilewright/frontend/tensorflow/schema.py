"""The messages of TensorFlow's files that are read (schema.txt), and element types by their numbers."""

from __future__ import annotations

from tilewright.frontend.messages import Schema

SCHEMA = Schema.of("tilewright.frontend.tensorflow")

#: Element types by number: what Relay calls them, and where a tensor has them that does not have their bytes.
_TYPES = {
    1: ("float32", "float_val"), 2: ("float64", "double_val"), 3: ("int32", "int_val"), 4: ("uint8", "int_val"),
    5: ("int16", "int_val"), 6: ("int8", "int_val"), 9: ("int64", "int64_val"), 10: ("bool", "bool_val"),
    11: ("int8", "int_val"), 12: ("uint8", "int_val"), 13: ("int32", "int_val"), 14: ("bfloat16", "half_val"),
    15: ("int16", "int_val"), 16: ("uint16", "int_val"), 17: ("uint16", "int_val"), 19: ("float16", "half_val"),
    22: ("uint32", "uint32_val"), 23: ("uint64", "uint64_val"),
}  # fmt: skip
_OTHER = {7: "string", 8: "complex64", 18: "complex128", 20: "resource", 21: "variant"}
STRING, RESOURCE, VARIANT = 7, 20, 21


def type_name(code: int) -> str | None:
    """Relay's name of an element type; None for one that it does not have."""
    return _TYPES.get(code % 100, (None,))[0]


def value_field(code: int) -> str:
    """The field of a tensor that has its numbers."""
    return _TYPES[code % 100][1]


def described(code: int) -> str:
    """An element type as messages name it."""
    return type_name(code) or _OTHER.get(code % 100, f"type {code}")
