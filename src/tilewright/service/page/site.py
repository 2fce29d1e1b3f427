"""The page's files at `/ui/`, with headers that keep everything else out, and the way there from `/`.

`model.mjs` is the loader that folders of models for the web have, by which the page runs a module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tilewright.runtime.web.package import loader

#: Nothing but what the service itself sends, compiled modules among it; no frames around it, no forms to elsewhere.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FILES = (".html", ".css", ".js", ".svg")


class _Site(StaticFiles):  # type: ignore[misc, unused-ignore]
    """Files of the page, and no others of this folder."""

    def lookup_path(self, path: str) -> tuple[str, Any]:
        """The file of a path, `index.html` of the folder itself."""
        path = "index.html" if path in (".", "") else path
        return super().lookup_path(path) if path.endswith(_FILES) else ("", None)

    async def get_response(self, path: str, scope: Any) -> Response:
        """The file with the headers."""
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


def site() -> list[BaseRoute]:
    """The routes of the page."""

    async def redirect(request: Request) -> Response:
        return RedirectResponse("ui/")

    async def module(request: Request) -> Response:
        return Response(loader(), headers=_HEADERS, media_type="text/javascript")

    return [
        Route("/ui/model.mjs", module),
        Mount("/ui", _Site(directory=Path(__file__).parent)),
        Route("/", redirect, methods=["GET"]),
    ]
