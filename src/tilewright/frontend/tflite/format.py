"""TFLite among the formats: what its files begin like, and who reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Metadata, OfEntries, Shapes
from tilewright.frontend.reference import Reference
from tilewright.frontend.source import Source
from tilewright.frontend.tflite import converts, from_tflite, initial_states, is_tflite
from tilewright.frontend.tflite.metadata import read_metadata
from tilewright.frontend.tflite.reference import TfliteReference
from tilewright.frontend.tflite.schema import OPERATORS
from tilewright.relay.ir.module import IRModule

#: Codes that stand for no operator of the schema's own.
_NO_OPERATORS = {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}


class TfliteFrontend(OfEntries):
    """Flatbuffers of TensorFlow Lite, now LiteRT; each signature is one of the subgraphs."""

    name = "tflite"
    kind = "a TFLite model"

    def recognizes(self, source: Source) -> bool:
        """The file identifier of the schema."""
        return is_tflite(bytes(source.contents[:8]))

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_tflite(model, input_shapes, self.signature)

    def metadata(self, model: str | os.PathLike[str]) -> Metadata:
        """Labels and normalization of TFLite Metadata."""
        return read_metadata(model)

    def first_states(self, model: str | os.PathLike[str]) -> Mapping[str, np.ndarray[Any, Any]]:
        """The variables' values before the first run."""
        return initial_states(model, self.signature)

    def reference(self, model: Any) -> Reference:
        """LiteRT; of a signature the interpreter of Relay."""
        if self.signature is not None:
            return super().reference(model)
        return TfliteReference(model, lambda shapes: from_tflite(model, shapes)[0])

    def operators(self) -> dict[str, list[str]]:
        """Builtins by the schema's names."""
        return {"builtins": converts.supported()}

    def missing(self) -> list[str]:
        """Builtins of the schema without a converter."""
        return sorted(set(OPERATORS) - set(converts.supported()) - _NO_OPERATORS)
