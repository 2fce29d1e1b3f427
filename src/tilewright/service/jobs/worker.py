"""A worker: claims a job, fetches the model, watches over the process that compiles it, and stores the artifact.

A task has the names of the `model` and the `artifact`, the `framework`, `target`, `precision` and `shapes` to compile
with, and the `seconds` that it may take (0: as many as the service allows). Everything that reads a stranger's bytes
happens in that process (`process.py`), which this one reads as a stranger's too. The worker renews its claim while it
waits, and ends the process when the job is to stop, its time is over, or the claim was lost.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from tilewright.errors import InternalError, UserError
from tilewright.service.jobs import fleet, hosted, process
from tilewright.service.jobs.forks import Forks
from tilewright.service.jobs.locations import Locations
from tilewright.service.jobs.quotas import charge
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import COMPLETED, FAILED, INPROGRESS, Claimed, Store
from tilewright.service.jobs.traces import span

_log = logging.getLogger(__name__)
#: Seconds between two looks at a process; at an empty queue they grow to the last, unless a job is made here.
_LOOK, _SOON, _IDLE = 0.1, 0.1, 2.0
_MOST_REASON = 1024
#: The most bytes that are read of what a process says, and of its log, whose end is kept.
_MOST_RESULT, _MOST_LOG = 1 << 20, 64 << 10
#: How much a job yields to the service, and to other jobs after so many seconds (as `nice` has it).
_NICE, _LONG_NICE, _LONG_SECONDS = 5, 15, 10.0


_ENDED = "the process that compiled the model was ended by the system: it needs more than it may have"


class Stopped(Exception):
    """The job is to stop, or is another worker's."""


