"""Products and searches of ONNX on the host, for tensors whose sizes only a run can tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.onnx_op import onnx_op, require_shape
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


@onnx_op("MatMul")
def matmul(attrs: Attrs, left: Array, right: Array) -> Array:
    """The product as NumPy defines it; of 16-bit floats summed in float32."""
    if not DType(left.dtype).is_half:
        return np.asarray(np.matmul(left, right))
    return np.asarray(np.matmul(left.astype(np.float32), right.astype(np.float32)), left.dtype)


@onnx_op("Einsum")
def einsum(attrs: Attrs, *operands: Array) -> Array:
    """The sum of products that the equation describes; sums of floats, which NumPy adds up in a row, in float64."""
    kind = operands[0].dtype
    wide = [x.astype(np.float64) for x in operands] if DType(kind).is_float else operands
    return np.asarray(np.einsum(attrs["equation"], *wide), kind)


@onnx_op("MatMulInteger")
def matmul_integer(
    attrs: Attrs, left: Array, right: Array, left_zero: Array | None = None, right_zero: Array | None = None
) -> Array:
    """The product of codes less their zero points in int32, which wraps; a zero point a row of the left side."""
    rows = _less_zero(left, left_zero[..., None] if left_zero is not None and left_zero.ndim else left_zero)
    return np.asarray(np.matmul(rows, _less_zero(right, right_zero)), np.int32)


def _less_zero(codes: Array, zero: Array | None) -> Array:
    """Codes less their zero points, of which there may be no more than codes, in int32."""
    made = codes.astype(np.int32) - (0 if zero is None else zero.astype(np.int32))
    require_shape("codes less their zero points", made, codes.shape)
    return np.asarray(made)


def _searched(find: Any, attrs: Attrs, data: Array) -> Array:
    axis, keep = int(attrs.get("axis", 0)), bool(attrs.get("keepdims", 1))
    if attrs.get("select_last_index", 0):
        return np.asarray(data.shape[axis] - 1 - find(np.flip(data, axis), axis=axis, keepdims=keep), np.int64)
    return np.asarray(find(data, axis=axis, keepdims=keep), np.int64)


@onnx_op("ArgMax")
def arg_max(attrs: Attrs, data: Array) -> Array:
    """The index of the largest element along an axis: the first of equal ones, or the last."""
    return _searched(np.argmax, attrs, data)


@onnx_op("ArgMin")
def arg_min(attrs: Attrs, data: Array) -> Array:
    """The index of the smallest element along an axis: the first of equal ones, or the last."""
    return _searched(np.argmin, attrs, data)
