"""Spelling of loop IR types and constants as LLVM IR text.

A value has a *register type* and, in memory, a *memory type*: `bool` is ``i1`` in registers and one byte in memory;
`float16` and `bfloat16` are kept as ``i16`` bit patterns and computed with as float32, so that every operation is legal
on every target. Narrow types are bytes; `topi` casts them through `reinterpret`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import ml_dtypes
import numpy as np

from tilewright.errors import InternalError
from tilewright.support.dtype import MAX_LANES, DType

_REGISTER = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "i8", "uint16": "i16", "uint32": "i32", "uint64": "i64",
    "float16": "i16", "bfloat16": "i16", "float32": "float", "float64": "double", "handle": "ptr",
}  # fmt: skip
_SPELLED: dict[DType, tuple[str, str]] = {}


def _spell(dtype: DType) -> tuple[str, str]:
    element = str.__str__(dtype.element)
    register = "i8" if dtype.is_narrow else _REGISTER[element]
    memory = "i8" if element == "bool" else register
    if dtype.lanes > 1:
        register, memory = f"<{dtype.lanes} x {register}>", f"<{dtype.lanes} x {memory}>"
    return _SPELLED.setdefault(dtype, (register, memory))


def register_type(dtype: DType) -> str:
    """LLVM type of a value of `dtype` in registers, such as ``<16 x float>``."""
    return (_SPELLED.get(dtype) or _spell(dtype))[0]


def memory_type(dtype: DType) -> str:
    """LLVM type of a value of `dtype` in memory; differs from the register type for bool."""
    return (_SPELLED.get(dtype) or _spell(dtype))[1]


def element_type(dtype: DType) -> str:
    """LLVM type of as many bytes as an element of an array has; a pointer has eight on every machine."""
    return "i64" if dtype == "handle" else memory_type(dtype)


def is_small_float(dtype: DType) -> bool:
    """True for float16 and bfloat16, of any lane count."""
    return dtype.bits == 16 and dtype.is_float


def integer_constant(dtype: DType, value: int) -> str:
    """An integer or bool constant of one lane; unsigned values are written as the signed number of the same bits."""
    if dtype.is_bool:
        return "true" if value else "false"
    return str(value - (1 << dtype.bits) if dtype.code == "uint" and value >> (dtype.bits - 1) else value)


def float_constant(dtype: DType, value: float) -> str:
    """A floating point constant of one lane, exact: the bits of the double, or of a 16-bit float."""
    if is_small_float(dtype):
        kind = ml_dtypes.bfloat16 if dtype.code == "bfloat" else np.float16
        return str(int(np.asarray(value, kind).view(np.int16)))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def splat(dtype: DType, element: str) -> str:
    """The constant vector (or scalar) of `dtype` whose every lane is the constant `element`."""
    if dtype.lanes == 1:
        return element
    return f"splat ({register_type(dtype.element)} {element})"


def vector_constant(element_type: str, elements: Iterable[str]) -> str:
    """A constant vector with the given lanes."""
    return "<" + ", ".join(f"{element_type} {x}" for x in elements) + ">"


def check_lanes(dtype: DType) -> None:
    """Refuse lane counts that LLVM cannot split sensibly."""
    if dtype.lanes > MAX_LANES:
        raise InternalError(f"a vector of {dtype.lanes} lanes reached codegen; at most {MAX_LANES} are allowed")
