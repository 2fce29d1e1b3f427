"""TensorFlow's SavedModels and frozen graphs to Relay, without TensorFlow: one converter function an operator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.tensorflow.node import converts

if TYPE_CHECKING:
    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_tensorflow(
    model: str | os.PathLike[str] | bytes, input_shapes: Mapping[str, Sequence[Any]] | None = None,
    outputs: Sequence[str] | None = None, signature: str | None = None,
) -> tuple[IRModule, list[InputSpec]]:  # fmt: skip
    """A Relay module for a SavedModel (its folder) or a frozen GraphDef (path or bytes), and its inputs in order.

    Of a SavedModel `signature` is taken, by default `serving_default` or the only one; its inputs and outputs have the
    names in it. Of a GraphDef the inputs are its placeholders, and the results `outputs` (names of nodes,
    `name:1` for others than the first), by default the nodes that no other reads. `input_shapes` fixes symbolic
    dimensions.

    Variables are what the file holds of them; a model that changes one while it runs is refused. The attribute
    `output_names` of `main` holds the names of the results.
    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every operator that
    cannot be converted.
    """
    # the converters, which are many, only where a model is read
    from tilewright.frontend.tensorflow.convert import convert_model

    return convert_model(model, input_shapes, outputs, signature)


__all__ = ["converts", "from_tensorflow"]
