"""Inferences over gRPC: tensors as raw bytes or as typed fields, and the response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.serving.grpc.messages import messages
from tilewright.serving.models.batches import Array, Request
from tilewright.serving.models.core import Core, Wanted, checked_shape, memory_input
from tilewright.serving.models.datatypes import from_bytes, from_values, to_bytes
from tilewright.serving.models.errors import RequestError
from tilewright.serving.models.version import Version

#: The field of typed contents that a datatype has; 16-bit floats are raw alone.
_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


def parameters(found: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as plain values."""
    choices = ((name, value, value.WhichOneof("parameter_choice")) for name, value in found.items())
    return {name: getattr(value, choice or "string_param") for name, value, choice in choices}


def inputs(core: Core, version: Version, message: Any) -> dict[str, Array]:
    """The inputs of a request by name. Raises `RequestError` for those that do not fit the model."""
    arrays: dict[str, Array] = {}
    raw = list(message.raw_input_contents)
    position = 0
    for entry in message.inputs:
        name, kind = entry.name, entry.datatype
        if name in arrays:
            raise RequestError(f"input {name!r} is there twice")
        shape, settings = checked_shape(list(entry.shape), name), parameters(entry.parameters)
        version.check(name, kind, shape)
        if "shared_memory_region" in settings:
            arrays[name] = from_bytes(memory_input(core, name, settings), kind, shape, name)
        elif raw:
            if position == len(raw):
                raise RequestError(f"input {name!r} has no data: there are {len(raw)} raw_input_contents")
            arrays[name] = from_bytes(memoryview(raw[position]), kind, shape, name)
            position += 1
        else:
            field = _CONTENTS.get(kind)
            if field is None:
                raise RequestError(f"input {name!r}: {kind} has no typed contents; send raw_input_contents")
            arrays[name] = from_values(list(getattr(entry.contents, field)), kind, shape, name)
    if position != len(raw):
        raise RequestError(f"there are {len(raw)} raw_input_contents, and {position} inputs that they are for")
    return arrays


def wanted(version: Version, message: Any) -> list[Wanted]:
    """The outputs that a request names, all where it names none. Raises `RequestError` for unknown ones."""
    if not message.outputs:
        return [Wanted(version, spec.name, {}, True) for spec in version.outputs]
    return [Wanted(version, entry.name, parameters(entry.parameters), True) for entry in message.outputs]


def response(core: Core, version: Version, request: Request, outputs: list[Wanted], identity: str) -> Any:
    """The message of a finished request. Raises its error, or `RequestError` where shared memory does not fit."""
    if request.error is not None:
        raise request.error
    made = messages()["ModelInferResponse"](model_name=version.name, model_version=version.version, id=identity)
    for one in outputs:
        array = request.outputs[one.number]
        entry = made.outputs.add(name=one.name, datatype=version.datatypes[one.name], shape=array.shape)
        data = to_bytes(array)
        if one.region is None:
            made.raw_output_contents.append(bytes(data))
        else:
            core.memory.write(one.region, one.offset, one.byte_size, data, one.name)
            entry.parameters["shared_memory_region"].string_param = one.region
            entry.parameters["shared_memory_offset"].int64_param = one.offset
            entry.parameters["shared_memory_byte_size"].int64_param = len(data)
    return made
