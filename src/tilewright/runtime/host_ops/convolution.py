"""Convolutions of ONNX on the host, for tensors whose sizes only a run can tell: weights that are inputs, for one.

Sums are taken in float32 for 16-bit floats, in int32 for codes, else in the type of the data. Any number of axes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op
from tilewright.runtime.host_ops.windows import Array, Attrs, axes_of, taps_of
from tilewright.support.dtype import DType


def _wide(data: Array) -> Array:
    return data.astype(np.float32) if DType(data.dtype).is_half else data


def _biased(total: Array, bias: Array | None) -> Array:
    """`total` [N, M, …] plus a number a channel."""
    return total if bias is None else total + _along(bias.astype(total.dtype), total.shape, 1)


def _along(values: Array, shape: tuple[int, ...], axis: int) -> Array:
    """One of `values` for each element along an axis of `shape`, such that they broadcast beside it."""
    if values.size != shape[axis]:
        raise InputError(f"{values.size} values for {shape[axis]} elements of axis {axis} of the shape {shape}")
    return values.reshape(-1, *[1] * (len(shape) - axis - 1))


def _convolved(attrs: Attrs, data: Array, weight: Array) -> Array:
    """The sums of windows of `data` [N, C, …] times `weight` [M, C / groups, …]: [N, M, steps …]."""
    groups = int(attrs.get("group", 1))
    if data.ndim != weight.ndim or data.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ValueError(f"weights of shape {weight.shape} in {groups} groups for data of shape {data.shape}")
    axes = axes_of({**attrs, "kernel_shape": weight.shape[2:]}, data.shape[2:])
    taps = taps_of(data, axes, 0)
    steps = taps.shape[2:-1]
    columns = taps.reshape(data.shape[0], groups, data.shape[1] // groups, math.prod(steps), taps.shape[-1])
    kernels = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], taps.shape[-1])
    total = np.einsum("ngcpt,goct->ngop", columns, kernels, optimize=True)
    return total.reshape(data.shape[0], weight.shape[0], *steps)


@onnx_op("Conv")
def conv(attrs: Attrs, data: Array, weight: Array, bias: Array | None = None) -> Array:
    """A convolution, [N, M, …], with a number added a channel."""
    return np.asarray(_biased(_convolved(attrs, _wide(data), _wide(weight)), bias), data.dtype)


def _less_zero(codes: Array, zero: Array | None, along: int = 0) -> Array:
    """Codes less their zero point in int32; several zero points are those of the elements along an axis."""
    if zero is None:
        return codes.astype(np.int32)
    points = zero.astype(np.int32)
    return codes.astype(np.int32) - (_along(points, codes.shape, along) if zero.size > 1 else points.reshape(()))


@onnx_op("ConvInteger")
def conv_integer(
    attrs: Attrs, data: Array, weight: Array, zero: Array | None = None, weight_zero: Array | None = None
) -> Array:
    """The convolution of codes less their zero points, in int32; padding stands for zero."""
    return _convolved(attrs, _less_zero(data, zero), _less_zero(weight, weight_zero)).astype(np.int32)


@onnx_op("QLinearConv")
def qlinear_conv(
    attrs: Attrs,
    data: Array,
    scale: Array,
    zero: Array,
    weight: Array,
    weight_scale: Array,
    weight_zero: Array,
    out_scale: Array,
    out_zero: Array,
    bias: Array | None = None,
) -> Array:
    """`conv_integer` with a bias of int32, as codes of the output's scale and zero point."""
    total = _biased(_convolved(attrs, _less_zero(data, zero), _less_zero(weight, weight_zero)), bias)
    each = weight_scale.astype(np.float32)
    each = _along(each, total.shape, 1) if each.size > 1 else each.reshape(())
    factor = scale.astype(np.float32).reshape(()) * each / out_scale.astype(np.float32).reshape(())
    codes = np.rint(total.astype(np.float32) * factor) + out_zero.astype(np.float32).reshape(())
    limits = np.iinfo(out_zero.dtype)
    return np.clip(codes, limits.min, limits.max).astype(out_zero.dtype)


@onnx_op("ConvTranspose")
def conv_transpose(attrs: Attrs, data: Array, weight: Array, bias: Array | None = None) -> Array:
    """A transposed convolution with weights [C, M / groups, …]: each element adds its product with the kernel."""
    groups, rank = int(attrs.get("group", 1)), data.ndim - 2
    if data.ndim != weight.ndim or data.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise ValueError(f"weights of shape {weight.shape} in {groups} groups for data of shape {data.shape}")
    strides, dilations = attrs.get("strides") or [1] * rank, attrs.get("dilations") or [1] * rank
    cut = _cut(attrs, data.shape[2:], weight.shape[2:], strides, dilations)
    outputs = weight.shape[1] * groups
    parts = _wide(data).reshape(data.shape[0], groups, data.shape[1] // groups, *data.shape[2:])
    kernels = _wide(weight).reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    whole = np.zeros((data.shape[0], outputs, *[before + size + after for before, size, after in cut]), parts.dtype)
    for tap in np.ndindex(*weight.shape[2:]):
        product = np.einsum("ngc...,gco->ngo...", parts, kernels[(..., *tap)])
        where = [
            slice(t * d, t * d + (size - 1) * s + 1, s)
            for t, d, s, size in zip(tap, dilations, strides, data.shape[2:])
        ]
        whole[(slice(None), slice(None), *where)] += product.reshape(data.shape[0], outputs, *data.shape[2:])
    kept = [slice(before, before + size) for before, size, _ in cut]
    return np.asarray(_biased(whole[(slice(None), slice(None), *kept)], bias), data.dtype)


def _cut(attrs: Attrs, extents: Any, kernel: Any, strides: Any, dilations: Any) -> list[tuple[int, int, int]]:
    """Of each axis what is cut off the products before, what is kept, and what is cut off behind."""
    rank, mode = len(extents), attrs.get("auto_pad", "NOTSET")
    extra, pads = list(attrs.get("output_padding") or [0] * rank), attrs.get("pads") or [0] * 2 * rank
    wanted = attrs.get("output_shape") or None
    if wanted is None and mode.startswith("SAME"):
        wanted = [extent * stride for extent, stride in zip(extents, strides)]
    cut = []
    for axis, extent in enumerate(extents):
        full = strides[axis] * (extent - 1) + extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        before, after = (0, 0) if mode == "VALID" else (pads[axis], pads[axis + rank])
        if wanted is not None:
            total = full - wanted[axis - rank]
            full, total = full - min(total, 0), max(total, 0)
            before, after = total - total // 2, total // 2
            if mode == "SAME_UPPER":
                before, after = after, before
        if full - before - after < 1:
            raise InputError(
                f"the padding {before} and {after} leaves nothing of {full} elements along axis {axis + 2}"
            )
        cut.append((before, full - before - after, after))
    return cut
