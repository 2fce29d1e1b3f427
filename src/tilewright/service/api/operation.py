"""Declarations of operations: what a request has, what answers there are. Requests are checked by them.

Schemas are JSON Schema of 2020-12, as OpenAPI 3.1 has it; `document.py` writes the same declarations down.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tilewright.service.api.problems import Problem
from tilewright.service.jobs.packages import package
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store

Schema = Mapping[str, Any]
JSON, BYTES, TEXT, EVENTS = "application/json", "application/octet-stream", "text/plain", "text/event-stream"
#: Faults of a request that an answer lists at most.
_MOST_ERRORS = 10


@dataclass(frozen=True)
class Parameter:
    """A parameter in the "path", "query" or "header" of a request; its schema is of a string, integer or boolean."""

    name: str
    part: str
    schema: Schema
    description: str
    required: bool = False


@dataclass(frozen=True)
class Answer:
    """An answer: what it says, the schema of its body (None: it has none, or bytes), the media type, its headers."""

    description: str
    schema: Schema | None = None
    media_type: str | None = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A request that was checked: who it is from, its parameters by name, and its body as JSON."""

    owner: str
    parameters: Mapping[str, Any]
    body: Any
    request: Request
    store: Store
    settings: Settings
    #: Set once the service is to end.
    ending: threading.Event


Handler = Callable[[Call], Any]


@dataclass(frozen=True)
class Operation:
    """An operation at a path. `handle` takes a `Call` and returns JSON, or a response; `waits` says that it is async.

    `body` is the schema of a JSON body; with `raw` the body is bytes that the handler reads. `public` ones need no key.
    """

    id: str
    method: str
    path: str
    summary: str
    handle: Handler
    answers: Mapping[int, Answer]
    parameters: Sequence[Parameter] = ()
    body: Schema | None = None
    raw: bool = False
    waits: bool = False
    public: bool = False

    async def respond(self, call: Call) -> Response:
        """The answer to a checked request."""
        from starlette.concurrency import run_in_threadpool

        found = await self.handle(call) if self.waits else await run_in_threadpool(self.handle, call)
        if isinstance(found, Response):
            return found
        status = next(iter(self.answers))
        return Response(status_code=status) if found is None else JSONResponse(found, status)


def ref(name: str) -> Schema:
    """A reference to a schema of `schemas.py`."""
    return {"$ref": f"#/components/schemas/{name}"}


def parameters_of(operation: Operation, request: Request) -> dict[str, Any]:
    """The parameters of a request by name. Raises `Problem` for those that are missing, unknown or wrong."""
    parts: dict[str, Mapping[str, str]] = {
        "path": request.path_params,
        "query": request.query_params,
        "header": request.headers,
    }
    known = {one.name for one in operation.parameters if one.part == "query"}
    unknown = sorted(set(request.query_params) - known)
    errors = [_error(f"query/{name[:64]}", "is no parameter of this operation") for name in unknown]
    found: dict[str, Any] = {}
    for one in operation.parameters:
        text = parts[one.part].get(one.name)
        at = f"{one.part}/{one.name}"
        if one.part == "query" and len(request.query_params.getlist(one.name)) > 1:
            errors.append(_error(at, "is there more than once"))
        elif text is not None:
            found[one.name] = _converted(text, one.schema)
            errors += [_error(at, message) for _, message in faults(one.schema, found[one.name])]
        elif one.required:
            errors.append(_error(at, "is missing"))
    if errors:
        raise _invalid(errors)
    return found


def body_of(schema: Schema, raw: bytes, media_type: str) -> Any:
    """The JSON of a body, where it keeps a schema. Raises `Problem`."""
    if media_type.partition(";")[0].strip().lower() != JSON:
        raise Problem(415, f"the body is to be {JSON}, as its Content-Type says")
    try:
        found = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Problem(400, "the body is no JSON") from None
    errors = [_error(f"body{at}", message) for at, message in faults(schema, found)]
    if errors:
        raise _invalid(errors)
    return found


def faults(schema: Schema, value: Any) -> list[tuple[str, str]]:
    """The positions at which a value breaks a schema, as JSON pointers, and how it does."""
    found = []
    for error in _validator(json.dumps(schema)).iter_errors(value):
        # of alternatives that a property tells apart, the one that is meant says what is wrong
        chosen = _chosen(error.schema, error.instance) if error.validator == "oneOf" else None
        inner = faults(chosen, error.instance) if chosen else [("", error.message[:300])]
        at = "".join(f"/{step}" for step in error.absolute_path)
        found += [(at + below, message) for below, message in inner]
        if len(found) >= _MOST_ERRORS:
            break
    return found[:_MOST_ERRORS]


def _chosen(schema: Schema, value: Any) -> Schema | None:
    """The alternative that the discriminator of a schema selects for a value."""
    sent = schema.get("discriminator")
    if sent is None or not isinstance(value, dict):
        return None
    name = value.get(sent["propertyName"])
    reference = sent["mapping"].get(name) if isinstance(name, str) else None
    if reference is None:
        kinds = {"type": "object", "required": [sent["propertyName"]]}
        return {**kinds, "properties": {sent["propertyName"]: {"enum": list(sent["mapping"])}}}
    return {"$ref": reference}


@functools.cache
def _validator(schema: str) -> Any:
    # only where requests are checked: they refer to declarations
    from tilewright.service.api.schemas import SCHEMAS

    whole = {**json.loads(schema), "components": {"schemas": SCHEMAS}}
    return package("jsonschema").Draft202012Validator(whole)


def _converted(text: str, schema: Schema) -> Any:
    """A parameter's text as its schema's type; the text itself where it is none of it."""
    if schema.get("type") == "integer":
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19 else text
    if schema.get("type") == "boolean":
        return {"true": True, "false": False}.get(text, text)
    return text


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _error(at: str, message: str) -> dict[str, str]:
    return {"at": at, "message": message}


def _invalid(errors: list[dict[str, str]]) -> Problem:
    listed = "; ".join(f"{one['at']} {one['message']}" for one in errors)
    return Problem(422, f"the request breaks its schema: {listed}"[:1000], errors)


Waiting = Callable[[Call], Awaitable[Response]]
