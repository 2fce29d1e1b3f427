"""Files of parameters: tensors one after another, in the order of their names, each with a small header.

A header is the version 0, how many levels of sequences the tensor has (with their offsets), the version of the tensor,
and its element type and shape as a protocol buffer.
"""

from __future__ import annotations

import struct

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.paddle.program import Value
from tilewright.frontend.paddle.schema import DTYPES, SCHEMA
from tilewright.frontend.wire import read_message
from tilewright.support.dtype import DType

_WHAT = "a Paddle parameter file"
_MOST_HEADER = 4096


class ParameterFile:
    """The tensors of one file, taken in order."""

    def __init__(self, contents: memoryview, label: str) -> None:
        self._contents = contents
        self._label = label
        self._at = 0

    def take(self, wanted: Value) -> np.ndarray:
        """The next tensor, which must be `wanted`. Raises `ModelError`."""
        self._number("<I", "a version", most=0)
        for _ in range(self._number("<Q", "levels", most=16)):
            self._skip(self._number("<Q", "offsets", most=len(self._contents)))
        self._number("<I", "a version", most=0)
        size = self._number("<i", "a header", most=_MOST_HEADER)
        desc = read_message(self._bytes(size), SCHEMA, "TensorDesc", self._label, _WHAT)
        shape = tuple(int(extent) for extent in desc.dims)
        if desc.data_type not in DTYPES or desc.data_type != wanted.dtype or shape != wanted.shape:
            raise ModelError(
                f"{self._label} has a {desc.data_type} tensor of shape {list(shape)} where the program has "
                f"{wanted.name!r}, {wanted.dtype} of {list(wanted.shape)}; the file is of another program"
            )
        dtype = DType(desc.data_type).numpy
        count = int(np.prod(shape, dtype=object))
        return np.frombuffer(self._bytes(count * dtype.itemsize), dtype).reshape(shape)

    def check_end(self) -> None:
        """Raises `ModelError` where tensors are left over."""
        if self._at != len(self._contents):
            raise ModelError(
                f"{self._label} has {len(self._contents) - self._at} bytes behind the program's parameters"
            )

    def _bytes(self, count: int) -> memoryview:
        if not 0 <= count <= len(self._contents) - self._at:
            raise ModelError(
                f"{self._label} ({len(self._contents)} bytes) is a truncated or damaged Paddle parameter file: "
                f"{count} bytes are needed at byte {self._at}"
            )
        self._at += count
        return self._contents[self._at - count : self._at]

    def _skip(self, count: int) -> None:
        self._bytes(count)

    def _number(self, form: str, what: str, most: int) -> int:
        (value,) = struct.unpack(form, self._bytes(struct.calcsize(form)))
        if not 0 <= value <= most:
            raise ModelError(f"{self._label} is a damaged Paddle parameter file: {what} of {value} at byte {self._at}")
        return int(value)
