"""The inputs of an ONNX graph as its messages declare them."""

from __future__ import annotations

from typing import Any

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.inputs import Declared, Dim
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.frontend.onnx.value_types import type_from_proto


def declared_inputs(graph: Any) -> list[Declared]:
    """The inputs of an `onnx.GraphProto` in order, without those that are weights.

    Raises `ModelError` for a name that is no text, `UnsupportedError` for a type that no input may have.
    """
    weights = {tensor.name for tensor in graph.initializer}
    return [declared_input(value) for value in graph.input if value.name not in weights]


def declared_input(value: Any) -> Declared:
    """What an `onnx.ValueInfoProto` says of an input. Raises as `declared_inputs` does."""
    if not isinstance(value.name, str):
        raise ModelError(f"an input has a name that is not text: {value.name!r}")
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        type_ = type_from_proto(value.type, f"input {value.name!r}")
        if type_ is None:
            raise UnsupportedError(f"input {value.name!r} is a {kind or 'value of no type'}, which is not supported")
        return Declared(value.name, None, None, type_)
    tensor = value.type.tensor_type
    dims = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return Declared(value.name, dims, dtype_of(tensor.elem_type, f"input {value.name!r}"))


def _dim(dim: Any) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param) or "?"
