"""DLPack for arrays in the memory of NVIDIA GPUs: PyTorch's, CuPy's and JAX's arrays in and ours out, without copies.

The structures are those of https://dmlc.github.io/dlpack, in both versions of the capsule. Work is ordered by streams:
who takes an array says on which stream it will use it, and who hands it out has that stream wait.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.dlpack import CODES, capsule_of
from tilewright.runtime.gpu.cuda_context import CudaContext
from tilewright.runtime.gpu.cuda_memory import CudaBuffer

#: The device type of GPU memory in DLPack.
CUDA = 2
LEGACY_STREAM = 1  # the default stream in DLPack's and the driver's numbers, where 0 would be ambiguous
_READ_ONLY = 1

_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
#: (type code, bits) of every dtype that travels.
_CODES: dict[np.dtype[Any], tuple[int, int]] = {
    **{dtype: (code, 8 * dtype.itemsize) for dtype, code in CODES.items()},
    **{np.dtype(t): (_KINDS[np.dtype(t).kind], 8 * np.dtype(t).itemsize) for t in "?bBhHiIlLefdFD"},
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = (
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
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):  # DLManagedTensor
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):  # DLManagedTensorVersioned
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_STRUCTURES: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_USED = {name: b"used_" + name for name in _STRUCTURES}  # a capsule does not copy its name


def _python(name: str, result: Any, *parameters: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *parameters)((name, ctypes.pythonapi))


# Capsules as addresses: a destructor gets one that nobody refers to any more, which may not become an object again.
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)


def is_on_cuda(value: Any) -> bool:
    """True for a producer of DLPack whose array is in the memory of an NVIDIA GPU."""
    device = getattr(value, "__dlpack_device__", None)
    return device is not None and int(device()[0]) == CUDA


def current_stream(value: Any, ordinal: int) -> int | None:
    """The stream that the library of `value` works on now on a GPU: PyTorch's or CuPy's; None for other libraries."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(value, torch.Tensor):
        return int(torch.cuda.current_stream(ordinal).cuda_stream)
    if cupy is not None and isinstance(value, cupy.ndarray):
        return int(cupy.cuda.get_current_stream(ordinal).ptr)
    return None


@dataclass(frozen=True)
class ImportedArray:
    """Another library's array in GPU memory, which the buffer keeps."""

    buffer: CudaBuffer
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read_only: bool


def import_array(device: CudaContext, producer: Any) -> ImportedArray:
    """The array of a producer of DLPack, for use on the device's stream of this thread.

    Raises `InputError` for an array on another device, of a dtype that NumPy has not, or whose elements are not
    contiguous.
    """
    for method in ("resolve_conj", "resolve_neg", "detach"):  # PyTorch's: what is kept beside the memory
        producer = getattr(producer, method, lambda same=producer: same)()
    number = int(producer.__dlpack_device__()[1])
    if number != device.ordinal:
        raise InputError(f"the array is on cuda:{number}, the model on cuda:{device.ordinal}; move one of them")
    capsule = capsule_of(producer, stream=device.stream or LEGACY_STREAM)
    address = id(capsule)
    name = next((name for name in _STRUCTURES if _is_valid(address, name)), None)
    if name is None:
        raise InputError("the DLPack capsule has been used already")
    managed = _STRUCTURES[name].from_address(_pointer(address, name))
    _rename(capsule, _USED[name])  # from here on the array is ours to release
    owner, tensor = _Taken(managed), managed.tensor
    shape, dtype = tuple(tensor.shape[: tensor.ndim]), _dtype(tensor)
    _check_contiguous(tensor, shape)
    nbytes = math.prod(shape) * dtype.itemsize
    buffer = CudaBuffer(device, (tensor.data or 0) + tensor.byte_offset, nbytes, owner)
    return ImportedArray(buffer, shape, dtype, name != b"dltensor" and bool(managed.flags & _READ_ONLY))


class _Taken:
    """The contents of a capsule, released with this object."""

    def __init__(self, managed: Any) -> None:
        self._managed = managed

    def __del__(self) -> None:
        if self._managed.deleter:
            _Deleter(self._managed.deleter)(ctypes.addressof(self._managed))


def _dtype(tensor: _Tensor) -> np.dtype[Any]:
    found = _DTYPES.get((tensor.code, tensor.bits))
    if found is None or tensor.lanes != 1:
        kind = f"type {tensor.code} of {tensor.bits} bits, {tensor.lanes} lanes"
        raise InputError(f"the array's elements are of DLPack's {kind}, which NumPy does not have; convert them first")
    return found


def _check_contiguous(tensor: _Tensor, shape: Sequence[int]) -> None:
    if not tensor.strides or 0 in shape:
        return
    strides, step = tensor.strides[: tensor.ndim], 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            raise InputError(
                f"the array of shape {list(shape)} has the strides {strides}: its elements are not contiguous; call "
                ".contiguous() first"
            )
        step *= size


#: What exported structures refer to, by their addresses, until their consumers release them.
_EXPORTED: dict[int, tuple[Any, ...]] = {}


def _delete(address: int) -> None:
    _EXPORTED.pop(address, None)


def _destroy(capsule: int) -> None:
    """Release an array whose capsule nobody took."""
    for name in _STRUCTURES:
        if _is_valid(capsule, name):
            _delete(_pointer(capsule, name))


_DELETE, _DESTROY = _Deleter(_delete), _Destructor(_destroy)


def export_array(buffer: CudaBuffer, shape: Sequence[int], dtype: np.dtype[Any], versioned: bool) -> Any:
    """A capsule on the memory of a C-contiguous array, which keeps `buffer`.

    Raises `BufferError` for a dtype that DLPack has not.
    """
    device = buffer.device
    if dtype not in _CODES:
        raise BufferError(f"DLPack has no arrays of {dtype}")
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    steps = [*itertools.accumulate(reversed([*shape[1:], 1][: len(shape)]), lambda a, b: a * b)][::-1]
    strides = (ctypes.c_int64 * max(1, len(shape)))(*steps)
    code, bits = _CODES[dtype]
    name = b"dltensor_versioned" if versioned else b"dltensor"
    managed = _STRUCTURES[name]()
    managed.tensor = _Tensor(buffer.pointer, CUDA, device.ordinal, len(shape), code, bits, 1, extents, strides, 0)
    managed.deleter = ctypes.cast(_DELETE, ctypes.c_void_p)
    if versioned:
        managed.major = 1
    address = ctypes.addressof(managed)
    _EXPORTED[address] = (managed, extents, strides, buffer)
    return _new(address, name, _DESTROY)
