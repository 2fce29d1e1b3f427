"""Parameters as bytes: `save_param_dict` and `load_param_dict`, in the classic binary format, little-endian:

file   u64 0xF7E58D4F05049CB7, u64 0, u64 count, names (u64 length, bytes), u64 count, arrays
array  u64 0xDD5E40F096B4A13F, u64 0, i32 device type, i32 device id, i32 ndim, u8 code, u8 bits, u16 lanes,
       i64 extents, i64 bytes, the elements
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.compat.classic.array import NDArray, array, to_numpy
from tilewright.errors import InputError
from tilewright.support.dtype import DType

_FILE_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """The parameters by name as bytes."""
    names = [name.encode() for name in params]
    out = bytearray(struct.pack("<QQQ", _FILE_MAGIC, 0, len(names)))
    for name in names:
        out += struct.pack("<Q", len(name)) + name
    out += struct.pack("<Q", len(names))
    for value in params.values():
        out += _array_bytes(to_numpy(value))
    return out


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """The parameters that `save_param_dict` (of any version of the classic stack) wrote. Raises `InputError`."""
    reader = _Reader(bytes(param_bytes))
    if reader.take("<QQ")[0] != _FILE_MAGIC:
        raise InputError("these bytes are no parameter file: they do not begin with its magic number")
    names = [reader.raw(reader.take("<Q")[0]).decode() for _ in range(reader.take("<Q")[0])]
    if reader.take("<Q")[0] != len(names):
        raise InputError("the parameter file is damaged: it has another number of arrays than of names")
    return {name: array(reader.array()) for name in names}


def _array_bytes(value: np.ndarray[Any, Any]) -> bytes:
    dtype = DType(value.dtype)
    if dtype.code not in (*_CODES, "bool"):
        raise InputError(f"a parameter file holds numbers, not arrays of {dtype}")
    code, bits = (_CODES["uint"], 1) if dtype.is_bool else (_CODES[dtype.code], dtype.bits)
    head = struct.pack("<QQiiiBBH", _ARRAY_MAGIC, 0, _CPU, 0, value.ndim, code, bits, 1)
    data = np.ascontiguousarray(value).tobytes()
    return head + struct.pack(f"<{value.ndim}qq", *value.shape, len(data)) + data


class _Reader:
    """Takes pieces off the front of `data`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def raw(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.position + size
        if end > len(self.data):
            raise InputError(f"the parameter file is truncated: {len(self.data)} bytes, {end} are needed")
        piece, self.position = self.data[self.position : end], end
        return piece

    def take(self, layout: str) -> tuple[Any, ...]:
        """The next numbers, as `struct` lays them out."""
        return struct.unpack(layout, self.raw(struct.calcsize(layout)))

    def array(self) -> np.ndarray[Any, Any]:
        """The next array."""
        magic, _, _, _, ndim, code, bits, lanes = self.take("<QQiiiBBH")
        names = {number: name for name, number in _CODES.items()}
        if magic != _ARRAY_MAGIC or lanes != 1 or code not in names:
            raise InputError("the parameter file is damaged: an array has no valid header")
        *shape, size = self.take(f"<{ndim}qq")
        dtype = DType("bool" if (names[code], bits) == ("uint", 1) else f"{names[code]}{bits}")
        return np.frombuffer(self.raw(size), dtype.numpy).reshape(shape)
