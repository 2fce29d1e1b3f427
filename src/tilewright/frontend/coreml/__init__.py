"""Core ML programs (MIL) to Relay: one converter function an operation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.coreml.convert import convert_model
from tilewright.frontend.coreml.registry import converts

if TYPE_CHECKING:
    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_coreml(
    model: str | os.PathLike[str] | bytes, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for an ML program (an .mlpackage, or the specification within), and the specs of its inputs.

    No package is needed. Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming
    every operation that cannot be converted, and for models that are no ML programs.
    """
    return convert_model(model, input_shapes)


__all__ = ["converts", "from_coreml"]
