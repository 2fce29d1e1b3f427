"""DLPack for what NumPy's own implementation leaves out: bfloat16 and float8.

NumPy exports and imports DLPack capsules, with their ownership, for every type it knows. bfloat16 travels as 16-bit
integers through NumPy's implementation, float8 as bytes, and only the type code inside the capsule is changed on the
way: from unsigned integer on export, to it on import. The layouts are those of https://dmlc.github.io/dlpack.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

CPU = 1
_UINT, _BFLOAT = 1, 4

#: Types of one byte that NumPy does not know, by their type codes.
_BYTES = {
    8: ml_dtypes.float8_e4m3,
    10: ml_dtypes.float8_e4m3fn,
    11: ml_dtypes.float8_e4m3fnuz,
    12: ml_dtypes.float8_e5m2,
    13: ml_dtypes.float8_e5m2fnuz,
    14: ml_dtypes.float8_e8m0fnu,
}
#: Type codes of the dtypes that NumPy's own implementation leaves out.
CODES = {np.dtype(ml_dtypes.bfloat16): _BFLOAT, **{np.dtype(dtype): code for code, dtype in _BYTES.items()}}

# capsule name -> where the DLTensor's type code lies: after data (8), device (8) and ndim (4); the versioned structure
# puts version, context, deleter and flags (8 bytes each) before the DLTensor
_CODE_OFFSETS = {b"dltensor": 20, b"dltensor_versioned": 52}

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

Array = np.ndarray[Any, Any]


def export_array(array: Array) -> Any:
    """A capsule on the memory of a writable array of any dtype a tensor can have."""
    code = CODES.get(array.dtype)
    if code is None:
        return array.__dlpack__()
    capsule = array.view(f"uint{8 * array.itemsize}").__dlpack__()
    _type_code(capsule).value = code
    return capsule


def import_array(producer: Any) -> Array:
    """The memory of a DLPack producer as a NumPy array. Raises `BufferError` when it is not in CPU memory.

    A tensor of PyTorch whose sign, or that of whose imaginary part, is kept in a bit beside its memory is copied first:
    its capsule does not tell.
    """
    for name in ("resolve_conj", "resolve_neg"):
        producer = getattr(producer, name, lambda same=producer: same)()
    device = getattr(producer, "__dlpack_device__", None)
    if device is not None and int(device()[0]) != CPU:
        raise BufferError("the array is not in CPU memory; copy it there first, for instance with .cpu()")
    try:
        return np.from_dlpack(producer)
    except (BufferError, RuntimeError, TypeError, ValueError):
        # bfloat16, float8, or a producer that cannot export at all: that one raises its own message here.
        capsule = capsule_of(producer)
    code = _type_code(capsule)
    dtype = ml_dtypes.bfloat16 if code.value == _BFLOAT else _BYTES.get(code.value)
    if dtype is None:
        return np.from_dlpack(_Holder(capsule))
    code.value = _UINT
    return np.from_dlpack(_Holder(capsule)).view(dtype)


def capsule_of(producer: Any, **options: Any) -> Any:
    """The producer's capsule, versioned where it can: only that kind says that memory may be written to."""
    try:
        return producer.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        return producer.__dlpack__(**options)


def _type_code(capsule: Any) -> ctypes.c_uint8:
    """The byte of an unused capsule that holds its tensor's type code."""
    name = _name(capsule)
    if name not in _CODE_OFFSETS:
        raise BufferError("the DLPack capsule has been used already")
    return ctypes.c_uint8.from_address(_pointer(capsule, name) + _CODE_OFFSETS[name])


class _Holder:
    """A producer of one capsule, as `np.from_dlpack` wants it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)
