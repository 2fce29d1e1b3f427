"""ONNX tensors to NumPy arrays: element types, raw and typed data, and weights kept in files beside the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from tilewright.errors import ModelError, UnsupportedError
from tilewright.support.dtype import DType

_DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32", TensorProto.UINT8: "uint8", TensorProto.INT8: "int8", TensorProto.UINT16: "uint16",
    TensorProto.INT16: "int16", TensorProto.INT32: "int32", TensorProto.INT64: "int64", TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "float16", TensorProto.DOUBLE: "float64", TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64", TensorProto.BFLOAT16: "bfloat16", TensorProto.STRING: "string",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn", TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2", TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu", TensorProto.FLOAT4E2M1: "float4_e2m1fn", TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4", TensorProto.INT2: "int2", TensorProto.UINT2: "uint2",
}  # fmt: skip
_MOST_DIMENSIONS = 64  # NumPy's limit
_MOST_SPARSE_BYTES = 256 << 20
_BITS_IN_INT32 = {TensorProto.FLOAT16: np.dtype(np.float16), TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}
#: Elements a byte of the types that a file packs, lowest bits first.
_PACKED = {"float4_e2m1fn": 2, "int4": 2, "uint4": 2, "int2": 4, "uint2": 4}


def dtype_of(element_type: int, where: str) -> DType:
    """The dtype of an ONNX element type code; `where` names the tensor in the `UnsupportedError` of an unknown one."""
    name = _DTYPES.get(element_type)
    if name is None:
        named = element_type in TensorProto.DataType.values()
        label = TensorProto.DataType.Name(element_type) if named else str(element_type)
        raise UnsupportedError(
            f"{where} has the element type {label}, which Tilewright does not support; "
            f"supported: {', '.join(sorted(_DTYPES.values()))}"
        )
    return DType(name)


def element_type_of(dtype: DType) -> int:
    """The ONNX element type code of a dtype."""
    return next(code for code, name in _DTYPES.items() if name == dtype)


def array_of(tensor: Any, directory: Path | None, where: str, raw: memoryview | None = None) -> np.ndarray:
    """The value of a `TensorProto` as a read-only array.

    Raw data (given apart as `raw` where the loader left it in the file, at whatever address) is viewed, else copied if
    it is not aligned; data in an external file (looked up under `directory`) is memory-mapped.
    Raises `ModelError` when the stored bytes do not fill the declared shape.
    """
    where = f"{where} {tensor.name!r}" if tensor.name else where
    element = dtype_of(tensor.data_type, where)
    dtype = element.numpy
    shape = tuple(tensor.dims)
    # without its axes of size 0 as well: NumPy refuses what they keep from being more than any memory
    most = math.prod(size or 1 for size in shape) * dtype.itemsize
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0 or (0 in shape and most >= 1 << 63):
        raise ModelError(f"{where} declares the impossible shape {list(shape)}; the file is damaged")
    count = math.prod(shape)
    if element.is_string:
        flat = np.array([text.decode("utf-8", "replace") for text in tensor.string_data], dtype)
    elif element in _PACKED:
        flat = _unpack(_packed_bytes(tensor, element, count, directory, where, raw), element, count)
    elif tensor.data_location == TensorProto.EXTERNAL:
        flat = _external(tensor, dtype, shape, directory, where)
    elif raw is not None or tensor.HasField("raw_data"):
        flat = _from_bytes(tensor.raw_data if raw is None else raw, dtype, where)
    else:
        flat = _typed(tensor, dtype)
    if flat.size != count:
        raise ModelError(
            f"{where} declares shape {list(shape)} ({count} elements) but holds {flat.size}; "
            "the file is truncated or damaged"
        )
    array = flat.reshape(shape)
    array.flags.writeable = False
    return array


def dense_array_of(sparse: Any, directory: Path | None, where: str) -> np.ndarray:
    """The value of a `SparseTensorProto` with its zeros, as a read-only array.

    Raises `ModelError` where values and positions do not fit, or zeros take more memory than a file of few bytes may
    ask."""
    where = f"{where} {sparse.values.name!r}" if sparse.values.name else where
    values, positions = array_of(sparse.values, directory, where), array_of(sparse.indices, directory, where)
    shape = tuple(sparse.dims)
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=1) < 1:
        raise ModelError(f"{where} declares the impossible shape {list(shape)}; the file is damaged")
    if math.prod(shape) * values.dtype.itemsize > _MOST_SPARSE_BYTES:
        raise UnsupportedError(
            f"{where} is a sparse tensor of shape {list(shape)}; it would take more than "
            f"{_MOST_SPARSE_BYTES >> 20} MiB with its zeros, which is how it is computed with"
        )
    flat = _flat_positions(positions, shape)
    if values.ndim != 1 or flat is None or flat.shape != values.shape or not _rising_below(flat, math.prod(shape)):
        raise ModelError(
            f"{where} is a sparse tensor of shape {list(shape)} with values {values.dtype}{list(values.shape)} at "
            f"{positions.dtype}{list(positions.shape)}: there must be an int64 position for each value, in rising order"
        )
    array = np.zeros(math.prod(shape), values.dtype)
    array[flat] = values
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def _flat_positions(positions: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Positions in the flattened tensor; None where they are none of such a tensor."""
    if positions.dtype != np.int64 or positions.ndim not in (1, 2):
        return None
    if positions.ndim == 1:
        return positions
    if positions.shape[1] != len(shape) or ((positions < 0) | (positions >= np.array(shape, np.int64))).any():
        return None
    return np.asarray(np.ravel_multi_index(tuple(positions.T), shape)) if len(positions) else np.zeros(0, np.int64)


