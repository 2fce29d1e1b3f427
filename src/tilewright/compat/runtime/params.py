"""Parameters as bytes: `save_param_dict` and `load_param_dict`, in the classic binary format, little-endian:

u64 0xF7E58D4F05049CB7, u64 0, u64 count, names (u64 length, bytes), u64 count, arrays (`support/array_format.py`)
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.compat.runtime.array import NDArray, array, to_numpy
from tilewright.errors import InputError
from tilewright.support.array_format import array_bytes, read_array

_MAGIC = 0xF7E58D4F05049CB7


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """The parameters by name as bytes."""
    names = [name.encode() for name in params]
    out = bytearray(struct.pack("<QQQ", _MAGIC, 0, len(names)))
    for name in names:
        out += struct.pack("<Q", len(name)) + name
    out += struct.pack("<Q", len(names))
    for value in params.values():
        out += array_bytes(to_numpy(value))
    return out


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """The parameters by name as a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """The parameters of a file. Raises `InputError` where it has none."""
    return load_param_dict(Path(path).read_bytes())


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """The parameters that `save_param_dict` (of any version of the classic stack) wrote. Raises `InputError`."""
    data = bytes(param_bytes)
    try:
        if struct.unpack_from("<Q", data)[0] != _MAGIC:
            raise InputError("these bytes are no parameter file: they do not begin with its magic number")
        names, position = _names(data, 16)
        (count,) = struct.unpack_from("<Q", data, position)
    except struct.error:
        raise InputError(f"the parameter file is truncated: it has {len(data)} bytes") from None
    if count != len(names):
        raise InputError(f"the parameter file is damaged: it has {len(names)} names and {count} arrays")
    position += 8
    params: dict[str, NDArray] = {}
    for name in names:
        value, position = read_array(data, position)
        params[name] = array(value)
    return params


def _names(data: bytes, position: int) -> tuple[list[str], int]:
    """The list of names at `position`, and where it ends."""
    (count,) = struct.unpack_from("<Q", data, position)
    position += 8
    names = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, position)
        names.append(data[position + 8 : position + 8 + length].decode())
        position += 8 + length
    return names, position
