"""Data types: one interned, immutable value per (code, bits, lanes), spelled as the field spells them.

A `DType` is a `str` such as ``"float32"`` or ``"float32x16"`` with its parts as attributes, so it compares with and
hashes like the plain string. ``"handle"`` is an opaque pointer; ``"bool"`` is one bit of truth kept in one byte.

*Narrow* types (float8 and float4 in their variants, integers of 2 and 4 bits) are kept one element a byte, low bits
first, as `ml_dtypes` keeps them. They are moved and cast; nothing is computed in them. ``"string"`` is text of any
length, an object to NumPy; only operators that run on the host may touch it.
"""

from __future__ import annotations

import math
import re
from typing import Any

import ml_dtypes
import numpy as np

#: Lanes of a vector, at most: longer ones LLVM would split one by one.
MAX_LANES = 1024

_PATTERN = re.compile(
    r"(bool|handle|string|bfloat16|float\d_e\dm\d(?:fnuz|fnu|fn)?|(?:u?int|float)(?:\d+))(?:x(\d+))?$"
)
_NARROW = {
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
    "int4", "uint4", "int2", "uint2",
}  # fmt: skip
_ALLOWED = {
    "bool", "handle", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "string",
} | _NARROW  # fmt: skip
#: Spellings of the field without a width; one bit is a bool.
_ALIASES = {"float": "float32", "int": "int32", "uint": "uint32"}
_ONE_BIT = re.compile(r"^u?int1(?=x|$)")
_INTERNED: dict[str, DType] = {}


class DType(str):
    """An element type and a lane count. `DType("float32x16").lanes == 16`; equal to its spelling as a string."""

    code: str  # "int", "uint", "float", "bfloat", "bool", "handle", "narrow" or "string"
    bits: int  # of a narrow type, those of the byte it is kept in
    lanes: int

    def __new__(cls, spelling: Any) -> DType:
        known = _INTERNED.get(spelling) if isinstance(spelling, str) else None
        if known is not None:
            return known
        text = _from_numpy(spelling) if not isinstance(spelling, str) else _ONE_BIT.sub("bool", spelling)
        text = _ALIASES.get(text, text)
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
        self.code = "narrow" if element in _NARROW else element.rstrip("0123456789")
        self.bits = {"bool": 1, "handle": 64, "string": 64, "narrow": 8}.get(self.code) or int(
            element[len(self.code) :]
        )
        self.lanes = lanes
        _INTERNED[canonical] = self
        return self

    def __getnewargs__(self) -> tuple[str]:
        return (str.__str__(self),)

    @property
    def type_code(self) -> int:
        """The number of the kind in DLPack: 0 signed, 1 unsigned (bool too), 2 float, 3 handle, 4 bfloat16."""
        return _TYPE_CODES.get(self.code, 1)

    @property
    def element(self) -> DType:
        """The same type with one lane."""
        return self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DType:
        """The same element type with `lanes` lanes."""
        name = str.__str__(self).rsplit("x", 1)[0] if self.lanes > 1 else str.__str__(self)
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
    def is_half(self) -> bool:
        """True for floats of 16 bits."""
        return self.is_float and self.bits == 16

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, not bool."""
        return self.code in ("int", "uint")

    @property
    def is_narrow(self) -> bool:
        """True for types of less than eight bits or float8: kept in a byte, moved and cast only."""
        return self.code == "narrow"

    @property
    def is_string(self) -> bool:
        """True for text, which only host operators may touch."""
        return self.code == "string"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of one element (`ml_dtypes` for bfloat16 and the narrow types, object for strings)."""
        name = str.__str__(self.element)
        if self.code == "string":
            return np.dtype(object)
        return np.dtype(getattr(ml_dtypes, name) if self.code in ("bfloat", "narrow") else name)

    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer or bool type, narrow ones included.

        Raises TypeError for others: of floats there are `finite_limits` and `extremes`.
        """
        if self.code == "narrow" and "int" in str(self):
            info = ml_dtypes.iinfo(self.numpy)
            return int(info.min), int(info.max)
        if self.code not in ("int", "uint", "bool"):
            raise TypeError(f"{self} is no integer type; use finite_limits() or extremes()")
        if self.code == "bool":
            return 0, 1
        if self.code == "uint":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    def finite_limits(self) -> tuple[float, float]:
        """Smallest and largest number of any type that has numbers, infinities left out."""
        if self.is_float or (self.code == "narrow" and "float" in str(self)):
            info = ml_dtypes.finfo(self.numpy)
            return float(info.min), float(info.max)
        return self.limits()

    def extremes(self) -> tuple[float, float]:
        """The neutral elements of maximum and minimum: the infinities of floats, the limits of integers."""
        return (-math.inf, math.inf) if self.is_float else self.limits()


_TYPE_CODES = {"int": 0, "uint": 1, "bool": 1, "float": 2, "handle": 3, "bfloat": 4}


def _from_numpy(spelling: Any) -> str:
    dtype = np.dtype(spelling)
    return "string" if dtype.kind in "OUST" else str(dtype)
