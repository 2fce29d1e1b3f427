"""Tensors of TensorFlow's files as arrays, their declared sizes checked against their contents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.messages import Record
from tilewright.frontend.tensorflow.schema import STRING, described, type_name, value_field
from tilewright.support.dtype import DType

#: A tensor whose one number stands for all has so many elements at most.
_MOST_REPEATED = 1 << 28


def shape_of_proto(shape: Record) -> tuple[int, ...] | None:
    """The extents, -1 where unknown; None for an unknown rank."""
    return None if shape.unknown_rank else tuple(int(dim.size) for dim in shape.dim)


def array_of(tensor: Record, label: str) -> np.ndarray:
    """The array of a TensorProto. Raises `ModelError` if its contents do not match its declared shape."""
    shape = shape_of_proto(tensor.tensor_shape)
    if shape is None or min(shape, default=0) < 0:
        raise ModelError(f"{label}: a constant of unknown shape")
    if tensor.dtype == STRING:
        return np.asarray([bytes(item) for item in tensor.string_val], dtype=object)
    name = type_name(tensor.dtype)
    if name is None:
        raise UnsupportedError(f"{label}: a constant of {described(tensor.dtype)}, which is not supported")
    kind, count = DType(name).numpy, math.prod(shape)
    if tensor.has("tensor_content"):
        return from_bytes(tensor.tensor_content, kind, shape, label)
    given = np.asarray(getattr(tensor, value_field(tensor.dtype)))
    if name in ("float16", "bfloat16"):
        given = given.astype(np.uint16).view(kind)
    if count and not given.size:
        given = np.zeros(1)
    if given.size > count or count > max(_MOST_REPEATED // kind.itemsize, given.size):
        raise ModelError(f"{label}: {given.size} numbers for a constant of shape {list(shape)}")
    if given.size == count:
        return given.astype(kind).reshape(shape)
    last = np.full(count, given[-1], kind)  # the last number given stands for the rest
    last[: given.size] = given
    return last.reshape(shape)


def from_bytes(data: Any, kind: np.dtype[Any], shape: tuple[int, ...], label: str) -> np.ndarray:
    """Bytes as an array of this shape."""
    count = math.prod(shape)
    if len(data) != count * kind.itemsize:
        raise ModelError(f"{label}: {len(data)} bytes for {kind} of shape {list(shape)}")
    return np.frombuffer(data, kind, count).reshape(shape).copy()
