"""Inferences over HTTP: a body of JSON, with raw tensors behind it where it has any, and the same back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import UserError
from tilewright.serving.models.batches import Array, Request
from tilewright.serving.models.core import Core, Wanted, checked_shape, memory_input
from tilewright.serving.models.datatypes import from_bytes, from_values, to_bytes, to_values
from tilewright.serving.models.errors import RequestError
from tilewright.serving.models.version import Version

#: Called with a status, headers and the pieces of a body.
Respond = Callable[[int, str, list[Any]], None]


def parse_json(body: Any, most: int) -> dict[str, Any]:
    """The object that a body is. Raises `RequestError` where it is none, or longer than `most` bytes."""
    if len(body) > most:
        raise RequestError(f"{len(body)} bytes of JSON, and {most} are the limit; send tensors as raw bytes", 413)
    try:
        found = json.loads(bytes(body)) if len(body) else {}
    except (ValueError, RecursionError) as error:
        raise RequestError(f"failed to parse the request's JSON: {error}") from None
    if not isinstance(found, dict):
        raise RequestError(f"the request's JSON is no object, but {type(found).__name__}")
    return found


class Inference:
    """One request for an inference, from its body to its response."""

    __slots__ = ("_core", "_id", "_respond", "_version", "_wanted", "request")

    def __init__(self, core: Core, version: Version, body: memoryview, header_length: str, respond: Respond) -> None:
        """Parse and queue it; `respond` is called when it is over. Raises `RequestError` for a malformed one."""
        self._core, self._version, self._respond = core, version, respond
        head, raw = _split(body, header_length)
        fields = parse_json(head, core.limits.json)
        parameters = _object(fields, "parameters")
        self._id = fields.get("id", "")
        if not isinstance(self._id, str):
            raise RequestError("the id of a request is a text")
        self._wanted = self._outputs(fields, bool(parameters.get("binary_data_output")))
        arrays = self._inputs(fields, raw)
        self.request = version.submit(arrays, core.seconds(parameters), self._done)

    def _inputs(self, fields: Mapping[str, Any], raw: memoryview) -> dict[str, Array]:
        arrays: dict[str, Array] = {}
        position = 0
        for entry in _objects(fields, "inputs"):
            name, kind = entry.get("name"), entry.get("datatype")
            if not isinstance(name, str) or not isinstance(kind, str) or name in arrays:
                raise RequestError("every input has a name of its own and a datatype")
            shape, parameters = checked_shape(entry.get("shape"), name), _object(entry, "parameters")
            self._version.check(name, kind, shape)
            size = parameters.get("binary_data_size")
            if size is not None:
                if type(size) is not int or not 0 <= size <= len(raw) - position:
                    left = len(raw) - position
                    raise RequestError(f"input {name!r} has binary_data_size {size!r}; {left} bytes are left")
                arrays[name] = from_bytes(raw[position : position + size], kind, shape, name)
                position += size
            elif "shared_memory_region" in parameters:
                arrays[name] = from_bytes(memory_input(self._core, name, parameters), kind, shape, name)
            elif "data" in entry:
                arrays[name] = from_values(entry["data"], kind, shape, name)
            else:
                raise RequestError(f"input {name!r} has no data")
        if position != len(raw):
            raise RequestError(f"{len(raw) - position} bytes behind the last input belong to none")
        return arrays

    def _outputs(self, fields: Mapping[str, Any], binary: bool) -> list[Wanted]:
        if not fields.get("outputs"):
            return [Wanted(self._version, spec.name, {}, binary) for spec in self._version.outputs]
        entries = _objects(fields, "outputs")
        return [Wanted(self._version, str(e.get("name")), _object(e, "parameters"), binary) for e in entries]

    def _done(self, request: Request) -> None:
        if request.gone:
            return
        try:
            if request.error is not None:
                raise request.error
            self._send(request)
        except UserError as error:
            refuse(error, self._respond)

    def _send(self, request: Request) -> None:
        outputs: list[dict[str, Any]] = []
        pieces: list[Any] = []
        for wanted in self._wanted:
            array = request.outputs[wanted.number]
            kind = self._version.datatypes[wanted.name]
            entry: dict[str, Any] = {"name": wanted.name, "datatype": kind, "shape": list(array.shape)}
            if wanted.region is not None:
                data = to_bytes(array)
                self._core.memory.write(wanted.region, wanted.offset, wanted.byte_size, data, wanted.name)
                entry["parameters"] = {
                    "shared_memory_region": wanted.region, "shared_memory_offset": wanted.offset,
                    "shared_memory_byte_size": len(data),
                }  # fmt: skip
            elif wanted.binary:
                data = to_bytes(array)
                entry["parameters"] = {"binary_data_size": len(data)}
                pieces.append(data)
            else:
                entry["data"] = to_values(array)
            outputs.append(entry)
        version = self._version
        head = json.dumps(
            {"model_name": version.name, "model_version": version.version, "id": self._id, "outputs": outputs}
        ).encode()
        if pieces:
            headers = f"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {len(head)}\r\n"
            self._respond(200, headers, [head, *pieces])
        else:
            self._respond(200, JSON, [head])


JSON = "Content-Type: application/json\r\n"


def refuse(error: Exception, respond: Respond) -> None:
    """Answer with an error of the protocol."""
    status = error.status if isinstance(error, RequestError) else 400
    headers = JSON
    if isinstance(error, RequestError) and error.retry_after is not None:
        headers += f"Retry-After: {error.retry_after}\r\n"
    respond(status, headers, [json.dumps({"error": str(error)}).encode()])


def _split(body: memoryview, header_length: str) -> tuple[memoryview, memoryview]:
    """The JSON of a body and the raw tensors behind it."""
    if not header_length:
        return body, body[len(body) :]
    if not header_length.isascii() or not header_length.isdecimal() or int(header_length[:20]) > len(body):
        raise RequestError(f"Inference-Header-Content-Length: {header_length[:40]!r} is no length within the body")
    length = int(header_length)
    return body[:length], body[length:]


def _object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = fields.get(name) or {}
    if not isinstance(found, dict):
        raise RequestError(f"{name} is no object of JSON")
    return found


def _objects(fields: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = fields.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise RequestError(f"{name} is no list of objects")
    return found
