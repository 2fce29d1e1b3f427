"""The layers that networks of keras.applications bring along: `LayerScale` and others, which `keras.layers` has not."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.idioms import like
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("LayerScale")
def convert_layer_scale(layer: Layer, x: Expr) -> Expr:
    """A factor for each channel (ConvNeXt)."""
    (gamma,) = layer.weight("variable")
    return op.multiply(x, gamma)


@converts("StochasticDepth")
def convert_stochastic_depth(layer: Layer, x: Expr) -> Expr:
    """What drops branches in training (ConvNeXt)."""
    return x


@converts("CustomScaleLayer")
def convert_custom_scale(layer: Layer, inputs: Sequence[Expr]) -> Expr:
    """A branch, scaled, on what goes past it (InceptionResNetV2)."""
    if not isinstance(inputs, list | tuple) or len(inputs) != 2:
        layer.wrong("it takes a list of two tensors")
    past, branch = inputs
    return op.add(past, op.multiply(branch, like(float(layer.get("scale")), branch)))
