"""A trace of a run that Perfetto, Chrome (about://tracing) and others show on a time line.

Format: "Trace Event Format", the JSON object form with `traceEvents`; times are in microseconds. A track is a thread of
a process there: the workers of the model are threads of process 1, the stages of its compilation those of process 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.runtime.profile import KernelTime
from tilewright.support.trace import Report, Span

_MODEL, _COMPILER = 1, 2


def chrome_trace(rows: Sequence[KernelTime], compiled: Report | None = None) -> dict[str, Any]:
    """The trace of kernels that ran one after another, one track a worker, and of the compilation before.

    Where a row does not say when its workers ran, it stands on the first track behind the one before it.
    """
    spans = sorted(compiled.spans, key=lambda span: (span.start, -span.seconds)) if compiled is not None else []
    starts = [begin for row in rows for begin, end in row.shares if end > 0] + [span.start for span in spans]
    origin = min(starts, default=0.0)
    events = [*_kernels(rows, origin), *_stages(spans, origin)]
    return {"traceEvents": [*_names(events), *events], "displayTimeUnit": "ms"}


def chrome_trace_text(rows: Sequence[KernelTime], compiled: Report | None = None) -> str:
    """The same as JSON text."""
    return json.dumps(chrome_trace(rows, compiled), ensure_ascii=False, indent=1)


def _kernels(rows: Sequence[KernelTime], origin: float) -> Iterator[dict[str, Any]]:
    """An event for each worker's share of each kernel."""
    clock = origin
    for row in rows:
        details = {"source": row.source, "flops": row.flops, "bytes": row.nbytes, **dict(row.choice)}
        shares = [(worker, *share) for worker, share in enumerate(row.shares) if share[1] > 0]
        for worker, begin, end in shares or [(0, clock, clock + row.seconds)]:
            yield _event(row.kernel, "kernel", _MODEL, worker, begin - origin, end - begin, details)
            clock = max(clock, end)


def _stages(spans: Sequence[Span], origin: float) -> Iterator[dict[str, Any]]:
    """An event for each stage, those that overlap without one holding the other on tracks of their own."""
    tracks: list[list[Span]] = []
    for span in spans:
        details = {"stage": " / ".join(span.path)}
        yield _event(
            span.path[-1], "stage", _COMPILER, _track(tracks, span), span.start - origin, span.seconds, details
        )


def _track(tracks: list[list[Span]], span: Span) -> int:
    """The first track where `span` fits into what is open there, or a new one; it is open there from now on."""
    for number, open_spans in enumerate(tracks):
        while open_spans and _end(open_spans[-1]) <= span.start:
            open_spans.pop()
        if not open_spans or _end(open_spans[-1]) >= _end(span):
            open_spans.append(span)
            return number
    tracks.append([span])
    return len(tracks) - 1


def _end(span: Span) -> float:
    return span.start + span.seconds


def _event(
    name: str, kind: str, process: int, thread: int, start: float, seconds: float, details: dict[str, Any]
) -> dict[str, Any]:
    """A complete event; `start` and `seconds` are in seconds."""
    position = {"pid": process, "tid": thread, "ts": start * 1e6, "dur": seconds * 1e6}
    return {"name": name, "cat": kind, "ph": "X", **position, "args": details}


def _names(events: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The names of the tracks."""
    words = {_MODEL: ("model", "worker"), _COMPILER: ("compilation", "stages")}
    for process, (title, thread) in words.items():
        tracks = sorted({event["tid"] for event in events if event["pid"] == process})
        if tracks:
            yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": title}}
        for track in tracks:
            names = {"name": f"{thread} {track}"}
            yield {"name": "thread_name", "ph": "M", "pid": process, "tid": track, "args": names}
