"""Usage of a chip's units in a run, whichever simulator counted it: cycles, waiting, a trace."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tilewright.vta.config import Config

#: What is counted, a cycle each; more than one may hold at a time. The order is that of the RTL's status bits.
ACTIVITIES = (
    "load waits for a token", "load moves", "compute waits for a token", "compute moves", "GEMM", "ALU",
    "store waits for a token", "store moves",
)  # fmt: skip
#: Rows of a trace: the four units, and the two cores of compute on their own.
TRACKS = ("fetch", "load", "compute", "GEMM core", "ALU core", "store")


@dataclass(frozen=True)
class Slice:
    """A stretch of time on a track: cycles from `start` to before `end`."""

    track: str
    name: str
    start: int
    end: int


@dataclass
class Usage:
    """Cycles of a run, cycles by activity, and a trace where one was requested."""

    cycles: int
    busy: dict[str, int]
    slices: list[Slice] = field(default_factory=list)

    def share(self, activity: str) -> float:
        """The share of an activity in all cycles."""
        return self.busy.get(activity, 0) / max(self.cycles, 1)

    def table(self) -> str:
        """One line an activity."""
        lines = [f"{'cycles':<28}{self.cycles:>12}"]
        lines += [f"{name:<28}{count:>12}{count / max(self.cycles, 1):>9.1%}" for name, count in self.busy.items()]
        return "\n".join(lines)

    def perfetto(self, config: Config) -> str:
        """The trace as JSON for ui.perfetto.dev: a cycle is shown as a microsecond."""
        tracks = {name: number for number, name in enumerate(TRACKS, 1)}
        events: list[dict[str, object]] = [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"VTA {config.name}"}}
        ]
        for name, number in tracks.items():
            events.append({"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}})
        for s in self.slices:
            position = {"pid": 1, "tid": tracks[s.track], "ts": s.start, "dur": s.end - s.start}
            events.append({"ph": "X", "name": s.name, **position})
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
