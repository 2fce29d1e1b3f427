"""Small helpers that the computes share: constant shapes, axes, flat indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.errors import TypeMismatchError, UnsupportedError
from tilewright.te import Tensor
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
    """An integer value as an index (int32)."""
    return cast("int32", value)


def accumulator_dtype(dtype: str) -> str:
    """The type to sum values of `dtype` in: float32 for half floats, else the type itself."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def four_sided(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right), from one number, a (height, width) pair or all four."""
    if isinstance(padding, int):
        return (padding,) * 4
    values = tuple(int(p) for p in padding)
    if len(values) == 2:
        return (*values, *values)
    if len(values) != 4:
        raise TypeMismatchError(
            f"padding {values} must be 1, 2 (height, width) or 4 (top, left, bottom, right) numbers"
        )
    return (values[0], values[1], values[2], values[3])


def pair(value: int | Sequence[Any]) -> tuple[Any, Any]:
    """(height, width) from one number or two, which may be symbolic sizes."""
    if isinstance(value, int):
        return (value, value)
    values = tuple(v if isinstance(v, Expr) else int(v) for v in value)
    if len(values) == 1:
        return (values[0], values[0])
    if len(values) != 2:
        raise TypeMismatchError(f"{values} must be one number or a (height, width) pair")
    return (values[0], values[1])
