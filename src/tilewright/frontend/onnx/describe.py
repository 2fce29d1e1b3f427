"""The description of an ONNX file, whether or not it is supported."""

from __future__ import annotations

import ast
import math
import os
from collections import Counter
from typing import Any

from onnx import helper

from tilewright.frontend.description import Description
from tilewright.frontend.interface import Metadata
from tilewright.frontend.onnx.index_limits import nodes_of
from tilewright.frontend.onnx.load import load_model
from tilewright.frontend.onnx.reference.submodel import tensors_of


def metadata(path: str | os.PathLike[str]) -> Metadata:
    """The description and properties of the model; classes where exporters write them as `names`."""
    proto = load_model(path).proto
    about = {one.key: one.value for one in proto.metadata_props if one.value}
    about |= {key: text for key, text in (("description", proto.doc_string), ("producer", proto.producer_name)) if text}
    return Metadata(
        {proto.graph.output[0].name: found} if (found := _labels(about.get("names", ""))) else {}, {}, about
    )


def _labels(text: str) -> list[str]:
    """The classes of `{0: 'person', 1: 'bicycle'}` or of a list."""
    try:
        found = ast.literal_eval(text) if 0 < len(text) < 1 << 20 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    found = [found[key] for key in range(len(found)) if key in found] if isinstance(found, dict) else found
    return [str(one) for one in found] if isinstance(found, list | tuple) else []


def describe(path: str | os.PathLike[str]) -> Description:
    """The description of the model at `path`; raises as `load_model` does. Inner graphs count too."""
    loaded = load_model(path)
    graph = loaded.proto.graph
    made_by = " ".join(part for part in (loaded.proto.producer_name, loaded.proto.producer_version) if part)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(loaded.opsets.items()))
    weights = {tensor.name for tensor in graph.initializer}
    numbers: Counter[str] = Counter()
    nbytes = 0
    for tensor in tensors_of(graph):
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        numbers[dtype.name] += math.prod(tensor.dims)
        nbytes += math.prod(tensor.dims) * dtype.itemsize
    return Description(
        f"opsets {opsets}{f', made by {made_by}' if made_by else ''}",
        [_value(info) for info in graph.input if info.name not in weights],
        [_value(info) for info in graph.output],
        Counter(f"{node.domain}.{node.op_type}".removeprefix(".") for node in nodes_of(graph)),
        numbers,
        nbytes,
    )


def _value(info: Any) -> str:
    """`x: float32[batch, 8]`, an unnamed size as a question mark."""
    if info.type.WhichOneof("value") != "tensor_type":
        return f"{info.name}: {info.type.WhichOneof('value') or 'unknown type'}".replace("_type", "")
    tensor = info.type.tensor_type
    kind = helper.tensor_dtype_to_string(tensor.elem_type).removeprefix("TensorProto.").lower()
    kind = {"float": "float32", "double": "float64"}.get(kind, kind)
    if not tensor.HasField("shape"):
        return f"{info.name}: {kind}, of any rank"
    dims = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    return f"{info.name}: {kind}[{', '.join(dims)}]"
