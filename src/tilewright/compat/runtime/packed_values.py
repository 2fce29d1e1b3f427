"""Values of the classic packed interface: arrays of 8-byte values beside arrays of type codes.

int 0, float 2, handle 3, null 4, dtype 5, device 6, DLTensor 7, module 9, function 10, text 11, bytes 12, NDArray 13
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.compat.runtime.array import NDArray
from tilewright.errors import InputError, UnsupportedError
from tilewright.runtime.memory import address_of
from tilewright.runtime.tensor import Tensor
from tilewright.support.dtype import DType

INT, UINT, FLOAT, HANDLE, NULL, TENSOR, FUNCTION, TEXT, BYTES, NDARRAY = 0, 1, 2, 3, 4, 7, 10, 11, 12, 13
_CPU = 1


class DLTensor(ctypes.Structure):
    """A tensor as DLPack describes it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Functions:
    """Python functions as handles; a handle stays valid while this object lives."""

    def __init__(self) -> None:
        self._known: dict[int, Callable[..., Any]] = {}

    def handle(self, function: Callable[..., Any]) -> int:
        """The handle of a function."""
        self._known[id(function)] = function
        return id(function)

    def __getitem__(self, handle: int) -> Callable[..., Any]:
        if handle not in self._known:
            raise InputError("compiled code calls a function that nobody gave it")
        return self._known[handle]


def tensor_of(value: np.ndarray[Any, Any]) -> DLTensor:
    """The description of an array's memory, which it keeps alive. Raises `InputError` unless it is compact."""
    if not value.flags.c_contiguous:
        raise InputError("compiled functions take compact arrays; copy this one with np.ascontiguousarray")
    dtype = DType(value.dtype)
    shape = (ctypes.c_int64 * max(value.ndim, 1))(*value.shape)
    made = DLTensor(address_of(value), _CPU, 0, value.ndim, dtype.type_code, dtype.bits, 1, shape, None, 0)
    made.owner = value
    return made


def array_of(address: int) -> NDArray:
    """The memory that a `DLTensor` describes, as an array."""
    tensor = DLTensor.from_address(address)
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.device_type != _CPU or tensor.lanes != 1:
        raise UnsupportedError("compiled code passes an array of another device, or of vectors")
    dtype = _dtype(tensor.code, tensor.bits).numpy
    steps: list[int] = []
    step = dtype.itemsize
    for size in reversed(shape):
        steps.insert(0, step)
        step *= size
    strides = [int(tensor.strides[d]) * dtype.itemsize for d in range(tensor.ndim)] if tensor.strides else steps
    reach = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + dtype.itemsize
    memory: Any = (ctypes.c_uint8 * (reach if all(shape) else 0)).from_address((tensor.data or 0) + tensor.byte_offset)
    return NDArray.from_numpy(np.ndarray(shape, dtype, memory, 0, strides), copy=False)  # type: ignore[return-value]


def _dtype(code: int, bits: int) -> DType:
    kinds = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
    if (code, bits) in ((1, 1), (6, 8)):
        return DType("bool")
    if code not in kinds:
        raise UnsupportedError(f"compiled code passes an array of the unknown type code {code}")
    return DType(f"{kinds[code]}{bits}")


class Arguments:
    """Values for one call: `values` and `codes` are arrays of C, alive as long as this object."""

    def __init__(self, args: Sequence[Any], functions: Functions) -> None:
        self.count = len(args)
        self.values = (ctypes.c_int64 * max(self.count, 1))()
        self.codes = (ctypes.c_int32 * max(self.count, 1))()
        self._functions = functions
        self._alive: list[Any] = []
        for position, value in enumerate(args):
            self.codes[position], self.values[position] = self._encoded(value)

    def _encoded(self, value: Any) -> tuple[int, int]:
        if isinstance(value, Tensor):
            value = value.numpy()
        if isinstance(value, np.ndarray):
            tensor = tensor_of(value)
            self._alive.append(tensor)
            return TENSOR, ctypes.addressof(tensor)
        if value is None:
            return NULL, 0
        if isinstance(value, bool | int | np.integer | np.bool_):
            return INT, int(value)
        if isinstance(value, float | np.floating):
            return FLOAT, struct.unpack("<q", struct.pack("<d", float(value)))[0]
        if isinstance(value, str | bytes | bytearray):
            return self._text(value)
        if callable(value):
            return FUNCTION, self._functions.handle(value)
        raise InputError(f"a {type(value).__name__} cannot be given to a compiled function of a classic library")

    def _text(self, value: str | bytes | bytearray) -> tuple[int, int]:
        if isinstance(value, str):
            kept: Any = ctypes.create_string_buffer(value.encode())
            self._alive.append(kept)
            return TEXT, ctypes.addressof(kept)
        data = ctypes.create_string_buffer(bytes(value), len(value))
        kept = _Bytes(ctypes.cast(data, ctypes.c_char_p), len(value))
        self._alive += [data, kept]
        return BYTES, ctypes.addressof(kept)


def decoded(value: int, code: int, functions: Functions) -> Any:
    """The Python value of one value with its code. Raises `UnsupportedError` for codes of other things."""
    if code in (INT, UINT):
        return value
    if code == FLOAT:
        return struct.unpack("<d", struct.pack("<q", value))[0]
    if code == NULL:
        return None
    if code in (TENSOR, NDARRAY):
        return array_of(value)
    if code == TEXT:
        return ctypes.string_at(value).decode()
    if code == BYTES:
        kept = _Bytes.from_address(value)
        return bytearray(ctypes.string_at(kept.data, kept.size))
    if code == FUNCTION:
        return functions[value]
    if code == HANDLE:
        return ctypes.c_void_p(value)
    raise UnsupportedError(f"compiled code passes a value with the type code {code}, which is not known here")
