"""One run of tuning a network, step by step: layouts, search, verdict.

session = Session(mod, target, options, watcher, position, known, record)
layouts = session.choose_layouts()
tuners = session.search(layouts)
verdict = session.compare(layouts, tuners)
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.network.compare import compare
from tilewright.autotvm.network.inputs import timing_inputs
from tilewright.autotvm.network.layouts import choose_layouts
from tilewright.autotvm.network.options import TuneOptions, Watcher
from tilewright.autotvm.network.scheduler import TaskScheduler, run
from tilewright.autotvm.network.settle import Verdict, settle_layouts
from tilewright.autotvm.network.site import Here
from tilewright.autotvm.network.tuners import NetworkTask, tuners_of
from tilewright.autotvm.sketch.kernel import sketch_kernels
from tilewright.autotvm.task.extract import network_calls, task_of_kernels, tasks_of, weight_bytes
from tilewright.autotvm.tuner.explorers import KNOBS
from tilewright.autotvm.tuner.task_tuner import TaskTuner, entry_of
from tilewright.driver.model.build import build_model as compiled
from tilewright.driver.vm.build import needs_machine
from tilewright.errors import InputError, UnsupportedError
from tilewright.records.database import Database
from tilewright.records.entry import Entry, TaskKey
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.runtime.model import Model
from tilewright.target import Target

#: The most bytes of weights that are kept to have cold ones: more than caches hold.
_MOST_COLD = 128 << 20

#: The share of the time that the verdict takes, and the most seconds.
_VERDICT_SHARE, _MOST_VERDICT = 0.15, 12.0

#: The share of the time in which layouts are chosen by measuring, and the fewest seconds that are worth beginning it.
_LAYOUTS_SHARE, _LEAST_LAYOUTS = 0.2, 4.0


class Session:
    """A tuning run of an imported module. `known` are the existing records; `record` adds one.

    `trials` have been measured so far, `failures` counted, and `interrupted` says that the user ended the search.
    Raises `UnsupportedError` where there is nothing to tune, `ShapeError` where sizes are symbolic.
    """

    def __init__(
        self,
        mod: IRModule,
        target: Target,
        options: TuneOptions,
        watcher: Watcher,
        site: Here,
        known: Database,
        record: Callable[[Entry], None],
    ) -> None:
        self.mod, self.target, self.watcher, self.site = mod, target, watcher, site
        self.known, self.record = known, record
        self.trials, self.interrupted, self.failures = 0, False, Counter[tuple[str, str]]()
        if options.model != KNOBS and not target.is_processor:
            raise InputError(
                f"the cost model {options.model!r} reads loops of processors, and the target is {target}; use {KNOBS!r}"
            )
        self._begun = time.monotonic()
        self._calls = network_calls(mod, target)
        if not self._tasks(options):
            raise UnsupportedError(
                "the model has no kernel with a search space: its operators have one schedule each, or symbolic "
                "dimensions (fix them, as by --input-shapes)"
            )
        cold = options.measure.cold_bytes or min(_MOST_COLD, weight_bytes(self._calls))
        self.options = replace(options, measure=replace(options.measure, cold_bytes=cold))
        self.default = self._built(None)
        self.inputs = timing_inputs(self.default.inputs)
        self._build_seconds = time.monotonic() - self._begun

    @property
    def seconds(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self._begun

    # ------------------------------------------------------------------------------------------------- layouts
    def choose_layouts(self, seconds: float | None = None) -> Entry | None:
        """The record of other layouts that are faster, found in `seconds` (default: a share of all) where that is
        enough to measure some and this machine runs the module straight; None where the compiler's own stay."""
        seconds = _LAYOUTS_SHARE * (self.options.seconds or 0.0) if seconds is None else seconds
        here = type(self.site) is Here and self.target.is_processor  # devices choose by cost
        straight = here and not needs_machine(expand_calls(lower_external(self.mod)))
        if seconds < _LEAST_LAYOUTS or not straight:
            return None
        self.watcher.note(f"measuring the ways to run each convolution, for up to {seconds:.0f} s")
        try:
            entry, trials = choose_layouts(
                self.mod,
                self.target,
                seconds,
                lambda tasks: self.site.measurer(tasks, self.options.measure, self.watcher.note),
                lambda records, limit: compare(self.default, self._built(records), self._copy, self.inputs, limit),
                self.record,
                self.known,
            )
        except KeyboardInterrupt:
            self._interrupt()
            return None
        self.trials += trials
        if entry is None:
            return None
        self.watcher.note("other layouts are faster" if entry.config is not None else "the compiler's own layouts stay")
        return entry if entry.config is not None else None

    # -------------------------------------------------------------------------------------------------- search
    def search(self, layouts: Entry | None) -> list[TaskTuner]:
        """Tune the tasks of the network with these layouts until its share of the time is over."""
        if layouts is not None:
            self._calls = network_calls(self.mod, self.target, Database([layouts]))
        seconds = None if self.options.seconds is None else self.options.seconds - self.seconds - self._closing()
        tasks = self._tasks(self.options)
        with self.site.measurer(tasks, self.options.measure, self.watcher.note) as measurer:
            measurer.deadline = time.monotonic() + (float("inf") if seconds is None else seconds)
            tuners = tuners_of(tasks, measurer, self.options, self.known, self.record)
            self.watcher.begin(tuners)
            self._spend(tuners, seconds)
            self.failures += measurer.failures
        return tuners

    def _closing(self) -> float:
        """Seconds to keep for the verdict, which builds the network twice: tuned, and as control."""
        return 2 * self._build_seconds + self._verdict_seconds

    def _tasks(self, options: TuneOptions) -> list[NetworkTask]:
        tasks = tasks_of(self._calls, self.target)
        sketches = options.sketches and self.target.is_processor
        return [*tasks, *(sketch_kernels(self._calls, self.target) if sketches else [])]

    def _spend(self, tuners: Sequence[TaskTuner], seconds: float | None) -> None:
        """Work at the tasks until the time is over or nothing pays any more, or the user has had enough."""
        calls = {id(tuner): getattr(tuner.task, "calls", 1) for tuner in tuners}
        scheduler = TaskScheduler(tuners, list(calls.values()), self.options.batch)

        def tell(tuner: TaskTuner, trials: list[Trial], left: float) -> None:
            self.trials += len(trials)
            self.watcher.step(tuner, trials, left)

        try:
            if not self.interrupted:
                run(scheduler, seconds, self.options.trials, tell)
        except KeyboardInterrupt:
            self._interrupt()

    def _interrupt(self) -> None:
        """Go on to the verdict, as the user wants."""
        self.watcher.note("interrupted: comparing what was found so far with the default (again to stop at once)")
        self.interrupted = True

    # ------------------------------------------------------------------------------------------------- verdict
    def compare(self, layouts: Entry | None, tuners: Sequence[TaskTuner]) -> Verdict:
        """The tuned network against the default one, in turns; its entries are recorded."""
        seconds, base = self._verdict_seconds, [] if layouts is None else [layouts]

        def beside(records: Database) -> Model:
            """The network with `records` and its layouts."""
            return self._built(Database([*base, *records.entries]))

        planned = self._built(Database(base)) if base else self.default
        kernels = task_of_kernels(self._calls, self.target)
        verdict = self.site.settle(planned, beside, best_of(tuners), kernels, self.inputs, seconds)
        if layouts is not None:
            verdict = settle_layouts(verdict, layouts, self.default, self._copy, beside, self.inputs, seconds / 2)
        for entry in verdict.entries:
            self.record(entry)
        return verdict

    @functools.cached_property
    def _copy(self) -> Model:
        """The default network once more: what comparisons have as control."""
        return self._built(None)

    @property
    def _verdict_seconds(self) -> float:
        return min(_MOST_VERDICT, _VERDICT_SHARE * (self.options.seconds or 1e9))

    def _built(self, records: Database | None) -> Model:
        return self.site.ready(compiled(self.mod, self.target, records=records), self.target)


def best_of(tuners: Sequence[TaskTuner]) -> dict[TaskKey, Entry]:
    """The best of each task that is another than its default."""
    found = {}
    for tuner in tuners:
        best, task = tuner.best, tuner.task
        if best is not None and best.point != task.default:
            found[task.key] = replace(entry_of(task, best), time=time.time())
    return found
