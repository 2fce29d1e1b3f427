"""Keras models to Relay, without Keras: one converter function a layer or operation, grouped in files by family."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.keras.registry import converts, operation

if TYPE_CHECKING:
    import numpy as np

    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_keras(
    model: str | os.PathLike[str] | bytes | Any, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Keras model, and the specs of its inputs in order.

    `model` is the path or bytes of a `.keras` archive (Keras 3) or of a legacy `.h5` file (Keras 2 and 3), or a
    `keras.Model` in memory. Layers compute as in inference. `input_shapes` fixes symbolic dimensions by the input's
    name; the first of all inputs is one size, `batch`. The attribute `output_names` of `main` holds the names of its
    results.

    The states of layers with `stateful=True` are inputs of `main` behind the model's own, and outputs behind the
    model's own, under the same name with `:next`; the first run is given zeros.

    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every layer that
    cannot be converted, `EnvironmentError_` where h5py is missing.
    """
    # the converters, which are many, only where a model is read
    from tilewright.frontend.keras.convert import convert_model

    return convert_model(model, input_shapes)


def initial_states(model: str | os.PathLike[str] | bytes | Any) -> dict[str, np.ndarray]:
    """The states of layers before the first run, by the names of the inputs that they are."""
    from tilewright.frontend.keras.convert import first_states

    return first_states(model)


__all__ = ["converts", "from_keras", "initial_states", "operation"]
