"""Operator schemas of the onnx package: existence, definition and attributes of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, ModelProto, TypeProto
from onnx.inliner import inline_local_functions

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.onnx.tensors import dtype_of, element_type_of
from tilewright.relay.ir.type import OBJECT, TensorType, Type
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.op.onnx_host import map_of, optional_of, parts_of, sequence_of, unranked


@cache
def find_schema(operator: str, domain: str, opset: int) -> Any:
    """The `OpSchema` of `operator` at `opset`, or None when ONNX has no such operator."""
    try:
        return onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return None


def has_definition(operator: str, domain: str, opset: int) -> bool:
    """True when ONNX defines `operator` through simpler ones."""
    schema = find_schema(operator, domain, opset)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def check_attributes(proto: Any, domain: str, opset: int, label: str) -> None:
    """Raise `ModelError` if an attribute of a known operator is not of the type it must have."""
    schema = find_schema(proto.op_type, domain, opset)
    if schema is None:
        return
    for entry in proto.attribute:
        declared = schema.attributes.get(entry.name)
        if declared is not None and entry.type != declared.type.value:
            names = (AttributeProto.AttributeType.Name(kind) for kind in (entry.type, declared.type.value))
            raise ModelError(f"{label}: attribute {entry.name!r} is of type {', not '.join(names)}")


# ---------------------------------- Operators without a converter of their own, by the definition that ONNX has of them
def expand_node(proto: Any, domain: str, opset: int, inputs: Sequence[Type | None]) -> FunctionProto | None:
    """The body by ONNX of an operator defined through simpler ones, with this node's attributes put in.

    None for a primitive operator, or one that ONNX does not know.
    """
    schema = find_schema(proto.op_type, domain, opset)
    if schema is None:
        return None
    if schema.has_function:
        body = FunctionProto()
        body.CopyFrom(schema.function_body)
    elif schema.has_context_dependent_function:
        types = [type_to_proto(type_).SerializeToString() for type_ in inputs]
        encoded = schema.get_context_dependent_function(proto.SerializeToString(), types)
        if not encoded:
            return None
        body = FunctionProto.FromString(encoded)
    else:
        return None
    attributes = {name: entry.default_value for name, entry in schema.attributes.items() if entry.default_value.type}
    attributes.update({entry.name: entry for entry in proto.attribute})
    _put_attributes(body.node, attributes)
    return body


def _put_attributes(nodes: Any, values: Mapping[str, Any]) -> None:
    """Replace attributes that refer to the function's own by their values; one without a value is dropped."""
    for node in nodes:
        resolved = []
        for entry in node.attribute:
            if entry.ref_attr_name:
                if entry.ref_attr_name not in values:
                    continue
                value = AttributeProto()
                value.CopyFrom(values[entry.ref_attr_name])
                value.name = entry.name
                resolved.append(value)
            else:
                if entry.type == AttributeProto.GRAPH:
                    _put_attributes(entry.g.node, values)
                resolved.append(entry)
        kept = [AttributeProto.FromString(entry.SerializeToString()) for entry in resolved]
        del node.attribute[:]
        node.attribute.extend(kept)


# ------------- Functions that a model defines itself, put in place of their calls, where that ends and fits into memory
#: Nodes that a model may have once its functions are in place: forty functions that call each other twice would be 2⁴⁰.
MOST_NODES = 1 << 20

_Key = tuple[str, str, str]


def without_functions(proto: ModelProto, label: str) -> ModelProto:
    """The model with its functions in place of their calls.

    Raises `ModelError` where one calls itself, they are malformed, or the calls come to more than `MOST_NODES` nodes.
    """
    count = _count_nodes(proto)
    if count > MOST_NODES:
        raise ModelError(
            f"the functions that {label} defines come to {count} nodes once they are in place of their calls, more "
            f"than the {MOST_NODES} that are taken; the file is damaged, or made to exhaust memory"
        )
    try:
        return inline_local_functions(proto)
    except Exception as error:  # of ONNX's C++ code, which says it by classes of its own
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"the functions that {label} defines cannot be put in place of their calls: {reason}"
        ) from None


def _count_nodes(proto: ModelProto) -> int:
    """The number of nodes of the model with its functions inlined; those that call themselves count once."""
    functions = {_key(function.domain, function.name, function.overload): function for function in proto.functions}
    sizes: dict[_Key, int] = {}
    begun: set[_Key] = set()
    pending = list(functions)
    while pending:  # callees first, with a stack of its own: calls nest as deep as the file says
        key = pending[-1]
        calls = [called for called in map(_called, _nodes(functions[key].node)) if called in functions]
        waiting = [called for called in calls if called not in sizes and called not in begun]
        begun.add(key)
        if waiting:
            pending += waiting
        else:
            sizes[pending.pop()] = _size(functions[key].node, sizes)
    return _size(proto.graph.node, sizes)


def _size(nodes: Iterable[Any], sizes: dict[_Key, int]) -> int:
    return sum(sizes.get(_called(node), 1) for node in _nodes(nodes))


def _nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes and those of all graphs within them."""
    pending = [nodes]
    while pending:
        for node in pending.pop():
            yield node
            pending += [a.g.node for a in node.attribute if a.type == AttributeProto.GRAPH]


def _called(node: Any) -> _Key:
    return _key(node.domain, node.op_type, node.overload)


def _key(domain: str, name: str, overload: str) -> _Key:
    return ("" if domain == "ai.onnx" else domain, name, overload)


# --------------------------------------------------------- Types of ONNX values as Relay types, and the other way round
#: Spelling of a symbolic extent -> the expression it stands for.
Symbols = Mapping[str, Any]


def type_from_proto(proto: TypeProto, where: str, symbols: Symbols | None = None) -> Type | None:
    """The Relay type of an ONNX one; None where the element type is not given.

    Extents named in `symbols` are those expressions, other named or unknown ones `Any()`.
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


def _extent(dim: Any, symbols: Symbols) -> Any:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return symbols.get(dim.dim_param, AnyDim())


def type_to_proto(type_: Type | None, symbols: dict[str, Any] | None = None) -> TypeProto:
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
            elif not isinstance(extent, AnyDim):
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
    proto: Any, domain: str, opset: int, inputs: Sequence[Type | None], data: Mapping[str, onnx.TensorProto]
) -> dict[str, Type | None]:
    """The types of a node's outputs as ONNX infers them, by name; empty where it cannot.

    `data` holds the values of inputs that are known.
    """
    schema = find_schema(proto.op_type, domain, opset)
    if schema is None:
        return {}
    symbols: dict[str, Any] = {}
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
    """The narrowest type that holds values of both: extents that differ become `Any()`, or the rank is unknown.

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
        return TensorType([x if x is y or x == y else AnyDim() for x, y in zip(a.shape, b.shape)], a.dtype)
    if a_kind == b_kind and a_kind in ("Sequence", "Optional"):
        element = join_types(a_parts[0], b_parts[0])
        return None if element is None else (sequence_of if a_kind == "Sequence" else optional_of)(element)
    if a_kind in _COLLECTIONS or b_kind in _COLLECTIONS:
        return OBJECT
    dtypes = {_element_dtype(type_) for type_ in (a, b)}
    only = dtypes.pop() if len(dtypes) == 1 else None
    return None if only is None else unranked(only)


def _element_dtype(type_: Type) -> Any:
    kind, parts = parts_of(type_)
    if kind == "AnyRank":
        return parts[0].dtype  # type: ignore[attr-defined]
    return type_.dtype if isinstance(type_, TensorType) else None
