"""Parameters as bytes: `save_param_dict` and `load_param_dict`, in the classic binary format, little-endian:

u64 0xF7E58D4F05049CB7, u64 0, u64 count, names (u64 length, bytes), u64 count, arrays (`support/array_format.py`)
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.compat.runtime.array import NDArray, to_numpy
from tilewright.compat.runtime.classic_bytes import Reader, items, text
from tilewright.errors import ArtifactError, InputError
from tilewright.support.array_format import array_bytes

_MAGIC = 0xF7E58D4F05049CB7


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """The parameters by name as bytes."""
    arrays = [array_bytes(to_numpy(value)) for value in params.values()]
    return bytearray(struct.pack("<QQ", _MAGIC, 0) + items(list(params), text) + items(arrays, bytes))


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """The parameters by name as a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """The parameters of a file. Raises `InputError` where it has none."""
    return load_param_dict(Path(path).read_bytes())


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """The parameters that `save_param_dict` (of any version of the classic stack) wrote. Raises `InputError`."""
    reader = Reader(bytes(param_bytes))
    try:
        if reader.take("Q") != _MAGIC:
            raise InputError("these bytes are no parameter file: they do not begin with its magic number")
        reader.take("Q")
        names, count = reader.list(reader.text), reader.take("Q")
    except (struct.error, ArtifactError):
        raise InputError(f"the parameter file is truncated: it has {len(param_bytes)} bytes") from None
    if count != len(names):
        raise InputError(f"the parameter file is damaged: it has {len(names)} names and {count} arrays")
    return {name: reader.array() for name in names}
