"""Activation layers, and the activation that other layers end with."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, dtype_of, like, rank_of
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def activated(layer: Layer, value: Expr, key: str = "activation") -> Expr:
    """`value` through the activation that the layer's configuration names."""
    given = layer.get(key)
    name = activation_name(given)
    if name is not None:
        if name not in functions.ACTIVATIONS:
            layer.unsupported(f"the activation {name!r}")
        return functions.ACTIVATIONS[name](value)
    return layer.inside(given, key)(value)


def activation_name(given: Any) -> str | None:
    """The name of an activation function; None where it is a layer."""
    if given is None:
        return "linear"
    if isinstance(given, str):
        return given
    config = given.get("config") if isinstance(given, dict) else None
    if isinstance(config, str):
        return config
    if isinstance(given, dict) and given.get("class_name") == "function":
        return str(given.get("registered_name") or given.get("name"))
    return None


@converts("Activation", passes_mask=True)
def convert_activation(layer: Layer, inputs: Expr) -> Expr:
    return activated(layer, inputs)


@converts("ReLU", passes_mask=True)
def convert_relu(layer: Layer, inputs: Expr) -> Expr:
    slope, top, bottom = layer.get("negative_slope", 0.0), layer.get("max_value"), layer.get("threshold", 0.0)
    return relu(inputs, float(slope or 0), top, float(bottom or 0))


def relu(x: Expr, slope: float = 0.0, top: float | None = None, bottom: float = 0.0) -> Expr:
    """`x` where not below `bottom`, slope * (x - bottom) elsewhere, and at most `top`."""
    if not slope and not bottom:
        made: Expr = op.nn.relu(x)
    else:
        low = like(bottom, x)
        below = (x - low) * slope if slope else like(0, x)
        made = op.where(x >= low if slope else x > low, x, below)
    return made if top is None else op.minimum(made, float(top))


@converts("LeakyReLU", passes_mask=True)
def convert_leaky_relu(layer: Layer, inputs: Expr) -> Expr:
    slope = layer.get("negative_slope", layer.get("alpha", 0.3))
    return op.nn.leaky_relu(inputs, alpha=float(slope))


@converts("ELU", passes_mask=True)
def convert_elu(layer: Layer, inputs: Expr) -> Expr:
    return functions.elu(inputs, float(layer.get("alpha", 1.0)))


@converts("PReLU", passes_mask=True)
def convert_prelu(layer: Layer, inputs: Expr) -> Expr:
    (alpha,) = layer.weight("alpha")
    return op.nn.relu(inputs) + (alpha * -op.nn.relu(-inputs))


@converts("ThresholdedReLU", passes_mask=True)
def convert_thresholded_relu(layer: Layer, inputs: Expr) -> Expr:
    return functions.threshold(inputs, float(layer.get("theta", 1.0)), 0.0)


@converts("Softmax", passes_mask=True)
def convert_softmax(layer: Layer, inputs: Expr, mask: Any = None) -> Expr:
    axis = layer.get("axis", -1)
    return masked_softmax(inputs, mask, tuple(axis) if isinstance(axis, list | tuple) else (axis,))


def masked_softmax(inputs: Expr, mask: Any, axes: tuple[int, ...]) -> Expr:
    """Softmax over axes, with no share for what the mask forbids."""
    rank = rank_of(inputs)
    axes = tuple(axis % rank for axis in axes)
    if not isinstance(mask, Expr):
        return functions.stable_softmax(inputs, axes)
    mask = mask if dtype_of(mask) == "bool" else mask > 0.5
    large = -3e4 if dtype_of(inputs) == "float16" else -1e9
    made = functions.stable_softmax(op.where(mask, inputs, like(large, inputs)), axes)
    return op.where(mask, made, cast(constant(0, "float32"), dtype_of(made)))
