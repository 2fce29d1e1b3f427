"""TFLite models to Relay: one converter function a builtin operator, grouped in files by family."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.tflite.convert import convert_model
from tilewright.frontend.tflite.convert import initial_states as _initial_states
from tilewright.frontend.tflite.model import is_tflite
from tilewright.frontend.tflite.node import converts

if TYPE_CHECKING:
    import numpy as np

    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_tflite(
    model: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, Sequence[Any]] | None = None,
    signature: str | None = None,
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a TFLite model (path or bytes), and the specs of its inputs in order.

    Inputs have the shapes that the file states; `input_shapes` sets others by name, where the file leaves them open,
    or names for extents that stay open. With `signature`, the entry of that name is read, whose inputs and outputs have
    the names that it has for them; without one, the first subgraph, by the names of its tensors. The attribute
    `output_names` of `main` holds the names of its results.

    Variables are values between runs: each is an input of `main` behind the model's own, under its name, and an output
    behind the model's own, under its name with `:next`. `initial_states` says what the first run is given.

    Integers come out as from TensorFlow Lite's reference kernels (`OpResolverType.BUILTIN_REF`), bit for bit.
    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every operator that
    cannot be converted.
    """
    return convert_model(model, input_shapes, signature)


def initial_states(model: str | os.PathLike[str] | bytes, signature: str | None = None) -> dict[str, np.ndarray]:
    """The values of a model's variables before the first run, by the names of the inputs that they are."""
    return _initial_states(model, signature)


__all__ = ["converts", "from_tflite", "initial_states", "is_tflite"]
