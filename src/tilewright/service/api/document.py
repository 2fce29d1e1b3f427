"""The OpenAPI document, made of the declarations that requests are checked by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.service.api.operation import BYTES, JSON, Answer, Operation, ref
from tilewright.service.api.problems import MEDIA_TYPE
from tilewright.service.api.schemas import SCHEMAS
from tilewright.support.version import version

_ABOUT = "Compile, quantize, tune, profile and verify models: send a model, make a job, follow its events."


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document, as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tilewright", "version": version(), "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "tilewright serve key OWNER"}
            },
        },
        "security": [{"key": []}],
    }


def _operation(one: Operation) -> dict[str, Any]:
    answers = {str(status): _answer(answer) for status, answer in one.answers.items()}
    answers["default"] = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": ref("Problem")}}}
    found: dict[str, Any] = {"operationId": one.id, "summary": one.summary, "responses": answers}
    if one.public:
        found["security"] = []
    if one.parameters:
        found["parameters"] = [
            {"name": p.name, "in": p.part, "required": p.required, "schema": p.schema, "description": p.description}
            for p in one.parameters
        ]
    if one.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": one.body}}}
    elif one.raw:
        found["requestBody"] = {"required": True, "content": {BYTES: {"schema": {"type": "string", "minLength": 1}}}}
    return found


def _answer(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {"description": answer.description}
    if answer.media_type is not None:
        found["content"] = {answer.media_type: {} if answer.schema is None else {"schema": answer.schema}}
    if answer.headers:
        found["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()
        }
    return found
