"""Times of kernels as a trace that Chrome (about://tracing), Perfetto and others show on a time line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilewright.runtime.profile import KernelTime


def chrome_trace(rows: Sequence[KernelTime]) -> dict[str, Any]:
    """The trace of kernels that ran one after another: a complete event each, times in microseconds.

    Format: "Trace Event Format", the JSON object form with `traceEvents`.
    """
    events = []
    start = 0.0
    for row in rows:
        length = row.seconds * 1e6
        details = {"source": row.source, "flops": row.flops, "bytes": row.nbytes, **dict(row.choice)}
        events.append(
            {
                "name": row.kernel,
                "cat": "kernel",
                "ph": "X",
                "ts": start,
                "dur": length,
                "pid": 1,
                "tid": 1,
                "args": details,
            }
        )
        start += length
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def chrome_trace_text(rows: Sequence[KernelTime]) -> str:
    """The same as JSON text."""
    return json.dumps(chrome_trace(rows), ensure_ascii=False, indent=1)
