"""Layers that act in training alone: in inference they pass their input on."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts


@converts(
    "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianNoise", "GaussianDropout",
    "AlphaDropout", passes_mask=True,
)  # fmt: skip
def convert_dropout(layer: Layer, inputs: Any) -> Any:
    return inputs
