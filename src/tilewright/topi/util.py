"""Small helpers that the computes share: constant shapes, axes, flat indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.errors import TypeMismatchError, UnsupportedError
from tilewright.support.dtype import DType
from tilewright.te import Tensor, index_dtype
from tilewright.tir import Expr, IntImm, cast


def constant_shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape of `tensor` as integers (the classic `get_const_tuple`). Raises UnsupportedError if one is symbolic."""
    sizes = [dim.value for dim in tensor.shape if isinstance(dim, IntImm)]
    if len(sizes) != len(tensor.shape):
        raise UnsupportedError(f"{tensor.name} has a symbolic shape {tensor.shape}; this operator needs constant sizes")
    return tuple(sizes)


def extents(tensor: Tensor) -> tuple[Any, ...]:
    """The shape of `tensor`: an int for each constant dimension, an expression for each symbolic one."""
    return tuple(dim.value if isinstance(dim, IntImm) else dim for dim in tensor.shape)


def normalize_axis(axis: int, ndim: int) -> int:
    """`axis` counted from the front. Raises TypeMismatchError if it is out of range."""
    if not -ndim <= axis < ndim:
        raise TypeMismatchError(f"axis {axis} is out of range for {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, exclude: bool = False) -> tuple[int, ...]:
    """The axes to reduce over, sorted: all for None; with `exclude` all but the given ones."""
    if axis is None:
        return () if exclude else tuple(range(ndim))
    given = {normalize_axis(a, ndim) for a in ([axis] if isinstance(axis, int) else axis)}
    return tuple(a for a in range(ndim) if (a in given) != exclude)


def flatten_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The row-major position of element `indices` of an array of `shape`."""
    flat: Any = 0
    for index, size in zip(indices, shape):
        flat = flat * size + index
    return flat


def unflatten_index(flat: Any, shape: Sequence[Any]) -> list[Any]:
    """The inverse of `flatten_index`."""
    indices: list[Any] = []
    for d, size in enumerate(shape):
        inner = math.prod(shape[d + 1 :])
        index = flat if isinstance(inner, int) and inner <= 1 else flat // inner
        if isinstance(size, int) and size <= 1:
            indices.append(0)
        else:
            indices.append(index % size if d else index)
    return indices


def as_index(value: Expr) -> Expr:
    """An integer value as an index, of the index type that is open."""
    return cast(index_dtype(), value)


def constant(value: float, dtype: DType) -> Expr:
    """A number of any element type; of narrow floats, which have no constants, by its bits."""
    if dtype.is_narrow and "float" in str(dtype):
        bits = np.array(value, np.float32).astype(dtype.numpy).view(np.uint8)
        return tir.reinterpret(str(dtype), tir.const(int(bits), "uint8"))
    return tir.const(value, dtype)


def clamped(index: Any, size: Any) -> Any:
    """`index`, or the nearest of 0 … size - 1."""
    return tir.minimum(tir.maximum(index, 0), size - 1)


def lowest(dtype: Any) -> Any:
    """The number of `dtype` that never wins a maximum."""
    return dtype.extremes()[0]


def accumulator_dtype(dtype: str) -> str:
    """The type to sum values of `dtype` in: float32 for half floats, else the type itself."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def average_dtype(dtype: DType, count: Any) -> str:
    """The type to sum `count` values of `dtype` in for their mean: one that holds the sum, of integers up to 32 bits.

    The sum of a small window of up to 16 bits is an int32, which has twice the lanes of an int64.
    """
    if not dtype.is_int or dtype.bits == 64:
        return accumulator_dtype(dtype)
    few = dtype.bits < 32 and isinstance(count, int) and count <= 1 << (31 - dtype.bits)
    return "int32" if few else "int64"


def per_axis(value: int | Sequence[Any], count: int) -> tuple[Any, ...]:
    """One number, which may be a symbolic size, for each of `count` axes. Raises TypeMismatchError."""
    given = (value,) if isinstance(value, int) else tuple(v if isinstance(v, Expr) else int(v) for v in value)
    values = given * count if len(given) == 1 else given
    if len(values) != count:
        raise TypeMismatchError(f"{given}: one number, or one for each of {count} axes is needed")
    return values


def sides(padding: int | Sequence[int], count: int) -> tuple[int, ...]:
    """(before …, after …) of `count` axes, from one number, one an axis, or all of them. Raises TypeMismatchError."""
    given = (padding,) if isinstance(padding, int) else tuple(int(p) for p in padding)
    if len(given) not in (1, count, 2 * count):
        raise TypeMismatchError(f"padding {given}: one number, one for each of {count} axes or two for each is needed")
    return given if len(given) == 2 * count else per_axis(given, count) * 2


def pair(value: int | Sequence[Any]) -> tuple[Any, Any]:
    """(height, width) from one number or two, which may be symbolic sizes. Raises TypeMismatchError."""
    height, width = per_axis(value, 2)
    return height, width


def four_sided(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) from one number, (height, width) or all four. Raises TypeMismatchError."""
    top, left, bottom, right = sides(padding, 2)
    return top, left, bottom, right
