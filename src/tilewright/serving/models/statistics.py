"""Counts and times of a served model: as the protocol's statistics, and as Prometheus text."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.serving.models.batches import Request

#: Upper bounds of the latency histogram in seconds: from a quick model's to the longest wait.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)

_BOUNDS_NS = tuple(bound * 1e9 for bound in BOUNDS)


class Duration:
    """A count, and nanoseconds in all."""

    __slots__ = ("count", "ns")

    def __init__(self) -> None:
        self.count = self.ns = 0

    def add(self, count: int, ns: int) -> None:
        """Further ones, of so many nanoseconds in all."""
        self.count += count
        self.ns += ns

    def to_json(self) -> dict[str, int]:
        """As the protocol has it."""
        return {"count": self.count, "ns": self.ns}


class Statistics:
    """Statistics of one version of a model. The server's event loop alone writes them."""

    def __init__(self) -> None:
        self.success, self.fail, self.queued, self.computed = Duration(), Duration(), Duration(), Duration()
        self.executions = self.rows = self.last = 0
        self.batches: dict[int, Duration] = {}
        self.buckets = [0] * (len(BOUNDS) + 1)

    def add(self, requests: Sequence[Request]) -> None:
        """The requests of a run, which is over."""
        ran = arrived = rows = 0
        buckets = self.buckets
        for request in requests:
            if request.error is not None:
                self.fail.add(1, request.ended - request.arrived)
            elif not request.gone:
                ran += 1
                arrived += request.arrived
                buckets[bisect_left(_BOUNDS_NS, request.ended - request.arrived)] += 1
                last, rows = request, rows + request.rows
        if not ran:
            return
        took = last.ended - last.began
        self.success.add(ran, ran * last.ended - arrived)
        self.queued.add(ran, ran * last.began - arrived)
        self.computed.add(ran, ran * took)
        self.executions += 1
        self.rows += rows
        self.last = time.time_ns() // 1_000_000
        if rows not in self.batches:
            self.batches[rows] = Duration()
        self.batches[rows].add(1, took)

    def to_json(self, name: str, version: str) -> dict[str, Any]:
        """As the protocol's statistics extension has it."""
        none = Duration().to_json()
        return {
            "name": name, "version": version, "last_inference": self.last, "inference_count": self.rows,
            "execution_count": self.executions,
            "inference_stats": {
                "success": self.success.to_json(), "fail": self.fail.to_json(), "queue": self.queued.to_json(),
                "compute_input": none, "compute_infer": self.computed.to_json(), "compute_output": none,
                "cache_hit": none, "cache_miss": none,
            },
            "batch_stats": [
                {"batch_size": rows, "compute_input": none, "compute_infer": took.to_json(), "compute_output": none}
                for rows, took in sorted(self.batches.items())
            ],
        }  # fmt: skip


#: One row of a metric: labels, value.
Row = tuple[Mapping[str, str], float]


def metric(name: str, kind: str, text: str, rows: Iterable[Row], suffix: str = "") -> str:
    """A metric in Prometheus' text format."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{suffix}{_labels(labels)} {value:.12g}" for labels, value in rows]
    return "\n".join(lines) + "\n"


def histogram(name: str, text: str, rows: Iterable[tuple[Mapping[str, str], Statistics]]) -> str:
    """The latencies of successful requests as a histogram in seconds."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} histogram"]
    for labels, of in rows:
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), of.buckets):
            total += count
            lines.append(f"{name}_bucket{_labels({**labels, 'le': bound})} {total}")
        lines.append(f"{name}_sum{_labels(labels)} {of.success.ns / 1e9:.9g}")
        lines.append(f"{name}_count{_labels(labels)} {total}")
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
