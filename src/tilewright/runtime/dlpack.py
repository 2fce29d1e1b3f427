"""DLPack in plain ctypes, for the types NumPy's own implementation leaves out (bfloat16).

The structures are those of DLPack 1.0's unversioned `DLManagedTensor` (https://dmlc.github.io/dlpack). A capsule named
``dltensor`` owns a `DLManagedTensor`; a consumer renames it to ``used_dltensor`` and calls its deleter when done.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from typing import Any

import ml_dtypes
import numpy as np

CPU = 1
# NumPy's kind, or bfloat16, to DLPack's type code
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT = 4


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

# Exported tensors by ticket (the `context` field), kept alive until their consumer calls the deleter.
_exported: dict[int, tuple[Any, ...]] = {}
_tickets = itertools.count(1)


@_Deleter
def _release(managed: Any) -> None:
    _exported.pop(managed.contents.context, None)


# A capsule destructor runs when the capsule dies: only a capsule that nobody consumed still owns its tensor.
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@_Destructor
def _destroy(capsule: int) -> None:
    if _raw_is_valid(capsule, b"dltensor"):
        managed = _Managed.from_address(_raw_pointer(capsule, b"dltensor") or 0)
        _exported.pop(managed.context, None)


def to_capsule(array: np.ndarray[Any, Any], address: int) -> Any:
    """A ``dltensor`` capsule that shares the memory of `array` (C-contiguous, at `address`) and keeps it alive."""
    code = _BFLOAT if array.dtype == ml_dtypes.bfloat16 else _CODES.get(array.dtype.kind)
    if code is None:
        raise BufferError(f"DLPack has no type for {array.dtype}")
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    ticket = next(_tickets)
    tensor = _DLTensor(
        address, _Device(CPU, 0), array.ndim, _DataType(code, array.itemsize * 8, 1),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 0,
    )  # fmt: skip
    managed = _Managed(tensor, ticket, _release)
    _exported[ticket] = (array, shape, managed)
    return _new(ctypes.addressof(managed), b"dltensor", ctypes.cast(_destroy, ctypes.c_void_p))


def from_capsule(capsule: Any) -> np.ndarray[Any, Any]:
    """The array in an unversioned ``dltensor`` capsule, sharing its memory. Raises `BufferError` off the CPU."""
    if not _is_valid(capsule, b"dltensor"):
        raise BufferError("the object's DLPack capsule is of an unknown kind or has been used already")
    address = _pointer(capsule, b"dltensor")
    managed = _Managed.from_address(address)
    tensor = managed.tensor
    if tensor.device.kind != CPU:
        raise BufferError("the array is not in CPU memory; copy it there first")
    dtype = _numpy_dtype(tensor.dtype)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = None
    if tensor.strides:
        strides = tuple(tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim))
    _rename(capsule, b"used_dltensor")
    owner = _Owner(address)
    extent = (
        sum((n - 1) * (s // dtype.itemsize) for n, s in zip(shape, strides)) + 1 if strides else int(np.prod(shape))
    )
    size = 0 if 0 in shape else extent * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_uint8 * size).from_address((tensor.data or 0) + tensor.byte_offset)
    memory._owner = owner
    return np.ndarray(shape, dtype, memory, strides=strides)


def _numpy_dtype(dtype: _DataType) -> np.dtype[Any]:
    if dtype.code == _BFLOAT and dtype.bits == 16:
        return np.dtype(ml_dtypes.bfloat16)
    for kind, code in _CODES.items():
        if dtype.code == code and dtype.lanes == 1:
            return np.dtype(bool) if kind == "b" else np.dtype(f"{kind}{dtype.bits // 8}")
    raise BufferError(f"DLPack type code {dtype.code} with {dtype.bits} bits is not supported")


class _Owner:
    """Calls an imported tensor's deleter when the last array on its memory goes away."""

    def __init__(self, address: int) -> None:
        weakref.finalize(self, _call_deleter, address)


def _call_deleter(address: int) -> None:
    managed = _Managed.from_address(address)
    if managed.deleter:
        managed.deleter(ctypes.pointer(managed))
