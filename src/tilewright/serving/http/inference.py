"""Inferences over HTTP: a body of JSON, with raw tensors behind it where it has any, and the same back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import UserError
from tilewright.serving.models.batches import Array, Request
from tilewright.serving.models.core import Core, Wanted, checked_shape, memory_input
from tilewright.serving.models.datatypes import NUMPY, from_bytes, from_values, to_bytes, to_values
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


class Head:
    """The content of the JSON of a request, checked against the version that it is for."""

    __slots__ = ("answers", "identity", "inputs", "outputs", "repeats", "seconds")

    def __init__(self, core: Core, version: Version, fields: Mapping[str, Any]) -> None:
        parameters = _object(fields, "parameters")
        self.identity = fields.get("id", "")
        if not isinstance(self.identity, str):
            raise RequestError("the id of a request is a text")
        self.seconds = core.seconds(parameters)
        self.inputs = [_Given(version, entry) for entry in _objects(fields, "inputs")]
        if len({given.name for given in self.inputs}) < len(self.inputs):
            raise RequestError("every input has a name of its own")
        binary = bool(parameters.get("binary_data_output"))
        if fields.get("outputs"):
            entries = _objects(fields, "outputs")
            self.outputs = [Wanted(version, str(e.get("name")), _object(e, "parameters"), binary) for e in entries]
        else:
            self.outputs = [Wanted(version, spec.name, {}, binary) for spec in version.outputs]
        #: True where a request with the same head differs in nothing that was read off it.
        self.repeats = all(given.size is not None for given in self.inputs)
        #: Headers and JSON of responses whose tensors are all raw and of known bytes, by the shapes of those.
        self.answers: dict[tuple[tuple[int, ...], ...], tuple[str, bytes]] | None = (
            {} if all(w.binary and w.region is None and version.datatypes[w.name] != "BYTES" for w in self.outputs)
            else None
        )  # fmt: skip


class _Given:
    """An input: raw bytes behind the JSON, in shared memory, or values."""

    __slots__ = ("kind", "name", "parameters", "plain", "shape", "size", "values")

    def __init__(self, version: Version, entry: Mapping[str, Any]) -> None:
        name, kind = entry.get("name"), entry.get("datatype")
        if not isinstance(name, str) or not isinstance(kind, str):
            raise RequestError("every input has a name and a datatype")
        self.name, self.kind, self.values = name, kind, entry.get("data")
        self.shape, self.parameters = checked_shape(entry.get("shape"), name), _object(entry, "parameters")
        version.check(name, kind, self.shape)
        self.size: Any = self.parameters.get("binary_data_size")
        if self.size is not None and (type(self.size) is not int or self.size < 0):
            raise RequestError(f"input {name!r} has binary_data_size {str(self.size)[:40]}")
        dtype = NUMPY[kind]
        #: The element type, where the raw bytes are as many as the shape takes.
        self.plain = dtype if kind != "BYTES" and self.size == math.prod(self.shape) * dtype.itemsize else None

    def array(self, core: Core, raw: memoryview) -> Array:
        """The tensor, of which `raw` begins with the bytes where it is raw."""
        if self.plain is not None and self.size <= len(raw):
            return np.ndarray(self.shape, self.plain, raw)
        if self.size is not None:
            if self.size > len(raw):
                raise RequestError(f"input {self.name!r} has {len(raw)} bytes, and binary_data_size is {self.size}")
            return from_bytes(raw[: self.size], self.kind, self.shape, self.name)
        if "shared_memory_region" in self.parameters:
            return from_bytes(memory_input(core, self.name, self.parameters), self.kind, self.shape, self.name)
        if self.values is None:
            raise RequestError(f"input {self.name!r} has no data")
        return from_values(self.values, self.kind, self.shape, self.name)


#: Heads that a version keeps, and the bytes of each, at most.
_MOST_HEADS, _LONGEST_HEAD = 256, 4096


class Inference(Request):
    """One request for an inference, from its body to its response."""

    __slots__ = ("_core", "_head", "_respond", "_version")

    def __init__(self, core: Core, version: Version, body: memoryview, header_length: str, respond: Respond) -> None:
        """Parse and queue it; `respond` is called when it is over. Raises `RequestError` for a malformed one."""
        self._core, self._version, self._respond = core, version, respond
        text, raw = _split(body, header_length)
        self._head = head = self._read(bytes(text)) if len(text) <= _LONGEST_HEAD else self._parse(text)
        arrays = {}
        for given in head.inputs:
            arrays[given.name] = given.array(core, raw)
            raw = raw[given.size or 0 :]
        if raw:
            raise RequestError(f"{len(raw)} bytes behind the last input belong to none")
        version.submit(self, arrays, head.seconds)

    def _read(self, text: bytes) -> Head:
        """The head of a request; clients repeat theirs, so those of the last ones are kept."""
        kept = self._version.heads
        found = kept.get(text)
        if found is None:
            found = self._parse(text)
            if found.repeats:
                if len(kept) >= _MOST_HEADS:
                    kept.clear()
                kept[text] = found
        return found

    def _parse(self, text: Any) -> Head:
        return Head(self._core, self._version, parse_json(text, self._core.limits.json))

    def done(self) -> None:
        """Answer, where the client is still there."""
        if self.gone:
            return
        try:
            if self.error is not None:
                raise self.error
            self._send([self.outputs[wanted.number] for wanted in self._head.outputs])
        except UserError as error:
            refuse(error, self._respond)

    def _send(self, outputs: Sequence[Array]) -> None:
        answers = self._head.answers
        shapes = tuple([array.shape for array in outputs]) if answers is not None else ()
        known = answers.get(shapes) if answers is not None else None
        if known is not None:
            headers, text = known
            self._respond(200, headers, [text, *map(to_bytes, outputs)])
            return
        text, pieces = self._answer(outputs)
        if not pieces:
            self._respond(200, JSON, [text])
            return
        headers = f"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {len(text)}\r\n"
        if answers is not None and len(answers) < _MOST_HEADS:
            answers[shapes] = headers, text
        self._respond(200, headers, [text, *pieces])

    def _answer(self, arrays: Sequence[Array]) -> tuple[bytes, list[Any]]:
        """The JSON of a response, and the raw tensors behind it; those for shared memory are written."""
        entries: list[dict[str, Any]] = []
        pieces: list[Any] = []
        for wanted, array in zip(self._head.outputs, arrays):
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
                pieces.append(to_bytes(array))
                entry["parameters"] = {"binary_data_size": len(pieces[-1])}
            else:
                entry["data"] = to_values(array)
            entries.append(entry)
        version, identity = self._version, self._head.identity
        made = {"model_name": version.name, "model_version": version.version, "id": identity, "outputs": entries}
        return json.dumps(made).encode(), pieces


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