class Worker:
    """Takes jobs until it is closed."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._locations = Locations(settings)
        self._forks, self._closed, self._grace_until = Forks(), threading.Event(), 0.0

    def run(self) -> None:
        """Take one job after another. A database that is away is asked again until it answers."""
        self.sweep()
        delay = _SOON
        while not self._closed.is_set():
            self._store.made.clear()
            try:
                if self.run_one():
                    delay = _SOON
                    continue
            except SQLAlchemyError as error:
                _log.warning("the database does not answer: %s", str(error).partition("\n")[0])
            except Exception:  # a worker outlives what goes wrong with a job, which another attempt may have
                _log.exception("a job was not ended")
            self._store.made.wait(delay)
            delay = min(2 * delay, _IDLE)
        self._forks.close()

    def close(self) -> None:
        """Take no more jobs; the one at hand is left to another worker, unless it ends within the grace of settings."""
        self._grace_until = time.monotonic() + self._settings.grace_seconds
        self._closed.set()
        self._store.made.set()

    def sweep(self) -> None:
        """Remove the folders that workers left here which were killed."""
        for folder in self._settings.jobs_folder.iterdir():
            job, _, claim = folder.name.partition("-")
            if self._store.unended(job) != claim:
                shutil.rmtree(folder, ignore_errors=True)

    def run_one(self) -> bool:
        """Run a job that waits; false where none does."""
        settings = self._settings
        job = self._store.claim(settings.lease_seconds, settings.attempts, settings.running_of_owner)
        if job is None:
            return False
        about = {"tilewright.job": job.id, "tilewright.kind": job.kind}
        with self._folder(job) as folder, span(f"job {job.kind}", job.task.get("trace", {}), "CONSUMER", about):
            try:
                self._store.end(job, COMPLETED, result=self._made(job, folder))
            except Stopped:
                self._store.release(job)
            except UserError as error:
                self._store.end(job, FAILED, f"ClientError: {error}"[:_MOST_REASON])
            except SQLAlchemyError:
                raise
            except Exception as error:
                _log.exception("job %s failed", job.id)
                reason = str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
                self._store.end(job, FAILED, f"InternalError: {reason}"[:_MOST_REASON])
        return True

    @contextmanager
    def _folder(self, job: Claimed) -> Iterator[Path]:
        """A folder for the job's process, without those that earlier workers left."""
        for left in self._settings.jobs_folder.glob(f"{job.id}-*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = self._settings.jobs_folder / f"{job.id}-{job.claim}"
        folder.mkdir()
        folder.chmod(0o777)  # the process that runs there becomes another user
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _made(self, job: Claimed, folder: Path) -> dict[str, Any]:
        """The result of a job whose artifact is stored, which an earlier worker may have done."""
        task, settings = job.task, self._settings
        if "location" in job.result and self._locations.digest(job.result["location"]) == job.result["digest"]:
            return dict(job.result)
        if "upload" in task:
            hosted.fetch(task, settings, folder)
        else:
            self._locations.fetch(task["model"], folder / process.MODEL)
        limits = {"memory_bytes": settings.job_memory, "file_bytes": 2 * settings.model_bytes}
        described = {**task, "kind": job.kind, "limits": limits, "model_bytes": settings.model_bytes}
        with self._lent(job) as lent:
            (folder / process.JOB).write_text(json.dumps(described | {"lent": lent}))
            self._watch(job, folder, min(task["seconds"] or settings.job_seconds, settings.job_seconds))
        if "upload" in task:
            return self._kept(job, folder)
        result = _result(folder)
        with _written(folder / process.ARTIFACT) as artifact:
            digest = hashlib.file_digest(artifact, "sha256").hexdigest()
            made = {"inputs": result.get("inputs"), "digest": digest, "location": task["artifact"]}
            if not self._store.record(job, settings.lease_seconds, made):
                raise Stopped
            artifact.seek(0)
            self._locations.store(artifact, task["artifact"], digest, job.id)
        return made

    def _lent(self, job: Claimed) -> AbstractContextManager[dict[str, str]]:
        """The device that a job wants, once one is free; nothing for a job that wants none."""
        key = job.task.get("device")
        if not key:
            return nullcontext({})

        def alive() -> None:
            if self._store.renew(job, self._settings.lease_seconds, {"stage": "device"}) != INPROGRESS:
                raise Stopped
            if self._closed.is_set():
                raise Stopped

        return fleet.borrowed(self._settings, key, alive)

    def _kept(self, job: Claimed, folder: Path) -> dict[str, Any]:
        """The result of a job whose artifacts stay here; those of one that failed too, as they may say why."""
        kept = hosted.keep(folder, self._settings.artifacts_folder / job.id)
        made = {"stored": sum(one["bytes"] for one in kept), "result": {"artifacts": kept}}
        if self._store.renew(job, self._settings.lease_seconds, made) != INPROGRESS:
            raise Stopped
        return {**_result(folder), "artifacts": kept}

    def _watch(self, job: Claimed, folder: Path, seconds: float) -> None:
        """Run the job's process to its end. Raises `Stopped` where it had to be ended, `UserError` for its time."""
        running = self._forks.start(folder)
        lease, renewed, start, used = self._settings.lease_seconds, 0.0, time.monotonic(), 0.0
        _yield_to_others(running.pid, _NICE)
        try:
            while not running.wait(_LOOK):
                now = time.monotonic()
                if now > start + seconds:
                    raise UserError(f"the job ran for {seconds:g} s, the most that it may")
                if now - renewed > min(1.0, lease / 3):
                    renewed = now
                    if now > start + _LONG_SECONDS:
                        _yield_to_others(running.pid, _LONG_NICE)
                    used = max(used, _cpu_seconds(running.pid))
                    news = _reported(folder) | {"cpu_seconds": used}
                    over = self._closed.is_set() and now > self._grace_until
                    if self._store.renew(job, lease, news) != INPROGRESS or over:
                        raise Stopped
        finally:
            used = max(used, _cpu_seconds(running.pid))
            running.end()
            charge(self._store, job.owner, used)
        self._store.renew(job, lease, _reported(folder) | {"cpu_seconds": used})


def _cpu_seconds(session: int) -> float:
    """The processor seconds of the processes of a session, and of those that they waited for."""
    ticks = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):  # it has ended
            fields = status.read_text().rpartition(") ")[2].split()
            if int(fields[3]) == session:  # fields as proc(5) counts them, from the third on
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _yield_to_others(pid: int, nice: int) -> None:
    """Lower the priority of a process and its threads, which have one each on Linux."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)


@contextmanager
def _written(file: Path) -> Iterator[BufferedReader]:
    """A file that the job's process wrote, which may have put anything there. Raises `UserError` for anything else."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise UserError(_ENDED) from None
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UserError(_ENDED)
        yield opened


def _result(folder: Path) -> dict[str, Any]:
    """The result that a process wrote. Raises `UserError` with its reason, or how it ended without one."""
    try:
        with _written(folder / process.RESULT) as file:
            result = json.loads(file.read(_MOST_RESULT))
        if "reason" in result:
            raise (InternalError if result["internal"] else UserError)(_storable(str(result["reason"])))
        return {name: value for name, value in result.items() if name not in ("internal", "measures")}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UserError(_ENDED) from None


def _storable(text: str) -> str:
    """A text as databases take it: names of files may have parts of no character in them, and zero bytes."""
    return text.encode(errors="replace").decode().replace("\0", "")


def _reported(folder: Path) -> dict[str, Any]:
    """A running process's stage, the share that is done, and the end of its log, as it says them itself."""
    with _written(folder / process.LOG) as file:
        start = max(0, os.fstat(file.fileno()).st_size - _MOST_LOG)
        file.seek(start)
        reported: dict[str, Any] = {
            "log_start": start,
            "log": file.read(_MOST_LOG).decode(errors="replace").replace("\0", ""),
        }
    with suppress(UserError, ValueError), _written(folder / process.STAGE) as file:
        stage, _, share = file.read(64).decode().rpartition(" ")
        reported |= {"stage": stage[:32].replace("\0", ""), "progress": min(max(0.0, float(share or 0)), 1.0)}
    return reported
