"""Convolutions: plain, depthwise, separable and transposed, along one to three axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright.frontend.builders import sliding
from tilewright.frontend.builders.sliding import Window
from tilewright.frontend.idioms import cast, dtype_of, rank_of, shape_of
from tilewright.frontend.keras.core import activated
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts, layers
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def per_axis(value: Any, count: int) -> tuple[int, ...]:
    """One number for each spatial axis; a single one stands for all."""
    numbers = tuple(value) if isinstance(value, list | tuple) else (value,)
    return tuple(int(number) for number in (numbers * count if len(numbers) == 1 else numbers))


def window(layer: Layer, size: Sequence[Any]) -> Window:
    """The window of a convolution by the layer's configuration."""
    count = len(size)
    strides, dilation = (per_axis(layer.get(key, 1), count) for key in ("strides", "dilation_rate"))
    padding = str(layer.get("padding", "valid")).lower()
    if padding == "causal":
        reach = (int(size[0]) - 1) * dilation[0]
        return Window(per_axis(size, count), strides, dilation, ((reach, 0),))
    if padding not in ("same", "valid"):
        layer.bad(f"padding {padding!r}; there are valid, same and causal")
    return Window(per_axis(size, count), strides, dilation, padding)


def with_bias(layer: Layer, value: Expr, bias: Sequence[Expr]) -> Expr:
    """`value` with the bias, where there is one, and the activation."""
    if bias:
        value = op.nn.bias_add(value, bias[0], axis=rank_of(value) - 1 if layer.last else 1)
    return activated(layer, value)


def _bias(layer: Layer) -> list[str]:
    return ["bias"] if layer.get("use_bias", True) else []


def _data(layer: Layer, inputs: Expr, axes: int) -> Expr:
    if rank_of(inputs) != axes + 2:
        layer.bad(f"it takes data of {axes + 2} dimensions, not of shape {list(shape_of(inputs))}")
    return inputs


def _convolved(layer: Layer, inputs: Expr, kernel: Expr, groups: int, depthwise: bool) -> Expr:
    axes = rank_of(kernel) - 2
    taps = sliding.depthwise_kernel(kernel) if depthwise else sliding.channel_kernel(kernel)
    return sliding.convolution(
        _data(layer, inputs, axes), taps, window(layer, shape_of(kernel)[:axes]), groups, layer.last
    )


@converts("Conv1D", "Conv2D", "Conv3D")
def convert_convolution(layer: Layer, inputs: Expr) -> Expr:
    kernel, *bias = layer.weight("kernel", *_bias(layer))
    return with_bias(layer, _convolved(layer, inputs, kernel, int(layer.get("groups", 1)), False), bias)


@converts("DepthwiseConv1D", "DepthwiseConv2D")
def convert_depthwise(layer: Layer, inputs: Expr) -> Expr:
    name = "depthwise_kernel" if layer.weights.has("depthwise_kernel") else "kernel"  # Keras 2 calls it so
    kernel, *bias = layer.weight(name, *_bias(layer))
    return with_bias(layer, _convolved(layer, inputs, kernel, shape_of(kernel)[-2], True), bias)


@converts("SeparableConv1D", "SeparableConv2D")
def convert_separable(layer: Layer, inputs: Expr) -> Expr:
    depthwise, pointwise, *bias = layer.weight("depthwise_kernel", "pointwise_kernel", *_bias(layer))
    first = _convolved(layer, inputs, depthwise, shape_of(depthwise)[-2], True)
    ones = (1,) * (rank_of(depthwise) - 2)
    return with_bias(
        layer,
        sliding.convolution(first, sliding.channel_kernel(pointwise), Window(ones, ones, ones), 1, layer.last),
        bias,
    )


