"""Keras among the formats: what its files begin like, and who reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.keras import from_keras, initial_states, registry
from tilewright.frontend.keras.archive import is_keras
from tilewright.frontend.source import Source
from tilewright.relay.ir.module import IRModule


class KerasFrontend(Frontend):
    """`.keras` archives, legacy `.h5` files, and `keras.Model`s."""

    name = "keras"
    kind = "a Keras model (.keras, .h5)"
    in_memory = "a keras.Model"

    def recognizes(self, source: Source) -> bool:
        """An archive with its configuration and metadata, or HDF5."""
        return is_keras(source)

    def takes(self, model: object) -> bool:
        """A functional or sequential model of Keras 3."""
        return any(
            kind.__name__ == "Model" and kind.__module__.startswith(("keras.", "tf_keras."))
            for kind in type(model).mro()
        )

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_keras`."""
        return from_keras(model, input_shapes)

    def first_states(self, model: str | os.PathLike[str]) -> Mapping[str, np.ndarray[Any, Any]]:
        """Zeros, for layers with `stateful=True`."""
        return initial_states(model)

    def operators(self) -> dict[str, list[str]]:
        """Layers, and operations of keras.ops."""
        _register()
        return {"layers": registry.known_layers(), "operations": registry.known_operations()}

    def missing(self) -> list[str]:
        """Layers that hold code, or work on text."""
        _register()
        return registry.refused_layers()


def _register() -> None:
    """Import the converters, which are many, and only needed where a model is read or they are listed."""
    from tilewright.frontend.keras import families  # noqa: F401
