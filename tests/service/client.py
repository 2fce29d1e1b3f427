"""A client of the service's own API for tests, which checks each answer against the OpenAPI document."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from jsonschema import Draft202012Validator

from tests.service.conftest import Service


@dataclass
class Reply:
    """An answer: its status, headers by lower-case name, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Client:
    """Calls of one owner."""

    service: Service
    key: str | None
    document: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(service: Service, owner: str) -> Client:
        """A client with a new key."""
        client = Client(service, service.store.add_bearer_key(owner))
        client.document = client.call("GET", "/v1/openapi.json").json
        return client

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, **query: Any
    ) -> Reply:
        """The answer to a request; JSON where the body is no bytes."""
        connection = http.client.HTTPConnection(urlsplit(self.service.url).netloc, timeout=60)
        sent = dict(headers or {})
        if self.key:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        queries = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        connection.request(method, f"{path}?{queries}" if queries else path, body, sent)
        response = connection.getresponse()
        reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        if self.document:
            self._check(method, path, reply)
        return reply

    def _check(self, method: str, path: str, reply: Reply) -> None:
        """Hold an answer against the document."""
        known = [one for one in self.document["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", one), path)]
        if not known or method.lower() not in self.document["paths"][known[0]]:
            assert reply.status in (404, 405)
            return
        answers = self.document["paths"][known[0]][method.lower()]["responses"]
        content = answers.get(str(reply.status), answers["default"]).get("content", {})
        media_type = reply.headers.get("content-type", "").partition(";")[0]
        if not content:
            assert not reply.body
            return
        if media_type.endswith("json") and "application/octet-stream" not in content:
            schema = {**content[media_type]["schema"], "components": self.document["components"]}
            Draft202012Validator(schema).validate(reply.json)

    def upload(self, contents: bytes, name: str = "model.onnx") -> str:
        """The id of a file that is sent."""
        reply = self.call("POST", "/v1/models", contents, name=name)
        assert reply.status == 201, reply.body
        return str(reply.json["id"])

    def ended(self, job: str) -> dict[str, Any]:
        """A job once it has ended."""
        while True:
            found: dict[str, Any] = self.call("GET", f"/v1/jobs/{job}").json
            if found["status"] in ("completed", "failed", "stopped"):
                return found
            time.sleep(0.05)

    def run(self, kind: str, model: str, **others: Any) -> dict[str, Any]:
        """A job that is made, once it has ended."""
        reply = self.call("POST", "/v1/jobs", {"kind": kind, "model": model, **others})
        assert reply.status == 201, reply.body
        return self.ended(reply.json["id"])
