"""Reference softmax, normalizations, padding and products in NumPy; sums run in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.support.dtype import DType

#: Terms from which on a product's sums run in float64: which way BLAS adds them up is its own affair.
_LONG = 4096


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """exp(x - max) / sum along `axis`."""
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=axis, keepdims=True)) if wide.size else wide
    return (e / e.sum(axis=axis, keepdims=True)).astype(x.dtype)


def log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """x - max - log(sum(exp(x - max))) along `axis`."""
    wide = x.astype(np.float64)
    shifted = wide - wide.max(axis=axis, keepdims=True) if wide.size else wide
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(x.dtype)


def layer_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, axis: int = -1, epsilon: float = 1e-5, **_: Any
) -> np.ndarray:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta along `axis`."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=axis, keepdims=True)
    scale = 1.0 / np.sqrt(np.square(centred).mean(axis=axis, keepdims=True) + epsilon)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return (centred * scale * gamma.reshape(shape) + beta.reshape(shape)).astype(x.dtype)


def group_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, num_groups: int, axis: int = 1, epsilon: float = 1e-5
) -> np.ndarray:
    """Normalization over every axis but the batch (0), in `num_groups` parts of `axis`."""
    moved = np.moveaxis(x.astype(np.float64), axis, 1)
    parts = moved.reshape(x.shape[0], num_groups, -1)
    centred = parts - parts.mean(axis=2, keepdims=True)
    scaled = centred / np.sqrt(np.square(centred).mean(axis=2, keepdims=True) + epsilon)
    shape = [1, -1] + [1] * (x.ndim - 2)
    result = scaled.reshape(moved.shape) * gamma.reshape(shape) + beta.reshape(shape)
    return np.moveaxis(result, 1, axis).astype(x.dtype)


def batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> np.ndarray:
    """Inference form: (x - mean) / sqrt(variance + epsilon) * gamma + beta per element of `axis`."""
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    shift = beta - mean * scale
    return (x * scale.reshape(shape) + shift.reshape(shape)).astype(x.dtype)


def lrn(x: np.ndarray, size: int, axis: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    """x / (bias + alpha / size * sum of squares over `size` neighbours along `axis`) ** beta."""
    squares = np.moveaxis(np.square(x.astype(np.float64)), axis, 0)
    before = (size - 1) // 2
    padded = np.pad(squares, [(before, size - 1 - before)] + [(0, 0)] * (x.ndim - 1))
    windows = [padded[i : i + x.shape[axis]] for i in range(size)]
    total = np.moveaxis(np.sum(windows, axis=0), 0, axis)
    return (x / (bias + alpha / size * total) ** beta).astype(x.dtype)


def pad(x: np.ndarray, pad_width: Sequence[Sequence[int]], mode: str = "constant", value: Any = 0) -> np.ndarray:
    """`x` with (before, after) elements added per axis: a constant, the mirror image or the edge."""
    if any(p < 0 for pair in pad_width for p in pair):
        cut = tuple(slice(max(0, -b), size - max(0, -a)) for (b, a), size in zip(pad_width, x.shape))
        x, pad_width = x[cut], [(max(0, b), max(0, a)) for b, a in pad_width]
    if mode == "constant":
        return np.pad(x, pad_width, constant_values=value)
    return np.pad(x, pad_width, mode="reflect" if mode == "reflect" else "edge")


def dense(data: np.ndarray, weight: np.ndarray, weight_layout: str = "NC", out_dtype: str = "") -> np.ndarray:
    """data [..., K] times the transpose of weight [N, K], or of weight [N/b, K, b] in layout NC{b}n (or NK{b}n)."""
    if weight.ndim == 3:
        weight = weight.transpose(0, 2, 1).reshape(-1, weight.shape[1])
    return product(data, weight.T, out_dtype)


def batch_matmul(
    a: np.ndarray, b: np.ndarray, transpose_a: bool = False, transpose_b: bool = True, out_dtype: str = ""
) -> np.ndarray:
    """Matrix products of stacks; the last two axes of either operand may be transposed first."""
    return product(a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b, out_dtype)


def product(a: np.ndarray, b: np.ndarray, out_dtype: str = "") -> np.ndarray:
    """`a @ b`; half floats sum in float32, long sums of floats in float64, narrow integers in int32."""
    result_type = np.dtype(out_dtype) if out_dtype else a.dtype
    narrow_float = result_type.kind not in "iub" and result_type.itemsize < 4
    work: Any = np.float32 if narrow_float else result_type
    if result_type.kind not in "iub" and a.shape[-1] > _LONG:
        work = np.float64
    if result_type.kind in "iu":  # NumPy's common type of uint64 and any signed one is a float
        work = np.int32 if result_type.itemsize < 4 else result_type
    elif a.dtype.kind in "iu":
        work = np.result_type(result_type, np.int32)
    return np.matmul(a.astype(work), b.astype(work)).astype(result_type)


def attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None = None,
    scale: float = 1.0,
    causal: bool = False,
    out_layout: str = "BHSD",
) -> np.ndarray:
    """softmax(query key^T scale + mask) value of [B, H, M, D], [B, G, N, D] and [B, G, N, E], H a multiple of G."""
    group = query.shape[1] // key.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=1) for x in (key, value))
    scores = np.einsum("bhmd,bhnd->bhmn", query.astype(np.float64), k) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    result = np.einsum("bhmn,bhne->bhme", softmax(scores), v).astype(query.dtype)
    return result if out_layout == "BHSD" else result.transpose(0, 2, 1, 3)


def attention_backward(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    gradient: np.ndarray,
    mask: np.ndarray | None = None,
    scale: float = 1.0,
    causal: bool = False,
) -> list[np.ndarray]:
    """The gradients of query, key and value, all of one shape, of `attention` from that of its result."""
    q, k, v, g = (x.astype(np.float64) for x in (query, key, value, gradient))
    scores = np.einsum("bhmd,bhnd->bhmn", q, k) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    weights = softmax(scores)
    of_weights = np.einsum("bhme,bhne->bhmn", g, v)
    of_scores = weights * (of_weights - (weights * of_weights).sum(axis=-1, keepdims=True)) * scale
    found = [
        np.einsum("bhmn,bhnd->bhmd", of_scores, k),
        np.einsum("bhmn,bhmd->bhnd", of_scores, q),
        np.einsum("bhmn,bhme->bhne", weights, g),
    ]
    return [x.astype(query.dtype) for x in found]


def narrow_attention(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None,
    scale: float,
    causal: bool,
    out_layout: str,
    operands: str,
) -> np.ndarray:
    """`attention` whose products read numbers rounded to `operands`; the weights of a row are, too."""
    dtype, group = DType(operands).numpy, query.shape[1] // key.shape[1]
    scaled = query.astype(np.float32) * np.float32(scale * np.log2(np.e))
    q, k, v = (x.astype(np.float32).astype(dtype).astype(np.float64) for x in (scaled, key, value))
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    scores = np.einsum("bhmd,bhnd->bhmn", q, k)
    if mask is not None:
        scores = scores + mask.astype(np.float64) * np.log2(np.e)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    weights = np.exp2(scores - scores.max(axis=-1, keepdims=True)).astype(dtype).astype(np.float64)
    result = np.einsum("bhmn,bhne->bhme", weights, v) / weights.sum(axis=-1, keepdims=True)
    result = result.astype(query.dtype)
    return result if out_layout == "BHSD" else result.transpose(0, 2, 1, 3)
