"""Core ML models to Relay, ML programs (MIL) and neural networks: one converter function an operation or layer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.coreml.convert import convert_model
from tilewright.frontend.coreml.network_node import layers
from tilewright.frontend.coreml.registry import converts

if TYPE_CHECKING:
    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_coreml(
    model: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, Sequence[Any]] | None = None,
    signature: str | None = None,
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Core ML model and the specs of its inputs.

    A model is an .mlpackage, the specification within or an .mlmodel: an ML program or a neural network. Of a
    classifier the result is the array of probabilities. `signature` names a function of an ML program.

    No package is needed. Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming
    every operation that cannot be converted, and for pipelines and other kinds of models.
    """
    return convert_model(model, input_shapes, signature)


__all__ = ["converts", "from_coreml", "layers"]
