"""Progress of tuning: a table that is redrawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from tilewright.autotvm.network.tune import TuneResult, Watcher
from tilewright.cli.tables import rich_table

if TYPE_CHECKING:
    from tilewright.autotvm.measure.trial import Trial
    from tilewright.autotvm.tuner.task_tuner import TaskTuner

_COLUMNS = ("task", "calls", "default µs", "best µs", "gain", "of roofline", "trials", "")

#: Columns that a narrow terminal does without, in the order in which they go.
_SPARE = ("", "of roofline", "default µs", "calls", "trials")


def make_view(model: str, records: str) -> View:
    """The view that suits where the output goes."""
    live = sys.stdout.isatty() and importlib.util.find_spec("rich") is not None
    return LiveView(model, records) if live else View(model, records)


class View(Watcher, AbstractContextManager["View"]):
    """Plain lines: one a batch, and a summary."""

    def __init__(self, model: str, records: str) -> None:
        self.model, self.records = model, records
        self.tuners: Sequence[TaskTuner] = ()
        self.begun, self.trials = time.monotonic(), 0

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""

    def begin(self, tuners: Sequence[TaskTuner]) -> None:
        self.tuners = tuners
        click.echo(f"{self.model}: {len(tuners)} tasks for {tuners[0].task.processor}")

    def step(self, tuner: TaskTuner, trials: Sequence[Trial], seconds_left: float) -> None:
        self.trials += len(trials)
        left = f", {seconds_left:.0f} s left" if 0 < seconds_left < float("inf") else ""
        name, _, _, best, gain, share, *_ = row_of(tuner)
        found = f"{best} µs" if math.isfinite(tuner.seconds) and best else "nothing that works yet"
        gained = f" ({gain} of the default)" if gain else ""
        bound = f", {share} of the roofline" if share and best else ""
        click.echo(f"{name}: {found}{gained}{bound}; {self.trials} trials, {self.rate:.1f} a second{left}")

    def note(self, line: str) -> None:
        click.echo(line, err=True)

    @property
    def rate(self) -> float:
        """Trials a second so far."""
        return self.trials / max(time.monotonic() - self.begun, 1e-9)

    def end(self, result: TuneResult) -> None:
        for line in summary(result, self.records):
            click.echo(line)


class LiveView(View):
    """A table by the package rich, drawn anew after each batch."""

    def __enter__(self) -> LiveView:
        # an optional package, and slow to import
        from rich.live import Live

        self._live: Any = Live(refresh_per_second=4)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def begin(self, tuners: Sequence[TaskTuner]) -> None:
        self.tuners = tuners
        self._draw(float("inf"))

    def step(self, tuner: TaskTuner, trials: Sequence[Trial], seconds_left: float) -> None:
        self.trials += len(trials)
        self._draw(seconds_left)

    def note(self, line: str) -> None:
        self._live.console.print(line)

    def end(self, result: TuneResult) -> None:
        self._live.stop()  # else it would overwrite what is written below its table
        super().end(result)

    def _draw(self, seconds_left: float) -> None:
        left = f", {seconds_left:.0f} s left" if 0 < seconds_left < float("inf") else ""
        title = f"{self.model}: {self.trials} trials, {self.rate:.1f} a second{left}"
        rows = [row_of(tuner) for tuner in self.tuners]
        self._live.update(rich_table(_COLUMNS, rows, _SPARE, self._live.console.width, title))


def row_of(tuner: TaskTuner) -> tuple[str, ...]:
    """The cells of a task: name, calls, default and best time, gain, share of the roofline, trials, why it ended."""
    calls, default = str(getattr(tuner.task, "calls", 1)), tuner.default_seconds
    if not tuner.history:
        return (tuner.task.name, calls, "", "", "", "", "0", "")
    gain = f"{default / tuner.seconds:.2f}x" if default else ""
    return (
        tuner.task.name, calls, f"{default * 1e6:.1f}" if default else "", f"{tuner.seconds * 1e6:.1f}", gain,
        f"{tuner.share:.0%}", str(len(tuner.history)), tuner.finished,
    )  # fmt: skip


def summary(result: TuneResult, records: str) -> list[str]:
    """A summary of the result in a few lines."""
    verdict, failed = result.verdict, sum(result.failures.values())
    lines = [f"{result.trials} trials in {result.seconds:.0f} s" + (f", {failed} failed" if failed else "")]
    for (kind, reason), count in sorted(result.failures.items(), key=lambda entry: -entry[1])[:5]:
        lines.append(f"  {count} times {kind}: {reason}")
    lines += _comparison_lines(result)
    if verdict.rolled_back:
        lines.append(f"{len(verdict.rolled_back)} tasks were faster alone and not in the model: rolled back")
    lines.append(f"records are in {records}; compile with --records {records}")
    return lines


def _comparison_lines(result: TuneResult) -> list[str]:
    """The result of comparing the networks, with its interval."""
    verdict, found = result.verdict, result.verdict.comparison
    if found is None:
        return ["nothing that was found makes the model faster: it keeps its default schedules"]
    times = f"default {found.first * 1e3:.3f} ms, tuned {found.second * 1e3:.3f} ms (medians, in turns)"
    ratio = f"{found.gain} times as fast, the default beside its copy {found.control}, with 99 % confidence"
    if found.faster:
        lines = [f"faster: {times}, by {len(verdict.kept)} tuned tasks", ratio]
    else:
        lines = [f"no difference that can be measured: {times}; the model keeps its default schedules", ratio]
    return [*lines, *([found.load] if found.load else [])]
