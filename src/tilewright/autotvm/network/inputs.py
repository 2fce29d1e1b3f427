"""Values for the inputs of a network that is run for its time alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewright.errors import ShapeError, UnsupportedError
from tilewright.runtime.signature import TensorSpec, ValueSpec


def timing_inputs(specs: Iterable[TensorSpec]) -> dict[str, np.ndarray[Any, Any]]:
    """An array for each input: random floats, and zeros of other types, which are valid as indices and as lengths.

    Raises `ShapeError` for an input with symbolic dimensions, `UnsupportedError` for one that is no array of numbers.
    """
    generator = np.random.default_rng(0)
    made = {}
    for spec in specs:
        if isinstance(spec, ValueSpec) or spec.dtype.is_string:
            raise UnsupportedError(f"input {spec} is no array of numbers: a model that takes it cannot be tuned")
        if not spec.is_static:
            raise ShapeError(
                f"input {spec} has symbolic dimensions: fix them, as by --input-shapes, to tune the model for them"
            )
        if spec.dtype.is_float:
            made[spec.name] = generator.standard_normal(spec.static_shape, np.float32).astype(spec.numpy)
        else:
            made[spec.name] = np.zeros(spec.static_shape, spec.numpy)
    return made
