"""Types of ONNX values as Relay types, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue

import onnx
from onnx import TypeProto

from tilewright.errors import UnsupportedError
from tilewright.frontend.onnx.schema import find_schema
from tilewright.frontend.onnx.tensors import dtype_of, element_type_of
from tilewright.relay.ir.type import OBJECT, Any, TensorType, Type
from tilewright.relay.op.onnx_host import map_of, optional_of, parts_of, sequence_of, unranked

#: Spelling of a symbolic extent -> the expression it stands for.
Symbols = Mapping[str, AnyValue]


def type_from_proto(proto: TypeProto, where: str, symbols: Symbols | None = None) -> Type | None:
    """The Relay type of an ONNX one; None where the element type is not given.

    Extents named in `symbols` are those expressions, other named or open ones `Any()`.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        if not proto.tensor_type.elem_type:
            return None
        dtype = dtype_of(proto.tensor_type.elem_type, where)
        if not proto.tensor_type.HasField("shape"):
            return unranked(dtype)
        return TensorType([_extent(dim, symbols or {}) for dim in proto.tensor_type.shape.dim], dtype)
    if kind in ("sequence_type", "optional_type"):
        element = type_from_proto(getattr(proto, kind).elem_type, where, symbols)
        make = sequence_of if kind == "sequence_type" else optional_of
        return None if element is None else make(element)
    if kind == "map_type":
        value = type_from_proto(proto.map_type.value_type, where, symbols)
        key = TensorType((), dtype_of(proto.map_type.key_type, where))
        return None if value is None else map_of(key, value)
    if kind == "sparse_tensor_type":
        raise UnsupportedError(f"{where} is a sparse tensor; only dense ones are supported")
    return None


def _extent(dim: AnyValue, symbols: Symbols) -> AnyValue:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return symbols.get(dim.dim_param, Any())


def type_to_proto(type_: Type | None, symbols: dict[str, AnyValue] | None = None) -> TypeProto:
    """The ONNX type of a Relay one; symbolic extents are spelled out, and entered into `symbols`."""
    proto = TypeProto()
    kind, parts = ("", ()) if type_ is None else parts_of(type_)
    if isinstance(type_, TensorType):
        proto.tensor_type.elem_type = element_type_of(type_.dtype)
        proto.tensor_type.shape.SetInParent()
        for extent in type_.shape:
            dim = proto.tensor_type.shape.dim.add()
            if isinstance(extent, int):
                dim.dim_value = extent
            elif not isinstance(extent, Any):
                dim.dim_param = str(extent)
                if symbols is not None:
                    symbols[str(extent)] = extent
    elif kind == "AnyRank":
        proto.tensor_type.elem_type = element_type_of(parts[0].dtype)  # type: ignore[attr-defined]
    elif kind in ("Sequence", "Optional"):
        inner = type_to_proto(parts[0], symbols)
        (proto.sequence_type if kind == "Sequence" else proto.optional_type).elem_type.CopyFrom(inner)
    return proto


def infer_outputs(
    proto: AnyValue, domain: str, opset: int, inputs: Sequence[Type | None], data: Mapping[str, onnx.TensorProto]
) -> dict[str, Type | None]:
    """The types of a node's outputs as ONNX infers them, by name; empty where it cannot.

    `data` holds the values of inputs that are known.
    """
    schema = find_schema(proto.op_type, domain, opset)
    if schema is None:
        return {}
    symbols: dict[str, AnyValue] = {}
    types = {name: type_to_proto(type_, symbols) for name, type_ in zip(proto.input, inputs) if name}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, proto, types, dict(data), opset_imports=[onnx.helper.make_opsetid(domain, opset)]
        )
    except (onnx.shape_inference.InferenceError, RuntimeError, KeyError, ValueError):
        return {}
    return {name: type_from_proto(value, f"output {name!r}", symbols) for name, value in found.items()}


_COLLECTIONS = ("Sequence", "Optional", "Map")


def join_types(a: Type, b: Type) -> Type | None:
    """The narrowest type that holds values of both: extents that differ become `Any()`, or the rank is left open.

    A collection and something else are just an object. None where there is none, as for different element types.
    """
    if a == b:
        return a
    if OBJECT in (a, b):
        return OBJECT
    a_kind, a_parts = parts_of(a)
    b_kind, b_parts = parts_of(b)
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype:
        if a.ndim != b.ndim:
            return unranked(a.dtype)
        return TensorType([x if x is y or x == y else Any() for x, y in zip(a.shape, b.shape)], a.dtype)
    if a_kind == b_kind and a_kind in ("Sequence", "Optional"):
        element = join_types(a_parts[0], b_parts[0])
        return None if element is None else (sequence_of if a_kind == "Sequence" else optional_of)(element)
    if a_kind in _COLLECTIONS or b_kind in _COLLECTIONS:
        return OBJECT
    dtypes = {_element_dtype(type_) for type_ in (a, b)}
    only = dtypes.pop() if len(dtypes) == 1 else None
    return None if only is None else unranked(only)


def _element_dtype(type_: Type) -> AnyValue:
    kind, parts = parts_of(type_)
    if kind == "AnyRank":
        return parts[0].dtype  # type: ignore[attr-defined]
    return type_.dtype if isinstance(type_, TensorType) else None
