"""Descriptions (see `through_relay`) of classic `topi` operators that came after v0.8.

Each function takes Relay expressions in place of tensors; the other arguments are the classic ones, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Tuple
from tilewright.relay.ir.type_of import tensor_type_of


def _axes(data: Expr, axis: Any) -> list[int]:
    rank = len(tensor_type_of(data).shape)
    return sorted(int(one) % rank for one in (axis if isinstance(axis, list | tuple) else [axis]))


def _over(vector: Expr, data: Expr, axes: Sequence[int]) -> Expr:
    """`vector`, whose dimensions are the axes `axes` of `data`, in a shape that broadcasts over `data`."""
    shape = tensor_type_of(data).shape
    return op.reshape(vector, [size if position in axes else 1 for position, size in enumerate(shape)])


def _standard(data: Expr, axes: Sequence[int], epsilon: float) -> Expr:
    """`data` with mean 0 and variance 1 over `axes`, computed in float32 at least."""
    mean = op.mean(data, axes, keepdims=True)
    centred = data - mean
    variance = op.mean(centred * centred, axes, keepdims=True)
    return centred * op.rsqrt(variance + op.full_like(variance, constant(epsilon)))


def constant(value: float) -> Expr:
    """A number in float32."""
    return Constant(np.asarray(value, "float32"))


def _in_float32(data: Expr) -> Expr:
    return op.cast(data, "float32") if str(tensor_type_of(data).dtype) == "float16" else data


def _scaled(data: Expr, like: Expr, gamma: Expr | None, beta: Expr | None, axes: Sequence[int]) -> Expr:
    for vector, combine in ((gamma, op.multiply), (beta, op.add)):
        if vector is not None:
            data = combine(data, _over(_in_float32(vector), like, axes))
    dtype = str(tensor_type_of(like).dtype)
    return op.cast(data, dtype) if dtype == "float16" else data


def layer_norm(data: Expr, gamma: Expr, beta: Expr | None, axis: Any, epsilon: float = 1e-5) -> Expr:
    """Mean 0 and variance 1 over the axes `axis`, whose elements have a scale and a shift each."""
    axes = _axes(data, axis)
    return _scaled(_standard(_in_float32(data), axes, epsilon), data, gamma, beta, axes)


def instance_norm(data: Expr, gamma: Expr, beta: Expr, *positions: Any, epsilon: float = 1e-5) -> Expr:
    """Mean 0 and variance 1 over axes: (channel_axis, axis) with a scale and a shift a channel, or (axis) alone with
    one for each element of the axes; the number behind is `epsilon`."""
    if positions and isinstance(positions[-1], float):
        *positions, epsilon = positions  # type: ignore[assignment]
    if len(positions) not in (1, 2):
        raise InputError("instance_norm takes the axis of the channels and the axes to normalize over")
    axes = _axes(data, positions[-1])
    scales = _axes(data, positions[0])
    return _scaled(_standard(_in_float32(data), axes, epsilon), data, gamma, beta, scales)


def rms_norm(data: Expr, weight: Expr, bias: Expr | None, axis: Any, epsilon: float = 1e-5) -> Expr:
    """`data` over the root of the mean of its squares over the axes `axis`."""
    axes, values = _axes(data, axis), _in_float32(data)
    mean = op.mean(values * values, axes, keepdims=True)
    scale = op.rsqrt(mean + op.full_like(mean, constant(epsilon)))
    return _scaled(values * scale, data, weight, bias, axes)


def group_norm(
    data: Expr, gamma: Expr, beta: Expr, num_groups: int, channel_axis: int, axes: Any, epsilon: float = 1e-5
) -> Expr:
    """Mean 0 and variance 1 over `axes` and the channels of each of `num_groups` groups."""
    shape, channel = tensor_type_of(data).shape, _axes(data, channel_axis)[0]
    grouped_shape = [*shape[:channel], num_groups, shape[channel] // num_groups, *shape[channel + 1 :]]
    reduced = [channel + 1, *(position + (position > channel) for position in _axes(data, axes))]
    parts = _standard(op.reshape(_in_float32(data), grouped_shape), reduced, epsilon)
    return _scaled(op.reshape(parts, shape), data, gamma, beta, [channel])


def trilu(data: Expr, k: Any, upper: bool) -> Expr:
    """Matrices with zeros below (`upper`) or above their diagonal number `k`."""
    *_, rows, columns = tensor_type_of(data).shape
    number = int(getattr(k, "value", k))
    kept = np.tri(rows, columns, number - 1 if upper else number, dtype=bool)
    return op.where(Constant(~kept if upper else kept), data, op.zeros_like(data))


def dft(re_data: Expr, im_data: Expr, inverse: bool = False) -> Expr:
    """The Fourier transform along the last axis: real and imaginary parts."""
    type_ = tensor_type_of(re_data)
    size = int(type_.shape[-1])
    angles = 2 * np.pi / size * np.outer(np.arange(size), np.arange(size))
    within = "float32" if str(type_.dtype) == "float16" else str(type_.dtype)
    share = 1 / size if inverse else 1
    cosine = Constant((np.cos(angles) * share).astype(within))
    sine = Constant((np.sin(angles) * (-share if inverse else share)).astype(within))

    def product(data: Expr, table: Expr) -> Expr:
        rows = op.reshape(op.cast(data, within), (-1, size))
        return op.reshape(op.nn.dense(rows, table, out_dtype=within), type_.shape)

    real = product(re_data, cosine) + product(im_data, sine)
    imaginary = product(im_data, cosine) - product(re_data, sine)
    return Tuple([op.cast(real, str(type_.dtype)), op.cast(imaginary, str(type_.dtype))])


def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> Expr:
    """The normalized data, the mean and the variance.

    With `training` the statistics are those of the data, and `momentum` is their share in what is returned.
    """
    channel = _axes(data, 1 if axis is None else axis)
    others = [position for position in range(len(tensor_type_of(data).shape)) if position not in channel]
    mean, variance = moving_mean, moving_var
    if training:
        mean = op.mean(data, others)
        centred = data - _over(mean, data, channel)
        variance = op.mean(centred * centred, others)
        share = 0.1 if momentum is None else momentum
        moving_mean = _moved(moving_mean, mean, share)
        moving_var = _moved(moving_var, variance, share)
    else:
        moving_mean, moving_var = op.copy(moving_mean), op.copy(moving_var)
    steps = op.rsqrt(variance + op.full_like(variance, constant(1e-5 if epsilon is None else epsilon)))
    normal = (data - _over(mean, data, channel)) * _over(steps, data, channel)
    scaled = normal if scale is False else normal * _over(gamma, data, channel)
    shifted = scaled if center is False else scaled + _over(beta, data, channel)
    return Tuple([shifted, moving_mean, moving_var])


def _moved(old: Expr, new: Expr, share: float) -> Expr:
    return old * constant(1 - share) + new * constant(share)
