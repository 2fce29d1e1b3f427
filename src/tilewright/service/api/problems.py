"""Errors as RFC 9457 has them: `application/problem+json` with a title, a detail and the status."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from tilewright.service.jobs.quotas import QuotaExceeded

MEDIA_TYPE = "application/problem+json"
#: The schema of an error.
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["at", "message"],
                "properties": {"at": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}


class Problem(Exception):
    """An answer other than the wanted one; `errors` are the parts of the request that are at fault."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: list[dict[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.errors, self.headers = status, errors, headers

    def response(self) -> Response:
        """The answer over HTTP."""
        title = HTTPStatus(self.status).phrase
        content: dict[str, Any] = {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": str(self),
        }
        if self.errors:
            content["errors"] = self.errors
        return JSONResponse(content, self.status, self.headers, MEDIA_TYPE)


def over_quota(error: QuotaExceeded) -> Problem:
    """The answer where a quota is used up."""
    return Problem(429, f"the quota is {error}", headers={"Retry-After": str(error.seconds)})


def missing(kind: str, id: str) -> Problem:
    """The answer where an owner has no such thing."""
    return Problem(404, f"there is no {kind} {id[:64]}")
