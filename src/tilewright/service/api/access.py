"""The owner of a request: by its bearer key, or where the service is open to its own machine, without one."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from tilewright.service.api.problems import Problem
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store

#: The owner of what is made without a key.
OPEN = "open"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def owner_of(request: Request, store: Store, settings: Settings) -> str:
    """The owner of a request. Raises `Problem` where it has no right key."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        owner = store.bearer(key.strip())
        if owner is not None:
            return owner
        raise Problem(
            401, "the key is none of this service's", headers={"WWW-Authenticate": 'Bearer error="invalid_token"'}
        )
    if settings.open:
        _own_page(request)
        return OPEN
    raise Problem(401, "send a key: Authorization: Bearer KEY, as `tilewright serve key OWNER` makes it",
                  headers={"WWW-Authenticate": "Bearer"})  # fmt: skip


def _own_page(request: Request) -> None:
    """Raise `Problem` for a request that the page of another site had a browser on this machine send."""
    host = urlsplit(f"//{request.headers.get('host', '')}")
    origin = request.headers.get("origin")
    if host.hostname not in _LOOPBACK or (origin is not None and urlsplit(origin).netloc != host.netloc):
        raise Problem(403, "without keys the service is for programs and pages of its own machine alone")
