"""TFLite among the formats: what its files begin like, and who reads them."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.tflite import from_tflite, is_tflite, supported_operators
from tilewright.frontend.tflite.schema import OPERATORS
from tilewright.relay.ir.module import IRModule


class TfliteFrontend(Frontend):
    """Flatbuffers of TensorFlow Lite, now LiteRT."""

    name = "tflite"
    kind = "a TFLite model"

    def recognizes(self, source: Source) -> bool:
        """The file identifier that the schema gives."""
        return is_tflite(bytes(source.contents[:8]))

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_tflite`."""
        return from_tflite(model, input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """Builtins by the schema's names."""
        return {"builtins": supported_operators()}

    def missing(self) -> list[str]:
        """Builtins of the schema without a converter."""
        return sorted(set(OPERATORS) - set(supported_operators()))
