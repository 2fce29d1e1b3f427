"""Operators without a converter of their own, by the definition that ONNX has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto

from tilewright.frontend.onnx.schema import find_schema
from tilewright.frontend.onnx.value_types import type_to_proto
from tilewright.relay.ir.type import Type


def expand_node(proto: Any, domain: str, opset: int, inputs: Sequence[Type | None]) -> FunctionProto | None:
    """The body ONNX gives for an operator defined through simpler ones, with this node's attributes put in.

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
