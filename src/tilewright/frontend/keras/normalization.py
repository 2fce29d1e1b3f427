"""Normalization layers as in inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.frontend.builders.normalization import scaled_over, standardized
from tilewright.frontend.builders.reductions import p_norm
from tilewright.frontend.idioms import cast, constant, dtype_of, rank_of, reshape, shape_of
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts, layers
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType


def widened(value: Expr) -> Expr:
    """Narrow floats as float32."""
    dtype = dtype_of(value)
    return value if DType(dtype).is_float and DType(dtype).bits >= 32 else cast(value, "float32")


def as_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """An axis or several, counted from the front, in order."""
    listed = axis if isinstance(axis, list | tuple) else [axis]
    return tuple(sorted(int(one) % rank for one in listed))


def _parameters(layer: Layer, scale: bool = True, center: bool = True) -> dict[str, Expr]:
    """The layer's gamma and beta, of those that it has."""
    names = [name for name, given in (("gamma", scale), ("beta", center)) if given]
    return dict(zip(names, layer.own(*names))) if names else {}


@converts("BatchNormalization", passes_mask=True)
def convert_batch_normalization(layer: Layer, inputs: Expr, mask: Any = None) -> Expr:
    axes = as_axes(layer.get("axis", -1), rank_of(inputs))
    if len(axes) != 1:
        layer.unsupported(f"normalization over the axes {list(axes)}; one is supported")
    names = [name for name, key in (("gamma", "scale"), ("beta", "center")) if layer.get(key, True)]
    found = dict(zip([*names, "mean", "variance"], layer.own(*names, "moving_mean", "moving_variance")))
    data = widened(inputs)
    dtype, size = dtype_of(data), shape_of(found["mean"])[0]
    gamma = cast(found["gamma"], dtype) if "gamma" in found else constant([1.0] * size, dtype)
    beta = cast(found["beta"], dtype) if "beta" in found else constant([0.0] * size, dtype)
    mean, variance = cast(found["mean"], dtype), cast(found["variance"], dtype)
    made = op.nn.batch_norm(data, gamma, beta, mean, variance, axis=axes[0], epsilon=float(layer.get("epsilon", 1e-3)))
    return cast(made[0], layer.compute_dtype)


@converts("LayerNormalization", passes_mask=True)
def convert_layer_normalization(layer: Layer, inputs: Expr) -> Expr:
    rms = bool(layer.get("rms_scaling", False))
    found = _parameters(layer, layer.get("scale", True) or rms, layer.get("center", True) and not rms)
    made = layer_norm(
        inputs, found.get("gamma"), found.get("beta"), as_axes(layer.get("axis", -1), rank_of(inputs)),
        float(layer.get("epsilon", 1e-3)), rms,
    )  # fmt: skip
    return cast(made, layer.compute_dtype)


def layer_norm(
    inputs: Expr, gamma: Expr | None, beta: Expr | None, axes: tuple[int, ...], epsilon: float, rms: bool = False
) -> Expr:
    """Zero mean and unit variance over axes, then scale and shift; `rms` divides by the variance's root alone."""
    data = widened(inputs)
    dtype = dtype_of(data)
    if gamma is not None and beta is not None and not rms and axes == (rank_of(data) - 1,):
        made: Expr = op.nn.layer_norm(data, cast(gamma, dtype), cast(beta, dtype), axis=axes[0], epsilon=epsilon)
        return cast(made, dtype_of(inputs))
    plain, _, factor = standardized(data, axes, epsilon)
    return cast(scaled_over(data * factor if rms else plain, axes, gamma, beta), dtype_of(inputs))


@converts("RMSNormalization")
def convert_rms_normalization(layer: Layer, inputs: Expr) -> Expr:
    (scale,) = layer.own("scale")
    axes = as_axes(layer.get("axis", -1), rank_of(inputs))
    return cast(rms_norm(inputs, scale, axes, float(layer.get("epsilon", 1e-6))), layer.compute_dtype)


def rms_norm(inputs: Expr, scale: Expr | None, axes: tuple[int, ...], epsilon: float) -> Expr:
    """Numbers divided by the root of the mean of their squares over axes."""
    data = widened(inputs)
    made = data * op.rsqrt(op.mean(data * data, axis=axes, keepdims=True) + epsilon)
    return cast(scaled_over(made, axes, scale, None), dtype_of(inputs))


@converts("GroupNormalization", passes_mask=True)
def convert_group_normalization(layer: Layer, inputs: Expr) -> Expr:
    found = _parameters(layer, layer.get("scale", True), layer.get("center", True))
    shape = shape_of(inputs)
    axis = int(layer.get("axis", -1)) % len(shape)
    channels = shape[axis]
    groups = int(layer.get("groups", 32))
    groups = channels if groups == -1 else groups
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        layer.bad(f"{channels} channels do not divide into {groups} groups")
    data = reshape(widened(inputs), (*shape[:axis], groups, channels // groups, *shape[axis + 1 :]))
    axes = tuple(one for one in range(1, len(shape) + 1) if one != axis)
    made = reshape(standardized(data, axes, layer.get("epsilon", 1e-3))[0], shape)
    return cast(scaled_over(made, (axis,), found.get("gamma"), found.get("beta")), layer.compute_dtype)


layers({
    "UnitNormalization": lambda layer, inputs: normalized(
        inputs, as_axes(layer.get("axis", -1), rank_of(inputs)), 2, 1e-12
    ),
}, passes_mask=True)  # fmt: skip


def normalized(x: Expr, axes: Sequence[int], order: float, epsilon: float) -> Expr:
    """`x` divided by its norm of an order over axes, which counts as `epsilon` at least."""
    if order == 2:
        return x * op.minimum(op.rsqrt(op.sum(x * x, axis=axes, keepdims=True)), 1 / epsilon)
    return x / op.maximum(p_norm(x, tuple(axes), order, True), epsilon)
