"""The operations of the API as routes of the web application: a request's way from the socket to its handler."""

from __future__ import annotations

import logging
import threading
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tilewright.errors import UserError
from tilewright.service.api import artifacts, audit, devices, events, jobs, models, targets
from tilewright.service.api.access import owner_of
from tilewright.service.api.document import openapi
from tilewright.service.api.operation import Answer, Call, Operation, body_of, parameters_of, ref
from tilewright.service.api.problems import Problem
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store

#: The key of an ASGI scope under which a route says which operation it is.
OPERATION = "tilewright.operation"

_log = logging.getLogger(__name__)


def _ready(call: Call) -> Any:
    """Ready, unless the database is away or the service is to end."""
    if call.ending.is_set():
        raise Problem(503, "the service is about to end")
    with call.store.session(reads=True) as session:
        session.execute(text("SELECT 1"))
    return {"status": "ready"}


def operations() -> tuple[Operation, ...]:
    """All operations."""
    return (
        *models.OPERATIONS, *jobs.OPERATIONS, *events.OPERATIONS, *artifacts.OPERATIONS, *targets.OPERATIONS,
        *devices.OPERATIONS, *audit.OPERATIONS,
        Operation("readDocument", "GET", "/v1/openapi.json", "This document.", lambda call: openapi(operations()),
                  {200: Answer("It.", {"type": "object"})}, public=True),
        Operation("readReadiness", "GET", "/readyz", "The service takes work.", _ready,
                  {200: Answer("It does.", ref("Health"))}, public=True),
        Operation("readHealth", "GET", "/healthz", "The service answers.", lambda call: {"status": "ok"},
                  {200: Answer("It does.", ref("Health"))}, public=True),
    )  # fmt: skip


def routes(store: Store, settings: Settings, ending: threading.Event) -> list[Route]:
    """A route for each path, which dispatches by method; others are answered with what there is."""
    paths: dict[str, dict[str, Operation]] = {}
    for one in operations():
        paths.setdefault(one.path, {})[one.method] = one
    return [Route(path, _endpoint(known, store, settings, ending)) for path, known in paths.items()]


def _endpoint(known: dict[str, Operation], store: Store, settings: Settings, ending: threading.Event) -> Any:
    """The ASGI application of a path."""

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        scope[OPERATION] = "other"
        method = "GET" if request.method == "HEAD" else request.method
        try:
            if method not in known:
                allowed = ", ".join(sorted(known))
                raise Problem(405, f"the path has {allowed}", headers={"Allow": allowed})
            scope[OPERATION] = known[method].id
            answer = await _answer(known[method], request, store, settings, ending)
        except Problem as problem:
            answer = problem.response()
        except UserError as error:
            answer = Problem(422, str(error)).response()
        except SQLAlchemyError as error:
            _log.warning("the database does not answer: %s", str(error).partition("\n")[0])
            answer = Problem(503, "the database does not answer", headers={"Retry-After": "5"}).response()
        except ClientDisconnect:
            answer = Response(status_code=400)
        except Exception:
            _log.exception("a request failed")
            answer = Problem(500, "an internal error, which is logged").response()
        await answer(scope, receive, send)

    return _Endpoint(respond)


class _Endpoint:
    """An ASGI application; a function would be taken for a handler of requests."""

    def __init__(self, respond: Any) -> None:
        self._respond = respond

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._respond(scope, receive, send)


async def _answer(
    one: Operation, request: Request, store: Store, settings: Settings, ending: threading.Event
) -> Response:
    owner = "" if one.public else await run_in_threadpool(owner_of, request, store, settings)
    parameters = parameters_of(one, request)
    body = None
    if one.body is not None:
        raw = await _body(request, settings.request_bytes)
        body = await run_in_threadpool(body_of, one.body, raw, request.headers.get("content-type", ""))
    return await one.respond(Call(owner, parameters, body, request, store, settings, ending))


async def _body(request: Request, most: int) -> bytes:
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > most:
            raise Problem(413, f"a request has {most} bytes at most")
    return bytes(found)
