"""`relay.frontend.from_onnx`, `from_pytorch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.compat.classic.array import NDArray
from tilewright.compat.classic.module import IRModule
from tilewright.errors import UnsupportedError
from tilewright.frontend.onnx import from_onnx as import_onnx
from tilewright.frontend.torch import need_torch


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


def from_pytorch(
    script_module: Any,
    input_infos: Sequence[tuple[str, Any]],
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    keep_quantized_weight: bool = False,
    export_renamed_c_graph_path: str | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module for a scripted or traced one and its parameters: none, since the weights are constants of the module.

    `input_infos` has the name and shape, or (shape, element type), of each input in order. Raises `UnsupportedError`
    for converters given here: `tilewright.frontend.torch.registry.converts` takes them.
    """
    if custom_convert_map:
        raise UnsupportedError(
            "from_pytorch takes no custom_convert_map; register converters with "
            "tilewright.frontend.torch.registry.converts"
        )
    need_torch()
    # the importer needs the optional package; above is the message for who has none
    import torch

    from tilewright.frontend.torch.script.convert import convert_script

    examples = {}
    for name, given in input_infos:
        shape, dtype = given if len(given) == 2 and isinstance(given[1], str) else (given, default_dtype)
        kind = {"float": "float32", "int": "int32"}.get(dtype, dtype)
        examples[name] = torch.zeros(tuple(shape), dtype=getattr(torch, kind))
    return IRModule.of(convert_script(script_module, examples)[0]), {}
