"""Paths of the protocol over HTTP, and the operation behind each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from tilewright.errors import UserError
from tilewright.serving.http.inference import JSON, Inference, Respond, parse_json, refuse
from tilewright.serving.models.batches import Request
from tilewright.serving.models.core import Core
from tilewright.serving.models.errors import RequestError

#: What a model's path ends in -> the method of `Core` with its data.
_OF_MODELS = {"": "model_metadata", "config": "model_config", "stats": "statistics"}


class Routes:
    """Answers requests of HTTP; `tasks` are those that are still at work."""

    def __init__(self, core: Core) -> None:
        self._core = core
        #: What is known of heads of requests by their bytes, which clients repeat.
        self.heads: dict[bytes, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: dict[str, Callable[[list[str], dict[str, Any]], Any]] = {
            "repository": self._repository,
            "systemsharedmemory": self._memory,
        }

    def answer(self, method: str, path: str, header_length: str, body: memoryview, respond: Respond) -> Request | None:
        """Begin to answer; the inference that it begins, where it does."""
        try:
            model = _inferred(method, path)
            if model is not None:
                return Inference(self._core, self._core.repository.find(*model), body, header_length, respond)
            parts = _parts(path)
            if method == "GET":
                self._get(parts, respond)
            elif method == "POST":
                self._post(parts, body, respond)
            else:
                raise RequestError(f"{method} is not a method of {path[:200]}", 405)
        except UserError as error:
            refuse(error, respond)
        return None

    def _get(self, parts: list[str], respond: Respond) -> None:
        core = self._core
        if parts == ["metrics"]:
            respond(200, "Content-Type: text/plain; version=0.0.4\r\n", [core.metrics().encode()])
        elif parts == ["v2", "health", "live"]:
            respond(200, "", [])
        elif parts == ["v2", "health", "ready"]:
            respond(200 if core.ready else 503, "", [])
        elif parts == ["v2"]:
            _send(core.server_metadata(), respond)
        elif parts == ["v2", "models", "stats"]:
            _send(core.statistics(), respond)
        elif parts[:2] == ["v2", "models"] and len(parts) > 2:
            self._model(parts[2:], respond)
        elif parts[:2] == ["v2", "systemsharedmemory"] and parts[-1] == "status":
            core.check_trusted("share memory")
            _send(core.memory.status(parts[3] if len(parts) == 5 else ""), respond)
        elif parts[:2] == ["v2", "cudasharedmemory"] and parts[-1] == "status":
            _send([], respond)
        else:
            raise _unknown(parts)

    def _model(self, parts: list[str], respond: Respond) -> None:
        """GET below a model: `ready`, `config`, `stats`, or its metadata."""
        what = parts[-1] if parts[-1] in ("ready", *_OF_MODELS) and len(parts) in (2, 4) else ""
        name, version = _model(parts[:-1] if what else parts)
        if what == "ready":
            respond(200 if self._core.model_ready(name, version) else 400, "", [])
        else:
            _send(getattr(self._core, _OF_MODELS[what])(name, version), respond)

    def _post(self, parts: list[str], body: memoryview, respond: Respond) -> None:
        handler = self._posts.get(parts[1]) if len(parts) > 2 and parts[0] == "v2" else None
        if handler is None:
            raise _unknown(parts)
        task = asyncio.get_running_loop().create_task(
            _finish(handler(parts[2:], parse_json(body, self._core.limits.json)), respond)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repository(self, parts: list[str], fields: dict[str, Any]) -> Any:
        if parts == ["index"]:
            rows = self._core.repository.index()
            return [row for row in rows if row["state"] == "READY" or not fields.get("ready")]
        if len(parts) == 3 and parts[0] == "models" and parts[2] in ("load", "unload"):
            parameters = fields.get("parameters") or {}
            if not isinstance(parameters, dict):
                raise RequestError("parameters is no object of JSON")
            if parts[2] == "load":
                await self._core.load(parts[1], parameters)
            else:
                self._core.unload(parts[1])
            return {}
        raise _unknown(["v2", "repository", *parts])

    async def _memory(self, parts: list[str], fields: dict[str, Any]) -> Any:
        memory = self._core.memory
        self._core.check_trusted("share memory")
        if len(parts) == 3 and parts[0] == "region" and parts[2] == "register":
            memory.register(parts[1], fields.get("key"), fields.get("offset", 0), fields.get("byte_size"))
        elif parts[-1] == "unregister" and len(parts) in (1, 3):
            memory.unregister(parts[1] if len(parts) == 3 else "")
        else:
            raise _unknown(["v2", "systemsharedmemory", *parts])
        return {}


async def _finish(work: Any, respond: Respond) -> None:
    try:
        _send(await work, respond)
    except UserError as error:
        refuse(error, respond)
    except Exception as error:
        refuse(RequestError(f"the server failed: {type(error).__name__}: {error}", 500), respond)


def _send(data: Any, respond: Respond) -> None:
    respond(200, JSON, [json.dumps(data).encode()])


def _parts(path: str) -> list[str]:
    return [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]


@lru_cache(256)
def _inferred(method: str, path: str) -> tuple[str, str] | None:
    """Name and version of the model that a request is an inference of; clients repeat theirs."""
    parts = _parts(path)
    return _model(parts[2:-1]) if method == "POST" and parts[:2] == ["v2", "models"] and parts[-1] == "infer" else None


def _model(parts: list[str]) -> tuple[str, str]:
    """Name and version of `NAME` or `NAME/versions/VERSION`."""
    if len(parts) == 1 and parts[0]:
        return parts[0], ""
    if len(parts) == 3 and parts[1] == "versions":
        return parts[0], parts[2]
    raise _unknown(["v2", "models", *parts])


def _unknown(parts: list[str]) -> RequestError:
    return RequestError(f"there is nothing at /{'/'.join(parts)[:200]}", 404)
