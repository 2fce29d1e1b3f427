"""JSON 1.1 over HTTP: `POST /` with the operation in `X-Amz-Target`, answers and errors as clients read them."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store
from tilewright.service.neo.errors import SerializationException, ServiceError, UnknownOperation
from tilewright.service.neo.operations import Operations
from tilewright.service.neo.signature import Received, signed_by

_log = logging.getLogger(__name__)
_TYPE, _PREFIX = "application/x-amz-json-1.1", "SageMaker."


class TooLarge(ServiceError):
    """A body of more bytes than a request may have."""

    code, status = "RequestEntityTooLargeException", 413


class Neo:
    """The endpoint of SageMaker's API."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._operations = Operations(store, settings)

    async def respond(self, request: Request) -> Response:
        """Answer one request; an error of the service as its code and message, any other as InternalFailure."""
        try:
            received = await self._received(request)
            answer = await run_in_threadpool(self._answer, received)
        except ServiceError as error:
            return _response({"__type": error.code, "message": str(error)}, error.status)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            _log.exception("a request failed")
            return _response({"__type": ServiceError.code, "message": "an internal error, which is logged"}, 500)
        return _response(answer, 200)

    async def _received(self, request: Request) -> Received:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self._settings.request_bytes:
                raise TooLarge(f"a request has {self._settings.request_bytes} bytes at most")
        path = request.scope.get("raw_path", b"/").decode("latin-1").partition("?")[0]
        query = request.scope["query_string"].decode("latin-1")
        return Received(request.method, path, query, dict(request.headers), bytes(body))

    def _answer(self, received: Received) -> dict[str, Any]:
        owners: dict[str, str] = {}

        def secret_of(key: str) -> str | None:
            found = self._store.key(key)
            if found is None:
                return None
            owners[key] = found.owner
            return found.secret

        key = signed_by(received, secret_of, self._store.first_time, self._settings.clock_skew)
        target = received.headers["x-amz-target"]
        if not target.startswith(_PREFIX):
            raise UnknownOperation(f"{target[:100]}: operations are named {_PREFIX}…")
        try:
            body = json.loads(received.body or b"{}", parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise SerializationException("the body is no JSON") from None
        return self._operations.answer(target.removeprefix(_PREFIX), owners[key], body)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _response(content: dict[str, Any], status: int) -> Response:
    headers = {"x-amzn-RequestId": secrets.token_hex(16)}
    return Response(json.dumps(content), status, headers, media_type=_TYPE)
