"""`topi.testing`: what operators compute, in NumPy, with the classic arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.compat.relay.nn_operators import adaptive_pool3d
from tilewright.compat.topi.through_relay import as_reference
from tilewright.topi.reference import nn, pooling, resize, transform

Array = np.ndarray[Any, Any]


def dilate_python(
    input_np: Array, strides: Sequence[int], dilation_value: float = 0.0, out_dtype: str | None = None
) -> Array:
    """strides[d] - 1 elements of `dilation_value` between neighbours along dimension d."""
    shape = [(size - 1) * step + 1 for size, step in zip(input_np.shape, strides, strict=True)]
    out = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    out[tuple(slice(None, None, step) for step in strides)] = input_np
    return out


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """exp(a) over its sum along `axis`."""
    return nn.softmax(a_np, axis)


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """The logarithm of the softmax along `axis`."""
    return nn.log_softmax(a_np, axis)


def l2_normalize_python(a_np: Array, eps: float, axis: Any = None) -> Array:
    """a over the root of its sum of squares along `axis`, which is taken as at least `eps`."""
    squares = np.sum(np.square(a_np), axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=True)
    return a_np / np.sqrt(np.maximum(squares, eps))


def strided_slice_python(
    data: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Any = None,
    slice_mode: str = "end",
    axes: Any = None,
) -> Array:
    """Python slicing; in the mode "size", `end` has how many elements are taken, -1 for all that are left."""
    if slice_mode == "size":
        sizes = [data.shape[axis] for axis in (axes or range(len(begin)))]
        end = [size if count == -1 else first + count for first, count, size in zip(begin, end, sizes, strict=True)]
        strides = None
    steps = strides if not isinstance(strides, list | tuple) or strides else None
    return transform.strided_slice(data, begin, end, steps, axes)


def one_hot(indices: Array, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str) -> Array:
    """`on_value` where the position along a new axis is the index, else `off_value`."""
    positions = np.where(np.eye(depth, dtype=bool)[indices], on_value, off_value).astype(dtype)
    return np.moveaxis(positions, -1, axis)


def resize2d_python(
    data: Array,
    scale: Sequence[float],
    layout: str = "NCHW",
    method: str = "bilinear",
    coordinate_transformation_mode: str = "align_corners",
) -> Array:
    """An image `scale` times as high and wide; the nearest element is the one before, but for aligned corners."""
    rows, columns = (data.shape[layout.index(axis)] * factor for axis, factor in zip("HW", scale, strict=True))
    rounding = "round_prefer_ceil" if coordinate_transformation_mode == "align_corners" else "floor"
    attrs = {
        "layout": layout, "size": (int(rows), int(columns)), "scales": (), "cubic_alpha": -0.5, "cubic_exclude": 0,
        "method": {"bilinear": "linear", "bicubic": "cubic"}.get(method, method), "antialias": False,
        "coordinate_transformation_mode": coordinate_transformation_mode, "rounding_method": rounding,
        "extrapolation_value": 0.0,
    }  # fmt: skip
    return resize.resize2d(data, attrs)


def batch_matmul(
    x: Array, y: Array, out_dtype: str | None = None, trans_x: bool = False, trans_y: bool = True
) -> Array:
    """x [B, M, K] times y [B, N, K] transposed, computed in `out_dtype`; the flags say which comes transposed."""
    left, right = (one.astype(out_dtype or x.dtype) for one in (x, y))
    left = left.transpose(0, 2, 1) if trans_x else left
    return np.matmul(left, right.transpose(0, 2, 1) if trans_y else right)


def dense(
    x: Array, y: Array, bias: Array, use_bias: bool = False, use_relu: bool = False, out_dtype: Any = None
) -> Array:
    """x [M, K] times y [N, K] transposed, with a bias and a relu on request."""
    out = np.matmul(x.astype(out_dtype or x.dtype), y.T.astype(out_dtype or x.dtype))
    out = out + bias if use_bias else out
    return np.maximum(out, 0) if use_relu else out


def adaptive_pool(np_data: Array, out_size: int | Sequence[int], pool_type: str, layout: str) -> Array:
    """Pooling over windows that divide the row, image, or volume, into `out_size` parts."""
    if len(layout) == 3:
        length = out_size if isinstance(out_size, int) else out_size[0]
        image = np.expand_dims(np_data, layout.index("W"))
        pooled = pooling.adaptive_pool2d(image, pool_type, (1, length), layout.replace("W", "HW"))
        return pooled.squeeze(layout.index("W"))
    if isinstance(out_size, int):
        out_size = (out_size,) * (len(layout) - 2)
    if len(out_size) == 3:
        return as_reference(adaptive_pool3d)(np_data, out_size, pool_type, layout)
    return pooling.adaptive_pool2d(np_data, pool_type, out_size, layout)
