"""Pooling over windows, over everything, and into a given number of parts."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.idioms import cast, dtype_of, like, rank_of
from tilewright.frontend.keras.convolution import per_axis
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.frontend.sliding import Window, adaptive_pool, pool
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _pooled(kind: str, layer: Layer, inputs: Expr) -> Expr:
    axes = rank_of(inputs) - 2
    size = per_axis(layer["pool_size"], axes)
    strides = layer.get("strides")
    moved = size if strides is None else per_axis(strides, axes)
    shape = Window(size, moved, (1,) * axes, str(layer.get("padding", "valid")).lower())
    return pool(kind, inputs, shape, layer.last)


@converts("MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "MaxPool1D", "MaxPool2D", "MaxPool3D")
def convert_max_pooling(layer: Layer, inputs: Expr) -> Expr:
    return _pooled("max", layer, inputs)


@converts("AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "AvgPool1D", "AvgPool2D", "AvgPool3D")
def convert_average_pooling(layer: Layer, inputs: Expr) -> Expr:
    return _pooled("avg", layer, inputs)


def _spatial(layer: Layer, inputs: Expr) -> tuple[int, ...]:
    rank = rank_of(inputs)
    return tuple(range(1, rank - 1)) if layer.last else tuple(range(2, rank))


@converts(
    "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D",
    "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D",
)  # fmt: skip
def convert_global_max(layer: Layer, inputs: Expr) -> Expr:
    return op.max(inputs, axis=_spatial(layer, inputs), keepdims=bool(layer.get("keepdims", False)))


@converts("GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalAvgPool2D", "GlobalAvgPool3D")
def convert_global_average(layer: Layer, inputs: Expr) -> Expr:
    return op.mean(inputs, axis=_spatial(layer, inputs), keepdims=bool(layer.get("keepdims", False)))


@converts("GlobalAveragePooling1D", "GlobalAvgPool1D")
def convert_global_average_1d(layer: Layer, inputs: Expr, mask: Any = None) -> Expr:
    axis, keepdims = (1 if layer.last else 2), bool(layer.get("keepdims", False))
    if not isinstance(mask, Expr):
        return op.mean(inputs, axis=(axis,), keepdims=keepdims)
    kept = op.expand_dims(cast(mask, "bool"), axis=2 if layer.last else 1)
    numbers = op.where(kept, inputs, like(0, inputs))
    count = op.sum(cast(kept, dtype_of(inputs)), axis=(axis,), keepdims=keepdims)
    return op.divide(op.sum(numbers, axis=(axis,), keepdims=keepdims), count)


def _adaptive(kind: str, layer: Layer, inputs: Expr) -> Expr:
    return adaptive_pool(kind, inputs, per_axis(layer["output_size"], rank_of(inputs) - 2), layer.last)


@converts("AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D")
def convert_adaptive_average(layer: Layer, inputs: Expr) -> Expr:
    return _adaptive("avg", layer, inputs)


@converts("AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D")
def convert_adaptive_max(layer: Layer, inputs: Expr) -> Expr:
    return _adaptive("max", layer, inputs)
