"""`/v1/jobs/{id}/events`: what happens to a job, as server-sent events, until it has ended.

Events are `status`, `stage`, `log` (a line) and at the end `result` (the job). Their ids are positions in the log: with
`Last-Event-ID` a client that was cut off goes on behind it. The stream looks at the job's row, so that any process of
the service can serve it, whichever worker runs the job.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tilewright.service.api.jobs import JOB_ID, STATUS, described, job_of
from tilewright.service.api.operation import EVENTS, Answer, Call, Operation, Parameter
from tilewright.service.api.problems import Problem
from tilewright.service.jobs.store import ENDED
from tilewright.service.jobs.tables import Job

#: Seconds between two looks at a job, and after which a client hears that the stream is alive.
_LOOK, _HEARTBEAT = 0.3, 15.0
#: Streams of this process at most: each asks the database again and again.
_MOST_STREAMS = 500
_streams = 0


async def _events(call: Call) -> Response:
    if _streams >= _MOST_STREAMS:
        raise Problem(
            503, "the service has as many streams as it may; ask for the job itself", None, {"Retry-After": "5"}
        )
    job = await run_in_threadpool(job_of, call)
    position = call.parameters.get("Last-Event-ID", 0)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(call, job, position), 200, headers, EVENTS)


async def _stream(call: Call, job: Job, position: int) -> AsyncIterator[str]:
    global _streams
    sent: dict[str, Any] = {}
    heard = time.monotonic()
    _streams += 1
    try:
        yield "retry: 1000\n\n"
        while True:
            text, position = _news(job, sent, position)
            if text or time.monotonic() - heard > _HEARTBEAT:
                heard = time.monotonic()
                yield text or ": alive\n\n"
            if job.status in ENDED:
                yield _event("result", described(job), position)
                return
            if call.ending.is_set():  # a client takes it up again
                return
            await asyncio.sleep(_LOOK)
            job = await run_in_threadpool(job_of, call)
    except Problem:  # the job was deleted
        return
    finally:
        _streams -= 1


def _news(job: Job, sent: dict[str, Any], position: int) -> tuple[str, int]:
    """The events since those that were sent, and the position in the log behind them."""
    found = []
    if (status := STATUS[job.status]) != sent.get("status"):
        sent["status"] = status
        found.append(_event("status", {"status": status, "reason": job.reason}, position))
    log = job.log.encode()
    begin = max(0, position - job.log_start)
    end = len(log) if job.status in ENDED else log.rfind(b"\n") + 1
    for line in log[begin:end].splitlines(keepends=True):
        position = job.log_start + begin + len(line)
        begin += len(line)
        found.append(_event("log", {"line": line.decode(errors="replace").rstrip("\r\n")}, position))
    if (stage := (job.stage, job.progress)) != sent.get("stage", ("", 0.0)):
        sent["stage"] = stage
        found.append(_event("stage", {"stage": job.stage, "progress": job.progress}, position))
    return "".join(found), position


def _event(kind: str, data: dict[str, Any], position: int) -> str:
    return f"event: {kind}\nid: {position}\ndata: {json.dumps(data)}\n\n"


OPERATIONS = (
    Operation(
        "readEvents", "GET", "/v1/jobs/{id}/events", "What happens to a job, as it happens.", _events,
        {200: Answer("Events `status`, `stage`, `log` and `result`.", {"type": "string"}, EVENTS)},
        (JOB_ID, Parameter("Last-Event-ID", "header", {"type": "integer", "minimum": 0, "maximum": 2**53},
                           "of the last event that came")),
        waits=True,
    ),
)  # fmt: skip
