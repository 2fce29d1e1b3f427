"""What the onnx package knows of an operator: whether it exists, how it is defined, which attributes it takes."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from onnx import AttributeProto

from tilewright.errors import ModelError


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
