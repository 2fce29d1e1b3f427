"""Timers for the per-stage report: `span("lower")` around a stage, `collect()` around the whole compilation.

    with trace.collect() as report:
        with trace.span("frontend"):
            ...
    print(report.table())

Without an enclosing `collect()` a span costs about a microsecond and records nothing. Spans nest; a stage entered many
times (once for each kernel) is one row with a count. Collection is per thread of execution (a `ContextVar`). Each span
is also logged by the logger `tilewright` (`support/log.py`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tilewright.support.log import DEBUG, log

_ACTIVE: ContextVar[Report | None] = ContextVar("tilewright_trace", default=None)

#: Called on progress: the stage, how many of its pieces are done, and of how many.
Listener = Callable[[str, int, int], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("tilewright_progress", default=None)


@dataclass(frozen=True)
class Span:
    """One timed stretch: `path` is the names from the outermost span inwards; times are perf_counter seconds."""

    path: tuple[str, ...]
    start: float
    seconds: float


@dataclass(frozen=True)
class Row:
    """All spans with one path, added up."""

    path: tuple[str, ...]
    count: int
    seconds: float

    @property
    def name(self) -> str:
        """The innermost name of the path."""
        return self.path[-1]


@dataclass
class Report:
    """The record of one `collect()`: spans in order of completion, and counters (nodes built, tasks compiled...)."""

    spans: list[Span] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    _open: list[str] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """One row for each distinct path, parents before children, siblings in order of first start."""
        totals: dict[tuple[str, ...], tuple[float, int, float]] = {}
        for one in self.spans:
            first, count, seconds = totals.get(one.path, (one.start, 0, 0.0))
            totals[one.path] = (min(first, one.start), count + 1, seconds + one.seconds)
        starts = {path: first for path, (first, _, _) in totals.items()}

        def order(path: tuple[str, ...]) -> tuple[tuple[float, str], ...]:
            prefixes = (path[: depth + 1] for depth in range(len(path)))
            return tuple((starts.get(prefix, 0.0), prefix[-1]) for prefix in prefixes)

        return [Row(path, *totals[path][1:]) for path in sorted(totals, key=order)]

    def table(self) -> str:
        """The rows as aligned text: stage (indented by depth), seconds, and how often when more than once."""
        lines = []
        for row in self.rows():
            name = "  " * (len(row.path) - 1) + row.name
            times = f"  x{row.count}" if row.count > 1 else ""
            lines.append(f"{name:<32} {row.seconds:9.3f} s{times}")
        lines.append(f"{'total':<32} {self.seconds:9.3f} s")
        lines += [f"{name:<32} {value:9d}" for name, value in self.counters.items()]
        return "\n".join(lines)

    def chrome_trace(self) -> str:
        """The spans as Chrome-trace JSON, for Perfetto or chrome://tracing."""
        events = [
            {"name": s.path[-1], "ph": "X", "ts": (s.start - self.started) * 1e6, "dur": s.seconds * 1e6, "tid": 0,
             "pid": os.getpid()}
            for s in sorted(self.spans, key=lambda s: s.start)
        ]  # fmt: skip
        return json.dumps({"traceEvents": events})


@contextmanager
def collect() -> Iterator[Report]:
    """Gather the spans and counters of the enclosed code into a `Report`; collections may nest (inner one wins)."""
    report = Report()
    token = _ACTIVE.set(report)
    try:
        yield report
    finally:
        report.seconds = time.perf_counter() - report.started
        _ACTIVE.reset(token)


@contextmanager
def span(name: str) -> Iterator[None]:
    """Time the enclosed code as `name`, beneath the span that is open now. Recorded also when the code raises."""
    report, start = _ACTIVE.get(), time.perf_counter()
    path: tuple[str, ...] = (name,)
    if report is not None:
        report._open.append(name)
        path = tuple(report._open)
    try:
        yield
    finally:
        seconds = time.perf_counter() - start
        log(DEBUG, "%s: %.3f s", name, seconds)
        if report is not None:
            report.spans.append(Span(path, start, seconds))
            report._open.pop()


def record(name: str, seconds: float) -> None:
    """Add a stretch that was timed elsewhere (in another process) as `name`, beneath the span that is open now."""
    report = _ACTIVE.get()
    if report is not None:
        report.spans.append(Span((*report._open, name), time.perf_counter() - seconds, seconds))


#: What the compiler's innermost loops count, since the process began: a dictionary, because they run too often for
#: more. `tally` turns it into counters.
TALLY = {"nodes built": 0, "rule attempts": 0}


@contextmanager
def tally() -> Iterator[None]:
    """Count what the enclosed code adds to `TALLY`."""
    before = dict(TALLY)
    try:
        yield
    finally:
        for name, value in TALLY.items():
            count(name, value - before[name])


def count(name: str, amount: int = 1) -> None:
    """Add to a counter of the collection in progress, if there is one."""
    report = _ACTIVE.get()
    if report is not None:
        report.counters[name] = report.counters.get(name, 0) + amount


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Have `listener` called with every `progress` of the enclosed code, behind those of blocks around this one."""
    outer = _LISTENER.get()

    def heard(name: str, done: int, total: int) -> None:
        if outer is not None:
            outer(name, done, total)
        listener(name, done, total)

    token = _LISTENER.set(heard)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def progress(name: str, done: int, total: int) -> None:
    """Say that `done` of the `total` pieces of the stage `name` are done. Costs nothing when nobody listens."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(name, done, total)
