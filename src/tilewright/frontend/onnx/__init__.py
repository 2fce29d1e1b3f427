"""ONNX models to Relay: one converter function per ONNX operator, grouped in files by family."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import EnvironmentError_
from tilewright.support.entry_points import CONVERTERS, OPERATORS, load_plugins

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule

    OnnxModel = str | os.PathLike[str] | bytes | ModelProto


def from_onnx(
    model: OnnxModel, input_shapes: Mapping[str, Sequence[Any]] | None = None,
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
) -> tuple[IRModule, list[InputSpec]]:  # fmt: skip
    """A Relay module for an ONNX model (path, bytes or `ModelProto`), and the specs of its inputs in order.

    `input_shapes` fixes dynamic dimensions; the others are symbolic. The attribute `output_names` of `main`
    holds the names of its results. Where a dictionary is given as `weights`, initializers that operators of `main` read
    become its parameters, after the inputs, and their values are put there by name; else they are constants.
    Raises `ModelError` for a bad file, `ShapeError` for a missing or wrong shape, `UnsupportedError` naming every node
    that cannot be converted, `EnvironmentError_` when the `onnx` package is not installed.
    """
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise EnvironmentError_(
            "reading ONNX models needs the onnx package, which is not installed; run: pip install tilewright[onnx]"
        ) from None
    load_plugins(OPERATORS, CONVERTERS)
    # the importer needs the optional package; above is the message for who has none
    from tilewright.frontend.onnx.convert import convert_model

    return convert_model(model, input_shapes, weights)


__all__ = ["from_onnx"]
