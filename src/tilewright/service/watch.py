"""The view of operators on a service: counts for Prometheus, a log line for each request, spans for OpenTelemetry.

Metrics are of this process (requests) and of the database (jobs); labels never name owners or models.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import Any

from sqlalchemy import func, select

from tilewright.service.api.routes import OPERATION
from tilewright.service.jobs.packages import package
from tilewright.service.jobs.store import Store
from tilewright.service.jobs.tables import Job, Upload
from tilewright.service.jobs.traces import span, tracer

_access = logging.getLogger("tilewright.service.access")
#: Upper bounds of the histogram of times of requests, in seconds.
_BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class Watch:
    """An ASGI application around another, which counts, logs and traces its requests."""

    def __init__(self, app: Any, store: Store) -> None:
        tracer()  # complains now where it cannot be had
        self._app, self._store = app, store
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, list[float]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] == "/metrics" and scope["method"] == "GET":
            await self._answer_metrics(scope, receive, send)
            return
        start, status = time.monotonic(), 500

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with span("request", headers, "SERVER", {"http.request.method": scope["method"]}) as traced:
            try:
                await self._app(scope, receive, watched)
            finally:
                name = scope.get(OPERATION, "other")
                self._count(name, status, time.monotonic() - start)
                if traced is not None:
                    traced.update_name(name)
                    traced.set_attribute("http.response.status_code", status)
                about = {"method": scope["method"], "path": scope["path"], "operation": name, "status": status}
                seconds = round(time.monotonic() - start, 4)
                _access.info(
                    "%s %s %d", scope["method"], scope["path"], status, extra={"fields": about | {"seconds": seconds}}
                )

    def _count(self, name: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[name, status] += 1
            row = self._seconds.setdefault(name, [0.0] * (len(_BOUNDS) + 2))
            for number, bound in enumerate(_BOUNDS):
                row[number] += seconds <= bound
            row[-2] += 1
            row[-1] += seconds

    async def _answer_metrics(self, scope: Any, receive: Any, send: Any) -> None:
        text = await package("starlette.concurrency").run_in_threadpool(self.metrics)
        answer = package("starlette.responses").Response(text, media_type="text/plain; version=0.0.4")
        await answer(scope, receive, send)

    def metrics(self) -> str:
        """All metrics in Prometheus' text format, version 0.0.4."""
        now = time.time()
        with self._store.session(reads=True) as session:
            jobs = session.execute(select(Job.kind, Job.status, func.count()).group_by(Job.kind, Job.status)).all()
            oldest = session.scalar(select(func.min(Job.created)).where(Job.status == "STARTING"))
            kept = (
                int(session.scalar(select(func.sum(Upload.bytes))) or 0),
                int(session.scalar(select(func.sum(Job.stored))) or 0),
            )
        lines = ["# TYPE tilewright_jobs gauge"]
        lines += [f'tilewright_jobs{{kind="{kind}",status="{status}"}} {count}' for kind, status, count in jobs]
        lines += ["# TYPE tilewright_oldest_waiting_seconds gauge",
                  f"tilewright_oldest_waiting_seconds {now - oldest if oldest else 0:.3f}",
                  "# TYPE tilewright_stored_bytes gauge", f'tilewright_stored_bytes{{of="models"}} {kept[0]}',
                  f'tilewright_stored_bytes{{of="artifacts"}} {kept[1]}']  # fmt: skip
        with self._lock:
            lines.append("# TYPE tilewright_requests_total counter")
            for (name, status), count in sorted(self._requests.items()):
                lines.append(f'tilewright_requests_total{{operation="{name}",status="{status}"}} {count}')
            lines.append("# TYPE tilewright_request_seconds histogram")
            for name, row in sorted(self._seconds.items()):
                for bound, so_far in zip((*_BOUNDS, "+Inf"), row, strict=False):
                    lines.append(f'tilewright_request_seconds_bucket{{operation="{name}",le="{bound}"}} {so_far:.0f}')
                lines.append(f'tilewright_request_seconds_count{{operation="{name}"}} {row[-2]:.0f}')
                lines.append(f'tilewright_request_seconds_sum{{operation="{name}"}} {row[-1]:.6f}')
        return "\n".join(lines) + "\n"