@converts("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
def convert_transposed(layer: Layer, inputs: Expr) -> Expr:
    kernel, *bias = layer.weight("kernel", *_bias(layer))
    axes = rank_of(kernel) - 2
    shape = window(layer, shape_of(kernel)[:axes])
    more = layer.get("output_padding")
    extra: Sequence[int | None] = [None] * axes if more is None else per_axis(more, axes)
    cut = [
        transposed_cut(size, stride, dilation, str(layer.get("padding", "valid")), out)
        for size, stride, dilation, out in zip(shape.size, shape.strides, shape.dilation, extra)
    ]
    made = sliding.transposed_convolution(
        _data(layer, inputs, axes), sliding.channel_kernel(kernel), shape, cut, int(layer.get("groups", 1)), layer.last
    )
    return with_bias(layer, made, bias)


def transposed_cut(size: int, stride: int, dilation: int, padding: str, extra: int | None) -> tuple[int, int]:
    """The elements that Keras cuts before and behind an axis of a transposed convolution.

    Without `output_padding` the result has n * stride elements with padding "same", and no fewer than the window's
    with "valid".
    """
    reach = (size - 1) * dilation + 1
    if padding.lower() == "valid":
        more = max(reach, stride) - reach if extra is None else extra
        return 0, -more
    total = stride + reach - 2 if extra is None else reach + reach % 2 - 2 + extra
    before = min(total // 2 + total % 2, reach - 1)
    return reach - 1 - before, reach - 1 - (total - before)


# ---------------------------------------------- Pooling over windows, over everything, and into a given number of parts
def pooled(kind: str, inputs: Expr, pool_size: Any, strides: Any, padding: str, last: bool) -> Expr:
    """The pooling of windows, which lie beside each other without `strides`."""
    axes = rank_of(inputs) - 2
    size = per_axis(pool_size, axes)
    moved = size if strides is None else per_axis(strides, axes)
    return sliding.pool(kind, inputs, Window(size, moved, (1,) * axes, padding.lower()), last)


def _pooled(kind: str, layer: Layer, inputs: Expr) -> Expr:
    padding = str(layer.get("padding", "valid"))
    return pooled(kind, inputs, layer["pool_size"], layer.get("strides"), padding, layer.last)


def _over_all(function: Callable[..., Expr], layer: Layer, inputs: Expr) -> Expr:
    rank = rank_of(inputs)
    axes = tuple(range(1, rank - 1)) if layer.last else tuple(range(2, rank))
    return function(inputs, axis=axes, keepdims=bool(layer.get("keepdims", False)))


def _adaptive(kind: str, layer: Layer, inputs: Expr) -> Expr:
    return sliding.adaptive_pool(kind, inputs, per_axis(layer["output_size"], rank_of(inputs) - 2), layer.last)


layers({
    "MaxPooling1D MaxPooling2D MaxPooling3D MaxPool1D MaxPool2D MaxPool3D": partial(_pooled, "max"),
    "AveragePooling1D AveragePooling2D AveragePooling3D AvgPool1D AvgPool2D AvgPool3D": partial(_pooled, "avg"),
    "GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D": partial(_over_all, op.max),
    "GlobalMaxPool1D GlobalMaxPool2D GlobalMaxPool3D": partial(_over_all, op.max),
    "GlobalAveragePooling2D GlobalAveragePooling3D GlobalAvgPool2D GlobalAvgPool3D": partial(_over_all, op.mean),
    "AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D": partial(_adaptive, "avg"),
    "AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D": partial(_adaptive, "max"),
})  # fmt: skip


@converts("GlobalAveragePooling1D", "GlobalAvgPool1D")
def convert_global_average_1d(layer: Layer, inputs: Expr, mask: Any = None) -> Expr:
    axis, keepdims = (1 if layer.last else 2), bool(layer.get("keepdims", False))
    if not isinstance(mask, Expr):
        return op.mean(inputs, axis=(axis,), keepdims=keepdims)
    kept = op.expand_dims(cast(mask, "bool"), axis=2 if layer.last else 1)
    numbers = op.where(kept, inputs, 0)
    count = op.sum(cast(kept, dtype_of(inputs)), axis=(axis,), keepdims=keepdims)
    return op.sum(numbers, axis=(axis,), keepdims=keepdims) / count
