"""Data types: one interned, immutable value per (code, bits, lanes), spelled as the field spells them.

A `DType` is a `str` such as ``"float32"`` or ``"float32x16"`` with its parts as attributes, so it compares with and
hashes like the plain string. ``"handle"`` is an opaque pointer; ``"bool"`` is one bit of truth kept in one byte.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

_PATTERN = re.compile(r"(bool|handle|bfloat16|(?:u?int|float)(?:\d+))(?:x(\d+))?$")
_ALLOWED = {
    "bool", "handle", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
}  # fmt: skip
_INTERNED: dict[str, DType] = {}


class DType(str):
    """An element type and a lane count. `DType("float32x16").lanes == 16`; equal to its spelling as a string."""

    code: str  # "int", "uint", "float", "bfloat", "bool" or "handle"
    bits: int
    lanes: int

    def __new__(cls, spelling: Any) -> DType:
        known = _INTERNED.get(spelling) if isinstance(spelling, str) else None
        if known is not None:
            return known
        text = _from_numpy(spelling) if not isinstance(spelling, str) else spelling
        match = _PATTERN.match(text)
        if match is None or match.group(1) not in _ALLOWED:
            raise TypeError(
                f"unknown data type {text!r}; known: {', '.join(sorted(_ALLOWED))}, with an optional xLANES"
            )
        element, lanes = match.group(1), int(match.group(2) or 1)
        canonical = element if lanes == 1 else f"{element}x{lanes}"
        if canonical in _INTERNED:
            return _INTERNED[canonical]
        self = super().__new__(cls, canonical)
        self.code = element.rstrip("0123456789")
        self.bits = {"bool": 1, "handle": 64}.get(element) or int(element[len(self.code) :])
        self.lanes = lanes
        _INTERNED[canonical] = self
        return self

    def __getnewargs__(self) -> tuple[str]:
        return (str.__str__(self),)

    @property
    def element(self) -> DType:
        """The same type with one lane."""
        return self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DType:
        """The same element type with `lanes` lanes."""
        name = str.__str__(self).split("x")[0] if self.lanes > 1 else str.__str__(self)
        return DType(name if lanes == 1 else f"{name}x{lanes}")

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return 1 if self.code == "bool" else self.bits // 8

    @property
    def is_bool(self) -> bool:
        return self.code == "bool"

    @property
    def is_float(self) -> bool:
        """True for IEEE floats and bfloat16."""
        return self.code in ("float", "bfloat")

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, not bool."""
        return self.code in ("int", "uint")

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of one element (`ml_dtypes` for bfloat16)."""
        name = str.__str__(self.element)
        return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)

    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer or bool type."""
        if self.code == "bool":
            return 0, 1
        if self.code == "uint":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


def _from_numpy(spelling: Any) -> str:
    return str(np.dtype(spelling))
