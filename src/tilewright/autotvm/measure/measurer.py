"""Configurations of tasks built and run in processes of their own, never at the same time.

    with Measurer(tasks, MeasureOptions()) as measurer:
        trials = measurer.measure(tasks[0], [0, 5, 17])       # points of its space; 0, 5 … may crash, hang or be wrong

The processes are forked and know the tasks; a point goes to a builder, its code comes back, and goes to the runner. The
first that works is a task's incumbent, and another replaces it where it is faster in three comparisons.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.autotvm.measure.loop import reference_loop
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.stand import Stand, WrongResult
from tilewright.autotvm.measure.timing import Timing, judge
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.task.task import Task
from tilewright.backend import backend_of
from tilewright.backend.compiled import AnyCompiled
from tilewright.errors import EnvironmentError_
from tilewright.records.entry import BUILD, CRASH, RUN, TIMEOUT, WRONG
from tilewright.support.worker_pool import DIED, Outcome, WorkerPool
from tilewright.support.worker_pool import TIMEOUT as LATE

#: What a builder builds beside points: the reference of a task, and the reference loop.
_REFERENCE, _LOOP = "reference", "loop"

#: The same failure so often in a row is reported.
_REPEATED = 3


@dataclass(frozen=True)
class _Run:
    """A request to the runner: the number of a task, its data, and the code to run."""

    task: int
    reference: AnyCompiled
    loop: AnyCompiled
    candidate: AnyCompiled
    incumbent: AnyCompiled | None


@dataclass(frozen=True)
class Incumbent:
    """The best of a task so far; `code` is what the builders made of it."""

    point: int
    seconds: float
    code: Any


class Measurer:
    """Builds and runs configurations of `tasks`, all for one target. `tell` gets a line when something keeps failing.

    `failures` counts what went wrong, by kind and reason. Code runs here; a subclass runs it elsewhere, by
    `prepare_code` and `run_all`. `deadline` is when, by the monotonic clock, whoever measures wants no more of it.
    """

    #: Whether the code runs on this machine.
    here = True

    def __init__(
        self, tasks: Sequence[Task], options: MeasureOptions | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        self.tasks, self.options = list(tasks), options or MeasureOptions()
        self.tell = tell or (lambda line: None)
        self.failures: Counter[tuple[str, str]] = Counter()
        self.incumbents: dict[Task, Incumbent] = {}
        self.deadline = float("inf")
        self._references: dict[Task, Any] = {}
        self._numbers = {task: number for number, task in enumerate(self.tasks)}
        self._loop_seconds = float("inf")
        memory, renew = self.options.memory, self.options.renew_after
        self._builders = WorkerPool(self._built, self.options.builder_count, self.options.build_seconds, memory, renew)
        runner = _Runner(self.tasks, self.options)
        # a driver of a GPU that this process has opened does not work in one forked off it, and maps much more memory
        # than it uses
        fresh = any(task.target.has_thread_blocks for task in self.tasks)
        limit, seconds = None if fresh else memory, self.options.run_seconds
        self._runner = WorkerPool(runner, 1, seconds, limit, renew, prepare=runner.prepare, fresh=fresh)

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        self._builders.close()
        self._runner.close()

    def measure(self, task: Task, points: Sequence[int]) -> list[Trial]:
        """The trials of `points`, in order; of devices elsewhere, those that one took.

        Raises `EnvironmentError_` where not even the reference can be run.
        """
        jobs = [(self._numbers[task], point) for point in points]
        needed = [] if task in self._references else [(self._numbers[task], _REFERENCE), (self._numbers[task], _LOOP)]
        done = dict(self._builders.map([*needed, *jobs]))
        for number, kind in enumerate(needed):
            if done[number].failure:
                raise _useless(task, f"its {kind[1]} cannot be built", done[number])
        if needed:
            self._references[task], self._loop = done[0].value[0], done[1].value[0]
        built = [done[len(needed) + number] for number in range(len(points))]
        begun = [self._begun(task, point, outcome) for point, outcome in zip(points, built, strict=True)]
        trials = self.run_all(task, begun)
        for trial in trials:
            self._count(task, trial)
        return trials

    def in_builders(self, task: Task, function: Callable[[Task, Any], Any], items: Sequence[Any]) -> list[Outcome]:
        """`function(task, item)` for each item, by the builders side by side; what came of each, in order.

        The function is one of a module, as the builders find it by its name.
        """
        done = dict(self._builders.map([(self._numbers[task], (function, item)) for item in items]))
        return [done[number] for number in range(len(items))]

    def prepare_code(self, code: AnyCompiled) -> Any:
        """The form of code that the runner loads, made in a builder process; by default unchanged."""
        return code

    def run_all(self, task: Task, built: Sequence[tuple[Trial, Any]]) -> list[Trial]:
        """Run what was built, in order: trials with their code, or with the failure of building it."""
        return [trial if trial.failure else self._run(task, trial, code) for trial, code in built]

    def _built(self, job: tuple[int, Any]) -> Any:
        """In a builder: the code of a point, of a reference or of the loop, and the seconds that it took; or what a
        function makes of an item."""
        number, what = job
        task, begun = self.tasks[number], time.perf_counter()
        if isinstance(what, tuple):
            function, item = what
            return function(task, item)
        if what == _LOOP:
            func = reference_loop(task.target)
        else:
            func = task.lower_reference() if what == _REFERENCE else task.lower(task.points.config(what))
        return self.prepare_code(backend_of(task.target).compiled([func], self.here)), time.perf_counter() - begun

    @staticmethod
    def _begun(task: Task, point: int, built: Outcome) -> tuple[Trial, Any]:
        trial = Trial(point, task.points.plain(point), time=time.time())
        if built.failure:
            return replace(trial, failure=_kind(built, BUILD), reason=built.reason), None
        code, seconds = built.value
        return replace(trial, build_seconds=seconds), code

    def _run(self, task: Task, trial: Trial, code: AnyCompiled) -> Trial:
        incumbent = self.incumbents.get(task)
        other = None if incumbent is None else incumbent.code
        begun = time.perf_counter()
        outcome = self._runner.one(_Run(self._numbers[task], self._references[task], self._loop, code, other))
        trial = replace(trial, run_seconds=time.perf_counter() - begun)
        if outcome.failure:
            return replace(trial, failure=_kind(outcome, RUN), reason=outcome.reason)
        return self._timed(task, trial, code, *outcome.value)

    def _timed(self, task: Task, trial: Trial, code: AnyCompiled, timing: Timing, accepted: bool) -> Trial:
        """The trial with its time, scaled by that of the incumbent. Only an accepted candidate counts as faster.

        That of the first is at the clock that the reference loop has shown to be the machine's.
        """
        self._loop_seconds = min(self._loop_seconds, timing.loop)
        incumbent = self.incumbents.get(task)
        if incumbent is None:
            seconds = timing.candidate * self._loop_seconds / timing.loop
        else:
            # what was not shown to be faster is not recorded as faster: the least of many disturbed ratios would win
            seconds = (timing.ratio if accepted else max(1.0, timing.ratio)) * incumbent.seconds
        if accepted:
            self.incumbents[task] = Incumbent(trial.point, seconds, code)
        return replace(trial, seconds=seconds, ratio=timing.ratio, accepted=accepted, blocks=timing.blocks)

    def _count(self, task: Task, trial: Trial) -> None:
        if trial.failure:
            self.failures[trial.failure, trial.reason] += 1
            if self.failures[trial.failure, trial.reason] == _REPEATED:
                self.tell(f"{task.name}: {trial.failure} again and again: {trial.reason}")


def _kind(outcome: Outcome, otherwise: str) -> str:
    """The kind of a failure."""
    if outcome.failure in (LATE, DIED):
        return TIMEOUT if outcome.failure == LATE else CRASH
    return WRONG if outcome.reason.startswith(f"{WrongResult.__name__}:") else otherwise


def _useless(task: Task, what: str, outcome: Outcome) -> EnvironmentError_:
    return EnvironmentError_(f"{task.name} cannot be measured: {what}: {outcome.reason}")


class _Runner:
    """The runner process's part: the stand of the current task, and the measurement of a configuration."""

    def __init__(self, tasks: Sequence[Task], options: MeasureOptions) -> None:
        self.tasks, self.options = tasks, options
        self._stands: Mapping[int, Stand] = {}

    def prepare(self, job: _Run) -> None:
        """Make the stand of the job's task ahead, so that the reference's run is not counted as a candidate's time."""
        if job.task not in self._stands:
            task = self.tasks[job.task]
            threads = task.target.cores if task.target.is_processor else None
            self._stands = {job.task: Stand(task.arguments, job.reference, job.loop, threads, self.options)}

    def __call__(self, job: _Run) -> tuple[Timing, bool]:
        """The time of the candidate, and whether it is to be the incumbent. Raises `WrongResult`."""
        return judge(self._stands[job.task], job.candidate, job.incumbent, self.options)
