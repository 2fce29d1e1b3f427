"""Configurations built and run as tasks on a cluster of `dask.distributed`, over TLS.

    cluster = Cluster("tls://scheduler.lab:8786", bundle="fleet/user-anna")
    with ClusterMeasurer(tasks, cluster, MeasureOptions()) as measurer: …

Builds go to any worker; measurements to those with the resource `measure` (`dask worker … --resources measure=1
--nthreads 1`). Which tasks run where and when, what is done again after a worker is lost, and that a task has one
result is the engine's. Certificates are those of a fleet (`tilewright rpc init`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.autotvm.measure import cluster_worker
from tilewright.autotvm.measure.fleet import Judgement, check_target
from tilewright.autotvm.measure.measurer import Incumbent, Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.task.task import Task
from tilewright.errors import EnvironmentError_, InputError, UserError
from tilewright.records.entry import BUILD, CRASH, TIMEOUT
from tilewright.target import Target

#: What a worker that measures has one of.
RESOURCE = {"measure": 1}
#: Workers that a task may bring down.
_TRIES = 3
_CONNECT_SECONDS = 20
#: Seconds that a worker on a busy machine may take to import what it needs and to start its server.
_START_SECONDS = 120.0
#: Seconds between two looks at tasks that run.
_LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class Cluster:
    """The scheduler of a cluster, and who we are: the folder of a certificate."""

    address: str
    bundle: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not self.address.startswith("tls://"):
            raise InputError(f"a cluster is asked over TLS alone: write tls://HOST:PORT, not {self.address!r}")

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client of the scheduler. Raises `EnvironmentError_` without the engine or an answer."""
        try:
            # an optional package
            import distributed
        except ImportError:
            raise EnvironmentError_(
                "measuring on a cluster needs dask.distributed: pip install 'tilewright[cluster]'"
            ) from None
        position = Path(self.bundle)
        files = {"ca_file": "authority.pem", "client_cert": "certificate.pem", "client_key": "key.pem"}
        files_by_option = {f"tls_{name}": str(position / file) for name, file in files.items()}
        try:
            security = distributed.Security(require_encryption=True, **files_by_option)
            client = distributed.Client(self.address, security=security, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise EnvironmentError_(f"no cluster answers at {self.address}: {error}") from None
        try:
            yield client
        finally:
            client.close(timeout=_CONNECT_SECONDS)

    def check(self, client: Any, target: Target) -> list[str]:
        """The workers that measure. Raises `EnvironmentError_` without any, `TargetError` if they cannot run code."""
        workers = client.scheduler_info(n_workers=-1)["workers"]
        measuring = [name for name, facts in workers.items() if facts.get("resources", {}).get("measure")]
        if not measuring:
            raise EnvironmentError_(
                f"no worker of the cluster at {self.address} measures: start one by "
                "`dask worker … --resources measure=1 --nthreads 1`"
            )
        found = client.submit(cluster_worker.describe, resources=RESOURCE, pure=False).result()
        check_target(found, f"the cluster at {self.address}", target)
        return measuring


class ClusterMeasurer(Measurer):
    """Builds and runs on a cluster; a build that hangs is counted as late, and its thread there is lost to it."""

    here = False

    def __init__(
        self,
        tasks: Sequence[Task],
        client: Any,
        options: MeasureOptions | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(tasks, options, tell)
        self._client = client

    def measure(self, task: Task, points: Sequence[int]) -> list[Trial]:
        """The trial of each of `points`, in order. Raises `EnvironmentError_` where not even the reference runs."""
        if task not in self._references:
            self._references[task] = self._build(task, None), self._build(task, None, loop=True)
        trials = [Trial(point, task.points.plain(point), time=time.time()) for point in points]
        codes = [self._build(task, dict(task.points.config(point))) for point in points]
        waiting = list(range(len(points)))
        while waiting and task not in self.incumbents:  # the first that works is measured alone
            number = waiting.pop(0)
            trials[number] = self._taken(
                task, trials[number], codes[number], None, self._run_there(task, codes[number])
            )
        running = {self._run_there(task, codes[number]): number for number in waiting}
        compared = dict.fromkeys(running.values(), self.incumbents.get(task))
        for future in self._finished(running, len(points)):
            number = running[future]
            trials[number] = self._taken(task, trials[number], codes[number], compared[number], future)
        for trial in trials:
            self._count(task, trial)
        return trials

    def _build(self, task: Task, config: Any, loop: bool = False) -> Any:
        return self._client.submit(cluster_worker.build, task, config, loop, pure=False, retries=_TRIES)

    def _run_there(self, task: Task, code: Any) -> Any:
        incumbent = self.incumbents.get(task)
        codes = (*self._references[task], code, None if incumbent is None else incumbent.code)
        threads = getattr(task.target, "cores", None)
        arguments = task.arguments, threads, codes, self.options
        return self._client.submit(
            cluster_worker.measure, *arguments, resources=RESOURCE, pure=False, retries=_TRIES, priority=1
        )

    def _finished(self, futures: Iterable[Any], batch: int) -> Iterator[Any]:
        """The tasks as they end; those that take longer than all of a batch may are cancelled."""
        left = set(futures)
        end = time.monotonic() + _START_SECONDS + batch * (self.options.build_seconds + 2 * self.options.run_seconds)
        while left:
            done = {future for future in left if future.done()}
            if not done and time.monotonic() > end:
                done = left
                self._client.cancel(list(done), force=True)
            yield from done
            left -= done
            time.sleep(0.0 if done else _LOOK_SECONDS)

    def _taken(self, task: Task, trial: Trial, code: Any, beside: Incumbent | None, future: Any) -> Trial:
        """The trial of a task that has ended; compared again where the incumbent beside it has been replaced."""
        (future,) = self._finished([future], 1)
        if code.status == "error":
            error = code.exception()
            return replace(trial, failure=BUILD, reason=f"{type(error).__name__}: {error}")
        if future.status in ("cancelled", "pending"):
            return replace(trial, failure=TIMEOUT, reason="it took longer than its deadline")
        if future.status == "error":
            error = future.exception()
            if isinstance(error, UserError):
                raise EnvironmentError_(f"{task.name} cannot be measured: its reference does not run: {error}")
            return replace(trial, failure=CRASH, reason=f"{_TRIES} workers of the cluster were lost with it: {error}")
        found: Judgement = future.result()
        if found.timing is None:
            return replace(trial, failure=found.failure, reason=found.reason)
        return self._settled(task, trial, code, beside, found)

    def _settled(self, task: Task, trial: Trial, code: Any, beside: Incumbent | None, found: Judgement) -> Trial:
        timing = found.timing
        assert timing is not None
        seconds = timing.candidate if beside is None else timing.ratio * beside.seconds
        trial = replace(trial, seconds=seconds, ratio=timing.ratio, accepted=found.accepted, blocks=timing.blocks)
        current = self.incumbents.get(task)
        if not found.accepted:
            return trial
        if current is beside:
            self.incumbents[task] = Incumbent(trial.point, seconds, code)
            return trial
        assert current is not None
        if seconds >= (1 - self.options.gain) * current.seconds:
            return replace(trial, accepted=False)
        return self._taken(task, trial, code, current, self._run_there(task, code))
