"""Files of parameters: tensors one after another, in the order of their names, each with a small header.

A header is the version 0, how many levels of sequences the tensor has (with their offsets), the version of the tensor,
and its element type and shape as a protocol buffer.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.paddle.program import Value
from tilewright.frontend.paddle.schema import DTYPES, SCHEMA
from tilewright.frontend.source import Cursor, Source
from tilewright.frontend.wire import read_message

_WHAT = "a Paddle parameter file"
_MOST_HEADER = 4096


class ParameterFile:
    """The tensors of one file, taken in order."""

    def __init__(self, source: Source) -> None:
        self._file = Cursor(source, "Paddle parameter file")

    def take(self, wanted: Value) -> np.ndarray:
        """The next tensor, which must be `wanted`. Raises `ModelError`."""
        self._number("<I", "a version", most=0)
        for _ in range(self._number("<Q", "levels", most=16)):
            self._file.take(self._number("<Q", "offsets", most=len(self._file.contents)))
        self._number("<I", "a version", most=0)
        size = self._number("<i", "a header", most=_MOST_HEADER)
        desc = read_message(self._file.take(size), SCHEMA, "TensorDesc", self._file.label, _WHAT)
        shape = tuple(int(extent) for extent in desc.dims)
        if desc.data_type not in DTYPES or desc.data_type != wanted.dtype or shape != wanted.shape:
            raise ModelError(
                f"{self._file.label} has a {desc.data_type} tensor of shape {list(shape)} where the program has "
                f"{wanted.name!r}, {wanted.dtype} of {list(wanted.shape)}; the file is of another program"
            )
        return self._file.array(desc.data_type, shape)

    def check_end(self) -> None:
        """Raises `ModelError` where tensors are left over."""
        rest = len(self._file.contents) - self._file.position
        if rest:
            raise ModelError(f"{self._file.label} has {rest} bytes behind the program's parameters")

    def _number(self, form: str, what: str, most: int) -> int:
        value = self._file.number(form)
        if not 0 <= value <= most:
            raise self._file.damaged(f"{what} of {value} at byte {self._file.position}")
        return value
