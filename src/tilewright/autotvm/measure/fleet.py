"""Configurations built here and run on the devices of a fleet, which many tuners share.

    fleet = Fleet(connect_tracker("tracker.lab", 9190, bundle="fleet/user-anna"), key="rpi4")
    with FleetMeasurer(tasks, fleet, MeasureOptions()) as measurer:
        trials = measurer.measure(tasks[0], [0, 5, 17])

For a batch, sessions with up to `Fleet.devices` devices are requested from the tracker and released at its end, so that
tuners take turns as its scheduler wants. Devices of one key may differ: a configuration is always compared with the
incumbent on one and the same. A device that is lost costs nothing but time; what it had is measured elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tilewright.autotvm.measure.jobs import Attempt, Jobs
from tilewright.autotvm.measure.measurer import Incumbent, Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.remote_stand import RemoteStand, Upload
from tilewright.autotvm.measure.stand import WrongResult
from tilewright.autotvm.measure.timing import Timing, judge
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.task.task import Task
from tilewright.backend.compiled import AnyCompiled
from tilewright.errors import EnvironmentError_, TargetError, UserError
from tilewright.records.entry import CRASH, RUN, TIMEOUT, WRONG
from tilewright.rpc.board.library import packed_for
from tilewright.rpc.client import Session
from tilewright.rpc.frames import ConnectionLost
from tilewright.rpc.messages import CANCELLED, LATE, WorkerLost
from tilewright.rpc.tracker_client import TrackerSession
from tilewright.runtime.memory import Array
from tilewright.target import Target

#: Seconds that an answer may take beyond what a configuration may: then the device is taken for lost.
_SILENCE_SECONDS = 15.0
#: Seconds between two questions to a tracker that had nothing for us.
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Fleet:
    """The devices to measure on: those of a `key`, at most `devices` at a time.

    `wait_seconds` is how long a batch waits for one until that is reported; a job is given to `tries` devices at most.
    """

    tracker: TrackerSession
    key: str
    devices: int = 4
    wait_seconds: float = 30.0
    priority: int = 0
    tries: int = 3

    def session(self, answer_seconds: float | None = None) -> Session:
        """A session with one of the devices. Raises `RpcError` where none is free in time, `ConnectionLost`."""
        return self.tracker.request(self.key, self.priority, wait=self.wait_seconds, answer_seconds=answer_seconds)

    def describe(self) -> dict[str, Any]:
        """The description of one of the devices: all of a key load the same kind of file."""
        with self.session() as remote:
            return remote.describe()

    def check(self, target: Target) -> dict[str, Any]:
        """The description of the devices. Raises `TargetError` where code for `target` does not run on them."""
        found = self.describe()
        check_target(found, f"devices of key {self.key!r}", target)
        return found


def check_target(capability: Mapping[str, Any], which: str, target: Target) -> None:
    """Raise `TargetError` unless code for `target` runs on what has this capability."""
    if target.has_thread_blocks:
        _check_device(capability, which, target)
        return
    architecture, features = capability["architecture"], set(getattr(target, "features", ()))
    if getattr(target, "architecture", "") != architecture:
        raise TargetError(f"{which} are {architecture}, and the target is {target}")
    lacking = sorted(features - set(capability["features"])) if capability["features"] else []
    if lacking:
        raise TargetError(
            f"{which} have no {', '.join(lacking)}, which the target {target} uses: name their processor by -mcpu="
        )


def _check_device(capability: Mapping[str, Any], which: str, target: Target) -> None:
    kind = f"{target.kind} -emulate=1" if target.emulate else target.kind
    if kind not in capability.get("devices", ()):
        has = ", ".join(capability.get("devices", ())) or "none"
        raise TargetError(
            f"{which} run no code for {kind} (their devices: {has}): start their servers with `--device {target.kind}`"
        )


class FleetMeasurer(Measurer):
    """Builds here, runs there. Trials that no device took before `deadline` are left out of what `measure` returns."""

    here = False

    def __init__(
        self,
        tasks: Sequence[Task],
        fleet: Fleet,
        options: MeasureOptions | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(tasks, options, tell)
        self.fleet = fleet
        self.facts = fleet.check(tasks[0].target) if tasks else {}
        self.lost: list[str] = []  # reasons, as devices were lost
        self.doubles = self.lates = 0
        self._useless = ""
        self._expected: dict[Task, list[Array]] = {}
        self._loops: dict[str, float] = {}  # the shortest time of the reference loop on each device
        self._lock = threading.Lock()
        self._first = threading.Lock()

    def prepare_code(self, code: AnyCompiled) -> Upload:
        """The file that the devices load."""
        return Upload(packed_for(code, self.facts["loads"]), code.functions[0].name)

    def run_all(self, task: Task, built: Sequence[tuple[Trial, Any]]) -> list[Trial]:
        """Run the built code on all devices in parallel; the trials in the order of `built`."""
        numbers = [number for number, (trial, _) in enumerate(built) if not trial.failure]
        jobs = Jobs([built[number] for number in numbers], self.fleet.tries, self._longest())
        count = min(self.fleet.devices, len(numbers))
        threads = [threading.Thread(target=self._serve, args=(task, jobs), daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            while not jobs.wait(0.25) and any(thread.is_alive() for thread in threads):
                if time.monotonic() >= self.deadline:
                    break
        finally:
            jobs.close()
        if self._useless:
            raise EnvironmentError_(f"{task.name} cannot be measured: its reference does not run: {self._useless}")
        self.doubles, self.lates = self.doubles + jobs.doubles, self.lates + jobs.lates
        done = {numbers[index]: trial for index, trial in jobs.values.items()}
        for index, reason in jobs.lost_for_good.items():
            trial, _ = built[numbers[index]]
            done[numbers[index]] = replace(
                trial, failure=CRASH, reason=f"{self.fleet.tries} devices were lost with it: {reason}"
            )
        done |= {number: trial for number, (trial, _) in enumerate(built) if trial.failure}
        return [done[number] for number in sorted(done)]

    def _longest(self) -> float:
        """Seconds after which a job is given to a second device."""
        return 2 * self.options.run_seconds + _SILENCE_SECONDS

    def _serve(self, task: Task, jobs: Jobs) -> None:
        """One device after another, each until there is no work, or it is lost."""
        while not jobs.over:
            try:
                remote = self.fleet.session(self.options.run_seconds + _SILENCE_SECONDS)
            except ConnectionLost as error:
                self._note(str(error))
                continue
            except UserError as error:  # none is free, or the tracker is away
                self.tell(f"waiting for a device: {error}")
                time.sleep(_PAUSE_SECONDS)
                continue
            with remote:
                try:
                    self._work(remote, task, jobs)
                except _Useless as error:
                    self._useless = str(error)
                    jobs.close()
                except UserError as error:
                    self._note(str(error))

    def _work(self, remote: Session, task: Task, jobs: Jobs) -> None:
        stand = None
        while (attempt := jobs.take(remote.name)) is not None:
            try:
                stand = stand or self._stand(remote, task)
                jobs.done(attempt, self._measured(remote, stand, task, attempt))
            except _Gone as error:
                stand = None  # what was in the process on the device went with it
                jobs.done(attempt, error.trial)
            except (UserError, _Useless) as error:
                jobs.lost(attempt, str(error))
                raise

    def _stand(self, remote: Session, task: Task) -> RemoteStand:
        threads = task.target.cores if task.target.is_processor else None
        parts = self._references[task], self._loop, threads, self.options
        try:
            stand = RemoteStand(remote, task.arguments, *parts, self._expected.get(task))
        except ConnectionLost:
            raise
        except UserError as error:
            raise _Useless(str(error)) from None
        self._expected.setdefault(task, stand.expected)
        return stand

    def _measured(self, remote: Session, stand: RemoteStand, task: Task, attempt: Attempt) -> Trial:
        """One configuration; the first that works of a task is measured before any other is."""
        trial, code = attempt.job
        while True:
            incumbent = self.incumbents.get(task)
            if incumbent is None:
                with self._first:
                    if task not in self.incumbents:
                        return self._compared(remote, stand, task, trial, code, None)
                continue
            found = self._compared(remote, stand, task, trial, code, incumbent)
            if not found.accepted or self.incumbents[task].point == found.point:
                return found
            # another was faster than that incumbent too, and replaced it meanwhile
            if (found.seconds or 0.0) >= (1 - self.options.gain) * self.incumbents[task].seconds:
                return replace(found, accepted=False)

    def _compared(
        self, remote: Session, stand: RemoteStand, task: Task, trial: Trial, code: Upload, incumbent: Incumbent | None
    ) -> Trial:
        """The trial beside an incumbent, whose position it takes if that still is the incumbent."""
        begun = time.perf_counter()
        found = judged(stand, code, None if incumbent is None else incumbent.code, self.options)
        trial = replace(trial, run_seconds=time.perf_counter() - begun)
        if found.timing is None:
            trial = replace(trial, failure=found.failure, reason=found.reason)
            if found.gone:
                raise _Gone(trial)
            return trial
        return self.settled(remote.name, task, trial, code, incumbent, found.timing, found.accepted)

    def settled(
        self,
        device: str,
        task: Task,
        trial: Trial,
        code: Upload,
        incumbent: Incumbent | None,
        timing: Timing,
        accepted: bool,
    ) -> Trial:
        """The trial with its time; it replaces the incumbent that it was compared with, unless that is gone.

        The time of the first is at the clock that the reference loop has shown to be the device's.
        """
        with self._lock:
            shortest = self._loops[device] = min(self._loops.get(device, float("inf")), timing.loop)
            alone = timing.candidate * shortest / timing.loop
            seconds = alone if incumbent is None else timing.ratio * incumbent.seconds
            if accepted and self.incumbents.get(task) is incumbent:
                self.incumbents[task] = Incumbent(trial.point, seconds, code)
        return replace(trial, seconds=seconds, ratio=timing.ratio, accepted=accepted, blocks=timing.blocks)

    def _note(self, reason: str) -> None:
        with self._lock:
            self.lost.append(reason)
        self.tell(f"a device was lost, its work goes to others: {reason}")


@dataclass(frozen=True)
class Judgement:
    """The result of running a configuration beside the incumbent: its timing, or the reason for having none.

    `gone` says that the process on the device went down with it.
    """

    timing: Timing | None = None
    accepted: bool = False
    failure: str = ""
    reason: str = ""
    gone: bool = False


def judged(stand: RemoteStand, code: Upload, incumbent: Upload | None, options: MeasureOptions) -> Judgement:
    """Compare a configuration with the incumbent on a device. Raises `ConnectionLost` where that is lost."""
    try:
        with _at_most(options.run_seconds, stand.remote):
            return Judgement(*judge(stand, code, incumbent, options))
    except ConnectionLost:
        raise
    except WorkerLost as error:
        late = error.how in (CANCELLED, LATE)
        reason = "it took longer than its deadline" if late else str(error)
        return Judgement(failure=TIMEOUT if late else CRASH, reason=reason, gone=True)
    except (WrongResult, UserError) as error:
        failure = WRONG if isinstance(error, WrongResult) else RUN
        return Judgement(failure=failure, reason=f"{type(error).__name__}: {error}")


class _Useless(Exception):
    """Not even the reference runs on a device."""


class _Gone(Exception):
    """The process on the device went down with a configuration."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial.reason)
        self.trial = trial


@contextmanager
def _at_most(seconds: float, remote: Session) -> Iterator[None]:
    """Cancel what the device is doing after `seconds`."""
    timer = threading.Timer(seconds, remote.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