def _rising_below(positions: np.ndarray, end: int) -> bool:
    return not positions.size or bool(positions[0] >= 0 and positions[-1] < end and (np.diff(positions) > 0).all())


def _from_bytes(raw: bytes | memoryview, dtype: np.dtype[Any], where: str) -> np.ndarray:
    if len(raw) % dtype.itemsize:
        raise ModelError(f"{where} holds {len(raw)} bytes, not a multiple of its element size {dtype.itemsize}")
    flat = np.frombuffer(raw, dtype=dtype)
    # NumPy reads what a file's map has at any address; a copy of it all would stay in memory for the whole compilation
    left_in_file = isinstance(raw, memoryview) and dtype.isbuiltin == 1
    return flat if flat.flags.aligned or left_in_file else flat.copy()


def _packed_bytes(
    tensor: Any, element: DType, count: int, directory: Path | None, where: str, raw: memoryview | None
) -> np.ndarray:
    """The bytes that hold `count` elements of a packed type."""
    size = -(-count // _PACKED[element])
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, np.dtype(np.uint8), (size,), directory, where)
    if raw is not None or tensor.HasField("raw_data"):
        return _from_bytes(tensor.raw_data if raw is None else raw, np.dtype(np.uint8), where)
    return np.array(tensor.int32_data, dtype=np.int32).astype(np.uint8)


def _unpack(packed: np.ndarray, element: DType, count: int) -> np.ndarray:
    """One element a byte, from bytes that hold several."""
    parts = _PACKED[element]
    bits = 8 // parts
    shifts = np.arange(parts, dtype=np.uint8) * np.uint8(bits)
    codes = (packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    return codes.reshape(-1)[:count].view(element.numpy)


def _typed(tensor: Any, dtype: np.dtype[Any]) -> np.ndarray:
    code = tensor.data_type
    if DType(dtype).is_narrow:
        return np.array(tensor.int32_data, dtype=np.uint8).view(dtype)
    if code in _BITS_IN_INT32:
        return np.array(tensor.int32_data, dtype=np.uint16).view(dtype)
    if code == TensorProto.FLOAT:
        values = tensor.float_data
    elif code == TensorProto.DOUBLE:
        values = tensor.double_data
    elif code == TensorProto.INT64:
        values = tensor.int64_data
    elif code in (TensorProto.UINT32, TensorProto.UINT64):
        values = tensor.uint64_data
    else:
        values = tensor.int32_data
    return np.array(values, dtype=dtype)


def _external(
    tensor: Any, dtype: np.dtype[Any], shape: tuple[int, ...], directory: Path | None, where: str
) -> np.ndarray:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if directory is None:
        raise ModelError(
            f"{where} keeps its data in the file {location!r}, and a model given as bytes has no directory to look in; "
            "pass the path of the model file"
        )
    path = _position_of_file(location, directory, where)
    needed = math.prod(shape) * dtype.itemsize
    offset, length = (_position(entries, key, default, where) for key, default in (("offset", 0), ("length", needed)))
    if length < needed:
        raise ModelError(f"{where} declares shape {list(shape)} ({needed} bytes) but keeps {length} bytes in {path}")
    size = path.stat().st_size
    if offset + needed > size:
        raise ModelError(f"{where} needs bytes {offset} to {offset + needed} of {path}, which has only {size}")
    if needed == 0:
        return np.zeros(0, dtype)
    try:
        mapped = np.memmap(path, dtype=np.uint8, mode="r", offset=offset, shape=(needed,))
    except OSError as error:
        raise ModelError(f"{where} needs the external data file {path}: {_reason(error)}") from None
    return np.frombuffer(mapped, dtype=dtype)


def _position_of_file(location: str, directory: Path, where: str) -> Path:
    """The file that `location` names below `directory`."""
    try:
        path = (directory / location).resolve()
        outside = not location or not path.is_relative_to(directory.resolve())
        exists = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, with a zero byte, a circle of links
        named = location if len(location) < 100 else f"{location[:100]}…"
        raise ModelError(f"{where} points to external data {named!r}, which is no path: {_reason(error)}") from None
    if outside:
        raise ModelError(f"{where} points to external data {location!r}, outside the model's directory {directory}")
    if not exists:
        raise ModelError(f"{where} needs the external data file {path}, which does not exist")
    return path


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _position(entries: Mapping[str, str], key: str, default: int, where: str) -> int:
    """The number in an entry of external data."""
    text = entries.get(key, str(default))
    if not text.isdecimal():
        raise ModelError(f"{where} has external data with the {key} {text!r}, which is no number; the file is damaged")
    return int(text)
