"""Tuning a whole network: its tasks, a scheduler among them, records of all that is learned, and a verdict at the end.

    result = tune(mod, "cpu", TuneOptions(seconds=120), records="resnet18.jsonl")
    result.verdict.speedup
    tw.compile(mod, records="resnet18.jsonl")

It can be interrupted at any time: Ctrl-C ends the search and goes on to the verdict, and what a killed run has recorded
is where the next one begins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.network.inputs import timing_inputs
from tilewright.autotvm.network.layouts import choose_layouts
from tilewright.autotvm.network.place import Here
from tilewright.autotvm.network.scheduler import TaskScheduler, run
from tilewright.autotvm.network.settle import Verdict, compare, settle_layouts
from tilewright.autotvm.network.transfer import TransferPool
from tilewright.autotvm.record.database import Database
from tilewright.autotvm.record.entry import TRIAL, Entry, TaskKey
from tilewright.autotvm.record.file import RecordFile
from tilewright.autotvm.record.tophub import top_hub
from tilewright.autotvm.task.extract import network_calls, task_of_kernels, tasks_of, weight_bytes
from tilewright.autotvm.task.task import KernelTask
from tilewright.autotvm.tuner.explorers import KNOBS, make_explorer
from tilewright.autotvm.tuner.model_explorer import ModelExplorer
from tilewright.autotvm.tuner.task_tuner import TaskTuner, entry_of
from tilewright.compile import build as compiled
from tilewright.driver.vm.build import needs_machine
from tilewright.errors import ShapeError, UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.runtime.model import Model
from tilewright.target import Target

#: The most bytes of weights that are kept to have cold ones: more than caches hold.
_MOST_COLD = 128 << 20

#: The share of the time that the verdict takes, and the most seconds.
_VERDICT_SHARE, _MOST_VERDICT = 0.15, 12.0


@dataclass(frozen=True)
class TuneOptions:
    """How long to tune, and how: until `seconds` have passed or `trials` were measured, whichever comes first.

    With neither, until tuning no longer pays. `batch` configurations of a task are measured at a time. `model` is what
    the explorer that learns does it by (`make_explorer`).
    """

    seconds: float | None = None
    trials: int | None = None
    explorer: str = "auto"
    model: str = KNOBS
    batch: int = 8
    seed: int = 0
    measure: MeasureOptions = field(default_factory=MeasureOptions)


#: The share of the time in which layouts are chosen by measuring, and the fewest seconds that are worth beginning it.
_LAYOUTS_SHARE, _LEAST_LAYOUTS = 0.2, 15.0


class Watcher:
    """Who looks on; every method may be overridden."""

    def begin(self, tuners: Sequence[TaskTuner]) -> None:
        """Tuning begins."""

    def step(self, tuner: TaskTuner, trials: Sequence[Trial], seconds_left: float) -> None:
        """A batch was measured."""

    def note(self, line: str) -> None:
        """Something that a user should know."""

    def end(self, result: TuneResult) -> None:
        """All is done."""


@dataclass(frozen=True)
class TuneResult:
    """What tuning a network came to. `trials` were measured in `seconds`; `interrupted` says that a user ended it.

    `failures` counts configurations that did not work, by kind and reason; `before` are those chosen by default.
    """

    target: Target
    verdict: Verdict
    tuners: Sequence[TaskTuner]
    trials: int
    seconds: float
    failures: dict[tuple[str, str], int]
    interrupted: bool = False

    @property
    def records(self) -> Database:
        """The verdict as records, for `tw.compile`."""
        return Database(self.verdict.entries, "what was tuned")


def tune(
    mod: IRModule,
    target: str | Target = "cpu",
    options: TuneOptions | None = None,
    records: str | os.PathLike[str] | None = None,
    watcher: Watcher | None = None,
    place: Here | None = None,
) -> TuneResult:
    """Tune a Relay module as imported, keeping what is learned in the file `records`, where there is one.

    `place` is where it is measured, and what `target` describes: this machine, or devices elsewhere. Raises
    `UnsupportedError` where none of its kernels has a search space, `ShapeError` where sizes are open, and
    `ArtifactError` for a file that is no file of records.
    """
    options, watcher, target = options or TuneOptions(), watcher or Watcher(), Target(target)
    place = place or Here()
    begun = time.monotonic()
    with _recorder(records) as (known, record):
        calls = network_calls(mod, target)
        if not tasks_of(calls, target):
            raise UnsupportedError(
                "the model has no kernel with a search space: its operators have one schedule each, or open sizes "
                "(give them, as by --input-shapes)"
            )
        default = _built(place, mod, target, None)
        inputs = timing_inputs(default.inputs)
        built = time.monotonic() - begun
        cold = min(_MOST_COLD, weight_bytes(calls))
        measure = MeasureOptions(**{**vars(options.measure), "cold_bytes": options.measure.cold_bytes or cold})
        options = replace(options, measure=measure)
        build = partial(_built, place, mod, target)
        layouts, spent = _layouts(mod, target, options, place, build, default, inputs, watcher, known, record)
        base = [layouts] if layouts is not None and layouts.config is not None else []
        if base:
            calls = network_calls(mod, target, Database(base))
        verdict_seconds = min(_MOST_VERDICT, _VERDICT_SHARE * (options.seconds or 1e9))
        left = None if options.seconds is None else options.seconds - (time.monotonic() - begun) - built
        left = None if left is None else left - verdict_seconds
        tasks = tasks_of(calls, target)
        with place.measurer(tasks, measure, watcher.note) as measurer:
            measurer.deadline = time.monotonic() + (float("inf") if left is None else left)
            tuners = _tuners(tasks, measurer, options, known, record)
            watcher.begin(tuners)
            done, interrupted = _search(tuners, options, left, watcher)
        planned = build(Database(base)) if base else default
        kernels = task_of_kernels(calls, target)
        beside = partial(_beside, build, base)
        verdict = place.settle(planned, beside, _best(tuners), kernels, inputs, verdict_seconds)
        if base:
            verdict = settle_layouts(verdict, base[0], default, beside, inputs, verdict_seconds / 2)
        for entry in verdict.entries:
            record(entry)
    failures = dict(measurer.failures)
    result = TuneResult(target, verdict, tuners, done + spent, time.monotonic() - begun, failures, interrupted)
    watcher.end(result)
    return result


def _beside(build: Callable[[Database], Model], base: Sequence[Entry], records: Database) -> Model:
    """The network with `records` and those that hold beside them."""
    return build(Database([*base, *records.entries]))


def _layouts(
    mod: IRModule,
    target: Target,
    options: TuneOptions,
    place: Here,
    build: Callable[[Database], Model],
    default: Model,
    inputs: dict[str, Any],
    watcher: Watcher,
    known: Database,
    record: Callable[[Entry], None],
) -> tuple[Entry | None, int]:
    """The record of the layouts, where there is time to measure some and this machine runs the module straight."""
    seconds = _LAYOUTS_SHARE * (options.seconds or 0.0)
    if seconds < _LEAST_LAYOUTS or type(place) is not Here or needs_machine(expand_calls(lower_external(mod))):
        return None, 0
    watcher.note(f"measuring the ways to run each convolution, for up to {seconds:.0f} s")
    entry, trials = choose_layouts(
        mod,
        target,
        seconds,
        lambda tasks: place.measurer(tasks, options.measure, watcher.note),
        lambda records, limit: compare(default, build(records), inputs, limit),
        record,
        known,
    )
    if entry is not None:
        watcher.note("other layouts are faster" if entry.config is not None else "the compiler's own layouts stay")
    return entry, trials


def _built(place: Here, mod: IRModule, target: Target, records: Database | None) -> Model:
    return place.ready(compiled(mod, target, records=records), target)


@contextmanager
def _recorder(path: str | os.PathLike[str] | None) -> Iterator[tuple[Database, Callable[[Entry], None]]]:
    """What a file of records knows already, and how to add to it; without a file, nothing and nowhere."""
    if path is None:
        yield Database(), lambda entry: None
        return
    with RecordFile(path) as file:
        yield Database(file.entries), file.append


def _tuners(
    tasks: Sequence[KernelTask],
    measurer: Measurer,
    options: TuneOptions,
    known: Database,
    record: Callable[[Entry], None],
) -> list[TaskTuner]:
    found = []
    pool = TransferPool(options.model, options.seed)
    if options.model != KNOBS:
        others = [entry for entry in known.entries if entry.processor != tasks[0].processor]
        pool.add_foreign(tasks, {name: [e for e in others if e.processor == name] for name in known.processors})
    for number, task in enumerate(tasks):
        generator = Random(options.seed * 10007 + number)
        explorer = make_explorer(options.explorer, task.points, generator, task, options.model, pool.general, measurer)
        if isinstance(explorer, ModelExplorer) and options.model != KNOBS:
            pool.add(explorer)
        entries = [entry for entry in known.of(task.key, task.processor) if entry.kind == TRIAL]
        found.append(TaskTuner(task, measurer, explorer, record, entries, _hints(task)))
    return found


#: Points that the hub has a task begin with.
_HINTS = 3


def _hints(task: KernelTask) -> list[int]:
    """Points that did well where the records of the package were measured."""
    near = top_hub().nearest(task.key, task.processor, _HINTS)
    points = (task.points.find(entry.config) for entry in near if entry.config is not None)
    return [point for point in points if point is not None]


def _search(
    tuners: Sequence[TaskTuner], options: TuneOptions, seconds: float | None, watcher: Watcher
) -> tuple[int, bool]:
    """The trials that were measured, and whether the user ended the search."""
    tasks: list[Any] = [tuner.task for tuner in tuners]
    scheduler = TaskScheduler(tuners, [task.calls for task in tasks], options.batch)
    done = [0]

    def tell(tuner: TaskTuner, trials: list[Trial], left: float) -> None:
        done[0] += len(trials)
        watcher.step(tuner, trials, left)

    try:
        run(scheduler, seconds, options.trials, tell)
    except KeyboardInterrupt:
        watcher.note("interrupted: comparing what was found so far with the default (again to stop at once)")
        return done[0], True
    return done[0], False


def _best(tuners: Sequence[TaskTuner]) -> dict[TaskKey, Entry]:
    """The best of each task that is another than its default."""
    found = {}
    for tuner in tuners:
        best, task = tuner.best, tuner.task
        if best is not None and best.point != task.default:
            found[task.key] = replace(entry_of(task, best), time=time.time())
    return found


#: Configurations of a task at a time where there is little time: the analytic model's first few.
_FEW = 4


def tuned_records(mod: IRModule, target: Target, seconds: float, records: Database | None = None) -> Database:
    """What tuning for about `seconds` seconds finds, as records beside those that are there.

    A model without anything to tune, or without values to time it by, keeps the latter.
    """
    known = Database() if records is None else records
    try:
        result = tune(mod, target, TuneOptions(seconds, explorer="droplet", batch=_FEW))
    except (UnsupportedError, ShapeError):
        return known
    return Database([*known.entries, *result.verdict.entries], known.name)
