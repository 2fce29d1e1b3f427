"""One array as bytes in the classic binary format, little-endian, as parameter files and node JSON hold it:

u64 0xDD5E40F096B4A13F, u64 0, i32 device type, i32 device id, i32 ndim, u8 code, u8 bits, u16 lanes, i64 extents,
i64 bytes, the elements.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.support.dtype import DType

_MAGIC = 0xDD5E40F096B4A13F
_HEAD = "<QQiiiBBH"
_CPU = 1
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
_NAMES = {code: name for name, code in _CODES.items()}
#: Narrow types have codes of their own; those that the classic format does not know count from 32.
_NARROW = {
    "float8_e4m3fn": 6, "float8_e5m2": 7, "float8_e4m3fnuz": 32, "float8_e5m2fnuz": 33, "float8_e8m0fnu": 34,
    "float4_e2m1fn": 35, "int4": 36, "uint4": 37, "int2": 38, "uint2": 39,
}  # fmt: skip
_NARROW_NAMES = {code: name for name, code in _NARROW.items()}


def array_bytes(value: np.ndarray[Any, Any]) -> bytes:
    """`value` in the format above. Raises InputError for strings."""
    dtype = DType(value.dtype)
    if dtype in _NARROW:
        code, bits = _NARROW[dtype], 8
    elif dtype.is_bool:
        code, bits = _CODES["uint"], 1
    elif dtype.code in _CODES:
        code, bits = _CODES[dtype.code], dtype.bits
    else:
        raise InputError(f"an array file holds numbers, not arrays of {dtype}")
    head = struct.pack(_HEAD, _MAGIC, 0, _CPU, 0, value.ndim, code, bits, 1)
    data = np.ascontiguousarray(value).tobytes()
    return head + struct.pack(f"<{value.ndim}qq", *value.shape, len(data)) + data


def read_array(data: bytes, start: int = 0) -> tuple[np.ndarray[Any, Any], int]:
    """The array that begins at byte `start`, and where it ends. Raises InputError where there is none."""
    at = start + struct.calcsize(_HEAD)
    if len(data) < at:
        raise InputError(f"the array is truncated: {len(data) - start} bytes are left, its header takes {at - start}")
    magic, _, _, _, ndim, code, bits, lanes = struct.unpack_from(_HEAD, data, start)
    if magic != _MAGIC or lanes != 1 or code not in (*_NAMES, *_NARROW_NAMES):
        raise InputError("this is no array: it has no valid header")
    sizes = f"<{ndim}qq"
    end = at + struct.calcsize(sizes)
    *shape, size = struct.unpack_from(sizes, data, at) if len(data) >= end else (0,)
    if len(data) < end + size:
        raise InputError(f"the array is truncated: {len(data) - start} bytes are left, it takes {end + size - start}")
    name = _NARROW_NAMES.get(code) or f"{_NAMES[code]}{bits}"
    dtype = DType({"uint1": "bool", "bfloat16": "bfloat16"}.get(name, name))
    return np.frombuffer(data[end : end + size], dtype.numpy).reshape(shape), end + size
