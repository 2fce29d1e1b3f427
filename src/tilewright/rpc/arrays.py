"""Arrays and modules as they go over the wire: shapes, names of data types, and bytes behind the frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError, UserError
from tilewright.runtime.gpu.module import DeviceModule
from tilewright.runtime.memory import Array
from tilewright.runtime.model import Model
from tilewright.runtime.module import Module
from tilewright.support.dtype import DType


def spec_of(shape: Any, dtype: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """A shape and a numeric data type that a peer sent, checked. Raises `InputError`."""
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 1 << 48 for n in shape) or len(shape) > 64:
        raise InputError(f"{shape!r:.80} is no shape")
    try:
        found = DType(str(dtype)).numpy
    except (UserError, ValueError, TypeError, KeyError):
        raise InputError(f"{dtype!r:.80} is no data type") from None
    if found.hasobject:
        raise InputError(f"arrays of {dtype} cannot be sent: only numbers are")
    return tuple(shape), found


def dense(array: Any) -> Array:
    """An array whose elements follow one another, of the same shape (which `ascontiguousarray` changes for scalars)."""
    found = np.asarray(array)
    return found if found.flags.c_contiguous else found.copy()


def parts_of(arrays: Sequence[Array]) -> list[dict[str, Any]]:
    """Shape and data type of arrays whose bytes follow one another."""
    for array in arrays:
        if array.dtype.hasobject:
            raise InputError(f"arrays of {array.dtype} cannot be sent: only numbers are")
    return [{"shape": list(array.shape), "dtype": str(DType(array.dtype))} for array in arrays]


def split(data: bytearray, parts: Any) -> list[Array]:
    """The arrays of `parts_of` out of their bytes; raises `InputError` where these do not fit."""
    found, offset = [], 0
    for part in parts:
        shape, dtype = spec_of(part["shape"], part["dtype"])
        count = int(np.prod(shape, dtype=object))
        if offset + count * dtype.itemsize > len(data):
            raise InputError("the arrays are declared larger than what was sent")
        found.append(np.frombuffer(data, dtype, count, offset).reshape(shape))
        offset += count * dtype.itemsize
    return found


def describe(module: Module | DeviceModule | Model) -> dict[str, Any]:
    """The interface of a loaded module: a model's inputs and outputs, a library's functions with their parameters."""
    if isinstance(module, Module | DeviceModule):
        return {"kind": "library", "functions": [info.to_json() for info in module.functions.values()]}
    specs = {name: [spec.to_json() for spec in getattr(module, name)] for name in ("inputs", "outputs")}
    return {"kind": "model", "target": module.target, "threads": module.threads, **specs}
