"""`relay.frontend.from_onnx`, `from_pytorch`, `from_tflite`, `from_tensorflow` and `from_keras`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.compat.ir.meanings import only
from tilewright.compat.ir.module import IRModule
from tilewright.compat.runtime.array import NDArray, array
from tilewright.errors import UnsupportedError
from tilewright.frontend.keras import from_keras as import_keras
from tilewright.frontend.onnx import from_onnx as import_onnx
from tilewright.frontend.tensorflow import from_tensorflow as import_tensorflow
from tilewright.frontend.tflite import from_tflite as import_tflite
from tilewright.frontend.torch import need_torch
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Function, Tuple, var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite


def from_onnx(
    model: Any,
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: Any = "float32",
    opset: int | None = None,
    freeze_params: bool = False,
    convert_config: Any = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module for an ONNX model and its weights by name; with `freeze_params` none, as they are constants then.

    Integers that the importer itself computed with, such as the shape of a reshape, are constants all the same. `shape`
    fixes dynamic dimensions by input name. The dtypes and the opset are the model's own.
    """
    if opset is not None:
        only("relay.frontend.from_onnx", "opset", opset, _opset_of(model))
    weights: dict[str, Any] = {}
    mod, *_ = import_onnx(model, dict(shape or {}), None if freeze_params else weights)
    return IRModule.of(mod), {name: array(value) for name, value in weights.items()}


def _opset_of(model: Any) -> int | None:
    """The version of ONNX's own operators that a model in memory says it is written in."""
    return next((entry.version for entry in getattr(model, "opset_import", ()) if not entry.domain), None)


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


def from_tflite(
    model: Any,
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    dtype_dict: Mapping[str, str] | None = None,
    op_converter: Any = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module for a TFLite model (a `tflite.Model`, bytes or a path) and its parameters: none, as of `from_onnx`.

    `shape_dict` fixes symbolic dimensions by input name. The dtypes are the model's own.
    """
    if op_converter is not None:
        raise UnsupportedError(
            "from_tflite: op_converter is not supported; register converters with tilewright.frontend.tflite.converts"
        )
    table = getattr(model, "_tab", None)
    data = model if table is None else bytes(table.Bytes)
    mod, _ = import_tflite(data, dict(shape_dict or {}))
    return IRModule.of(mod), {}


def from_tensorflow(
    graph: Any,
    layout: str = "NHWC",
    shape: Mapping[str, Sequence[int]] | None = None,
    outputs: str | Sequence[str] | None = None,
    convert_config: Any = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module for a frozen graph (a `GraphDef`, bytes, or a path; also a SavedModel's folder) and no parameters.

    `shape` fixes symbolic dimensions by input name, `outputs` names the nodes of the results. `layout` was a wish
    for how kernels compute; here the compiler chooses."""
    data = graph.SerializeToString() if hasattr(graph, "SerializeToString") else graph
    named = [outputs] if isinstance(outputs, str) else outputs
    mod, _ = import_tensorflow(data, dict(shape or {}), named)
    return IRModule.of(mod), {}


def from_keras(
    model: Any, shape: Mapping[str, Sequence[int]] | None = None, layout: str = "NCHW"
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module for a Keras model (in memory, or the path of a file) and its parameters: none, as of `from_onnx`.

    With the layout NCHW inputs and outputs of four dimensions, and their shapes in `shape`, have their channels second;
    with NHWC they are as the model has them.
    """
    if layout not in ("NCHW", "NHWC"):
        raise UnsupportedError(f"from_keras: layout {layout!r}; there are NCHW and NHWC")
    turned = layout == "NCHW"
    given = {
        name: (extents[0], *extents[2:], extents[1]) if turned and len(extents) == 4 else tuple(extents)
        for name, extents in (shape or {}).items()
    }
    mod, _ = import_keras(model, given)
    return IRModule.of(_channels_second(mod) if turned else mod), {}


def _channels_second(mod: Any) -> Any:
    """`mod` with inputs and outputs of four dimensions as [N, C, H, W]."""
    main = mod["main"]
    params = []
    memo: dict[Expr, Expr] = {}
    for param in main.params:
        kind = tensor_type_of(param)
        if len(kind.shape) != 4:
            params.append(param)
            continue
        n, h, w, c = kind.shape
        params.append(var(param.name, TensorType((n, c, h, w), kind.dtype)))
        memo[param] = op.transpose(params[-1], axes=(0, 2, 3, 1))
    body = rewrite(main.body, lambda _: None, memo)
    fields = [_turned(field) for field in body.fields] if isinstance(body, Tuple) else _turned(body)
    whole = Tuple(fields) if isinstance(fields, list) else fields
    return mod.with_function("main", Function(params, whole, attrs=main.attrs))


def _turned(value: Any) -> Any:
    return op.transpose(value, axes=(0, 3, 1, 2)) if len(tensor_type_of(value).shape) == 4 else value
