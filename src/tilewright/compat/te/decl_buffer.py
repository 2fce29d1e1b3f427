"""`tir.decl_buffer` with the classic arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.compat.ir.meanings import only
from tilewright.errors import UnsupportedError
from tilewright.tir.buffer import Buffer


def decl_buffer(
    shape: Any,
    dtype: str | None = None,
    name: str = "buffer",
    data: Any = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
    span: Any = None,
) -> Buffer:
    """A buffer of `shape`; variables among `strides` take the strides found where a tensor is bound to it.

    An offset of its elements is part of its address here, so `elem_offset` and `offset_factor` only allow one, which
    is always so. Raises `UnsupportedError` for a given `data` pointer or broadcasting.
    """
    if data is not None or buffer_type == "auto_broadcast":
        raise UnsupportedError(f"decl_buffer {name}: data= and auto_broadcast buffers are not supported")
    if isinstance(elem_offset, int):
        only("decl_buffer", "elem_offset", elem_offset, 0)
    dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    alignment = data_alignment if data_alignment > 0 else 64
    return Buffer(name, dims, dtype or "float32", scope or "global", strides or None, alignment)
