"""A run of a processor beside an accelerator in time: what each was at, as figures, as text, as SVG, for Perfetto."""

from __future__ import annotations

import json
from dataclasses import dataclass
from xml.sax.saxutils import escape

TRACKS = ("processor", "VTA")
_COLORS = {"processor": "#4878cf", "waiting": "#d8d8d8", "VTA": "#e1812c"}


@dataclass(frozen=True)
class Span:
    """A stretch of time on a track, in seconds from the beginning of the run."""

    track: str
    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


@dataclass(frozen=True)
class Timeline:
    """A run: its spans on both tracks, the processor's waiting among them, and its length in seconds."""

    spans: tuple[Span, ...]
    seconds: float

    @property
    def waiting(self) -> float:
        """Seconds for which the processor waited for the accelerator."""
        return sum(span.seconds for span in self.spans if span.track == "processor")

    @property
    def processor(self) -> float:
        """Seconds of the processor's own work."""
        return self.seconds - self.waiting

    @property
    def accelerator(self) -> float:
        """Seconds of the accelerator's work."""
        return sum(span.seconds for span in self.spans if span.track == "VTA")

    @property
    def overlap(self) -> float:
        """The time of the same work one after the other, in times of this run's."""
        return (self.processor + self.accelerator) / self.seconds if self.seconds else 1.0

    @property
    def note(self) -> str:
        """The figures in a sentence."""
        return (
            f"{self.seconds * 1e3:.3f} ms: processor {self.processor * 1e3:.3f} ms, "
            f"VTA {self.accelerator * 1e3:.3f} ms, one after the other {self.overlap:.2f} times as long"
        )

    def _pieces(self) -> list[tuple[str, str, float, float]]:
        """(color, name, start, end) of the processor's work and waiting, then of the accelerator's work."""
        pieces, at = [], 0.0
        for span in sorted((s for s in self.spans if s.track == "processor"), key=lambda s: s.start):
            pieces += [("processor", "works", at, span.start), ("waiting", span.name, span.start, span.end)]
            at = span.end
        pieces.append(("processor", "works", at, self.seconds))
        return pieces + [("VTA", s.name, s.start, s.end) for s in self.spans if s.track == "VTA"]

    def text(self, width: int = 96) -> str:
        """Two lines of `width` characters: # works, . waits (of the processor), blank is idle (of VTA)."""
        lines = {"processor": [" "] * width, "VTA": [" "] * width}
        for kind, _, start, end in self._pieces():
            first, last = (round(t / self.seconds * width) for t in (start, end))
            row = lines["VTA" if kind == "VTA" else "processor"]
            row[first:last] = ["." if kind == "waiting" else "#"] * (last - first)
        return "\n".join(f"{track:<10}|{''.join(lines[track])}|" for track in TRACKS)

    def svg(self, width: int = 960) -> str:
        """A picture: a row a track."""
        scale, parts = (width - 100) / self.seconds, []
        for kind, name, start, end in self._pieces():
            y = 46 if kind == "VTA" else 10
            box = f'x="{90 + start * scale:.2f}" y="{y}" width="{max((end - start) * scale, 0.2):.2f}" height="28"'
            title = f"<title>{escape(name)}, {(end - start) * 1e6:.1f} µs</title>"
            parts.append(f'<rect {box} fill="{_COLORS[kind]}" stroke="#fff" stroke-width="0.5">{title}</rect>')
        labels = [f'<text x="4" y="{29 + 36 * row}">{track}</text>' for row, track in enumerate(TRACKS)]
        labels.append(f'<text x="90" y="96">{escape(self.note)}</text>')
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="106" font-family="sans-serif"'
        return "\n".join([f'{head} font-size="13">', *parts, *labels, "</svg>\n"])

    def perfetto(self) -> str:
        """The trace as JSON for ui.perfetto.dev."""
        events: list[dict[str, object]] = [
            {"ph": "M", "pid": 1, "tid": row, "name": "thread_name", "args": {"name": track}}
            for row, track in enumerate(TRACKS)
        ]
        for kind, name, start, end in self._pieces():
            times = {"ts": start * 1e6, "dur": (end - start) * 1e6}
            events.append({"ph": "X", "pid": 1, "tid": int(kind == "VTA"), "name": name, **times})
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
