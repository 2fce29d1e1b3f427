"""The page that `tilewright tune --report` writes: what tuning gained, by task, and how well the cost models ranked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.network.tune import TuneResult
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.cli.page import Bar, Cell, Page
from tilewright.cli.tune_view import summary

#: Times that are nearer than this to each other are no pair to rank.
_SAME = 0.02


def tune_page(model: str, result: TuneResult) -> str:
    """The report of `tune` as HTML."""
    page = Page(f"Tuning of {model}")
    for line in summary(result, "the file of records")[:-1]:
        page.text(line)
    page.text(f"target {result.target}")
    begun = [tuner for tuner in result.tuners if tuner.history]
    page.heading("Speed-up against trials")
    page.chart({tuner.task.name: _speedups(tuner) for tuner in begun}, "trials", "times as fast as the default")
    page.heading("Tasks")
    page.table(
        ["task", "calls", "default µs", "best µs", "gain", "", "of roofline before", "after", "trials", "in the model"],
        [_row(tuner, result) for tuner in begun],
    )
    page.heading("Schedules that changed")
    page.table(
        ["task", "default", "tuned"], [_change(tuner) for tuner in begun if tuner.task.key in result.verdict.kept]
    )
    page.heading("Ranking by the cost models")
    page.text(
        "Of all pairs of measured configurations whose times differ, the share that is ranked in the right order: by "
        "the analytic model, and by the learned one, which had not seen them then."
    )
    page.table(["task", "explorer", "pairs", "analytic", "learned"], [_ranked(tuner) for tuner in begun])
    if result.failures:
        page.heading("Failures")
        failures = sorted(result.failures.items(), key=lambda entry: -entry[1])
        page.table(["times", "kind", "reason"], [(str(count), kind, why) for (kind, why), count in failures])
    return page.html()


def _speedups(tuner: TaskTuner) -> list[tuple[float, float]]:
    first = tuner.default_seconds or tuner.history[0]
    return [(number, first / best) for number, best in enumerate(tuner.history, 1) if best < float("inf")]


def _row(tuner: TaskTuner, result: TuneResult) -> tuple[Cell, ...]:
    default = tuner.default_seconds or tuner.seconds
    verdict = result.verdict
    where = dict.fromkeys(verdict.kept, "tuned") | dict.fromkeys(verdict.rolled_back, "rolled back")
    return (
        tuner.task.name, str(getattr(tuner.task, "calls", 1)), f"{default * 1e6:.1f}", f"{tuner.seconds * 1e6:.1f}",
        f"{default / tuner.seconds:.2f}", Bar(tuner.seconds / default), f"{tuner.task.roofline / default:.0%}",
        f"{tuner.share:.0%}", str(len(tuner.history)), where.get(tuner.task.key, "default"),
    )  # fmt: skip


def _change(tuner: TaskTuner) -> tuple[str, ...]:
    """The knobs that the default has otherwise, before and after."""
    best, default = tuner.best, tuner.task.default
    after = dict(best.config) if best is not None else {}
    before = dict(tuner.task.points.plain(default)) if default is not None else {}
    changed = [name for name in after if before.get(name) != after[name]]
    return (tuner.task.name, *(" ".join(f"{name}={side.get(name)}" for name in changed) for side in (before, after)))


def _ranked(tuner: TaskTuner) -> tuple[str, ...]:
    trials = [trial for trial in tuner.explorer.trials if trial.seconds is not None]
    guesses, points = tuner.explorer.guesses, tuner.task.points
    count, analytic = pairwise(trials, lambda trial: -points.expected(trial.point))
    known = [trial for trial in trials if trial.point in guesses]
    guessed, learned = pairwise(known, lambda trial: guesses[trial.point])
    return (
        tuner.task.name, tuner.explorer.name, str(count), f"{analytic:.0%}" if count else "–",
        f"{learned:.0%}" if guessed else "–",
    )  # fmt: skip


def pairwise(trials: Sequence[Trial], score: Callable[[Trial], float]) -> tuple[int, float]:
    """The number of pairs of trials that differ in time, and the share of them that `score` (higher is faster) ranks
    right.
    """
    right = count = 0
    for one, other in itertools.combinations(trials, 2):
        a, b = one.seconds or 0.0, other.seconds or 0.0
        if abs(a - b) > _SAME * min(a, b):
            count += 1
            right += (a < b) == (score(one) > score(other))
    return count, right / count if count else 0.0
