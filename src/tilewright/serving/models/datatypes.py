"""Element types by their names in the Open Inference Protocol, and tensors as its bytes."""

from __future__ import annotations

import math
import struct
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.runtime.signature import TensorSpec, ValueSpec
from tilewright.serving.models.errors import RequestError

_NUMPY: dict[str, Any] = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BYTES": np.object_, "BF16": ml_dtypes.bfloat16,
}  # fmt: skip
#: In the order of their numbers in configurations over gRPC, which begin with 1.
NUMPY = {name: np.dtype(kind) for name, kind in _NUMPY.items()}
_NAMES = {dtype: name for name, dtype in NUMPY.items()}
_LENGTH = struct.Struct("<I")
#: Bytes that are copied sooner than a view of them is made.
_SMALL = 4096


def datatype(spec: TensorSpec) -> str:
    """The protocol's name of an element type. Raises `UnsupportedError` where it has none."""
    name = None if isinstance(spec, ValueSpec) else _NAMES.get(spec.numpy)
    if name is None:
        raise UnsupportedError(f"{spec} cannot be served: the protocol has tensors of {', '.join(NUMPY)} alone")
    return name


def from_bytes(data: memoryview, name: str, shape: tuple[int, ...], tensor: str) -> np.ndarray[Any, Any]:
    """A tensor from its raw bytes, which it shares. Raises `RequestError` where they do not fit the shape."""
    count = math.prod(shape)
    if name == "BYTES":
        return texts_from_bytes(data, count, tensor).reshape(shape)
    dtype = NUMPY[name]
    if len(data) != count * dtype.itemsize:
        raise RequestError(
            f"input {tensor!r} has {len(data)} bytes, and {name}{list(shape)} takes {count * dtype.itemsize}"
        )
    return np.frombuffer(data, dtype, count).reshape(shape)


def texts_from_bytes(data: memoryview, count: int, tensor: str) -> np.ndarray[Any, Any]:
    """Texts, each behind its length in four bytes. Raises `RequestError` where there are not `count`."""
    texts: list[str] = []
    position, end = 0, len(data)
    while position + 4 <= end and len(texts) <= count:
        (length,) = _LENGTH.unpack_from(data, position)
        position += 4
        if length > end - position:
            break
        texts.append(_text(bytes(data[position : position + length]), tensor))
        position += length
    if position != end or len(texts) != count:
        raise RequestError(f"input {tensor!r} does not hold {count} elements, each behind its length in four bytes")
    return texts_array(texts)


def texts_array(texts: list[str]) -> np.ndarray[Any, Any]:
    """An array of objects, one a text."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def _text(element: bytes, tensor: str) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError:
        raise RequestError(f"input {tensor!r} has an element that is no text in UTF-8") from None


def from_values(values: Any, name: str, shape: tuple[int, ...], tensor: str) -> np.ndarray[Any, Any]:
    """A tensor from numbers or texts as JSON has them, flat or nested. Raises `RequestError` for others."""
    dtype = NUMPY[name]
    try:
        array = np.asarray(values, object if name == "BYTES" else None)
        if array.size == 0:
            array = array.astype(dtype)
        if array.size != math.prod(shape):
            raise RequestError(f"input {tensor!r} has {array.size} elements, and its shape {list(shape)} others")
        if name == "BYTES":
            return texts_array([_as_text(one, tensor) for one in array.ravel().tolist()]).reshape(shape)
        if not _holds(array, dtype):
            raise RequestError(f"input {tensor!r} has data that are no {name}")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, dtype).reshape(shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise RequestError(f"input {tensor!r} has data that are no {name}{list(shape)}: {error}") from None


def _holds(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> bool:
    """True if numbers of JSON, as NumPy reads them, are of a type: no fraction in an integer, none out of its range."""
    if dtype.kind == "b" or array.dtype.kind == "b":
        return array.dtype.kind == dtype.kind
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        in_range = array.size == 0 or (int(array.min()) >= bounds.min and int(array.max()) <= bounds.max)
        return array.dtype.kind in "iu" and in_range
    return array.dtype.kind in "iuf"


def _as_text(one: Any, tensor: str) -> str:
    if isinstance(one, bytes):
        return _text(one, tensor)
    if not isinstance(one, str):
        raise RequestError(f"input {tensor!r} has an element that is no text: {type(one).__name__}")
    return one


def to_bytes(array: np.ndarray[Any, Any]) -> Any:
    """The raw bytes of a tensor: a view where there is one."""
    if array.dtype.kind == "O":
        elements = [text.encode() if isinstance(text, str) else bytes(text) for text in array.ravel().tolist()]
        return b"".join([part for one in elements for part in (_LENGTH.pack(len(one)), one)])
    if array.nbytes <= _SMALL:
        return array.tobytes()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def to_values(array: np.ndarray[Any, Any]) -> list[Any]:
    """A tensor as a flat list for JSON."""
    if array.dtype.kind not in "biufO":  # bfloat16
        array = array.astype(np.float32)
    return array.ravel().tolist()


def shape_of(spec: TensorSpec) -> list[int]:
    """The shape as the protocol has it, -1 for a dimension that a request may choose."""
    return [dim if isinstance(dim, int) else -1 for dim in spec.shape]
