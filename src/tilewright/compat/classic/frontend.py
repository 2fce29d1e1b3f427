"""`relay.frontend.from_onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.compat.classic.array import NDArray
from tilewright.compat.classic.module import IRModule
from tilewright.frontend.onnx import from_onnx as import_onnx


def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: Any = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Any = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module for an ONNX model and its parameters: none, since the weights are constants of the module.

    `shape` fixes dynamic dimensions by input name. The dtypes and the opset are the model's own.
    """
    mod, *_ = import_onnx(model, dict(shape or {}))
    return IRModule.of(mod), {}
