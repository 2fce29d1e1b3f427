"""Augmentation of images: what draws random numbers in training passes its input on in inference."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.idioms import cast
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.relay.ir.expr import Expr


@converts(
    "AugMix", "CutMix", "Equalization", "MixUp", "RandAugment", "RandomBrightness", "RandomColorDegeneration",
    "RandomColorJitter", "RandomContrast", "RandomCrop", "RandomElasticTransform", "RandomErasing", "RandomFlip",
    "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization",
    "RandomRotation", "RandomSaturation", "RandomSharpness", "RandomShear", "RandomTranslation", "RandomZoom",
    "Solarization", "MaxNumBoundingBoxes",
)  # fmt: skip
def convert_augmentation(layer: Layer, data: Any) -> Any:
    """Images as they are, in the type in which the layer computes."""
    return cast(data, layer.compute_dtype) if isinstance(data, Expr) else data


@converts("Pipeline")
def convert_pipeline(layer: Layer, inputs: Any) -> Any:
    """Layers one behind the other."""
    for part in layer.list_inside(layer["layers"], "layers"):
        inputs = part(inputs)
    return inputs
