"""A worker: claims a job, fetches the model, watches over the process that compiles it, and stores the artifact.

A task has the names of the `model` and the `artifact`, the `framework`, `target`, `precision` and `shapes` to compile
with, and the `seconds` that it may take (0: as many as the service allows). Everything that reads a stranger's bytes
happens in that process (`process.py`). The worker renews its claim while it waits, and ends the process when the job is
to stop, its time is over, or the claim was lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tilewright.errors import InternalError, UserError
from tilewright.rpc.sandbox import confined_environment
from tilewright.service.jobs import process
from tilewright.service.jobs.locations import Locations
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import COMPLETED, FAILED, INPROGRESS, Claimed, Store

#: Seconds between two looks at a process, and at the queue where it is empty.
_LOOK, _IDLE = 0.1, 0.5
_MOST_REASON = 1024
#: Variables that a job's process has of this one's.
_PASSED = ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH")


class Stopped(Exception):
    """The job is to stop, or is another worker's."""


class Worker:
    """Takes jobs until it is closed."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._locations = Locations(settings)
        self._closed = threading.Event()

    def run(self) -> None:
        """Take one job after another."""
        while not self._closed.is_set():
            if not self.run_one():
                self._closed.wait(_IDLE)

    def close(self) -> None:
        """Take no more jobs; the one at hand is given up, and is another worker's when its lease ends."""
        self._closed.set()

    def run_one(self) -> bool:
        """Run a job that waits; false where none does."""
        job = self._store.claim(self._settings.lease_seconds, self._settings.attempts)
        if job is None:
            return False
        with tempfile.TemporaryDirectory(dir=self._settings.jobs_folder) as folder:
            os.chmod(folder, 0o777)  # the process that runs there becomes another user
            try:
                result = self._made(job, Path(folder))
                self._store.end(job, COMPLETED, result=result)
            except Stopped:
                self._store.end(job, FAILED, "stopped")
            except UserError as error:
                self._store.end(job, FAILED, f"ClientError: {error}"[:_MOST_REASON])
            except Exception as error:
                reason = str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
                self._store.end(job, FAILED, f"InternalError: {reason}"[:_MOST_REASON])
        return True

    def _made(self, job: Claimed, folder: Path) -> dict[str, Any]:
        """The result of a job whose artifact is stored."""
        task, settings = job.task, self._settings
        self._locations.fetch(task["model"], folder / process.MODEL)
        limits = {"memory_bytes": settings.job_memory, "file_bytes": 2 * settings.model_bytes}
        described = {**task, "limits": limits, "model_bytes": settings.model_bytes}
        (folder / process.JOB).write_text(json.dumps(described))
        self._watch(job, folder, min(task["seconds"] or settings.job_seconds, settings.job_seconds))
        result = _result(folder)
        digest = hashlib.sha256((folder / process.ARTIFACT).read_bytes()).hexdigest()
        if self._store.renew(job, settings.lease_seconds) != INPROGRESS:
            raise Stopped
        self._locations.store(folder / process.ARTIFACT, task["artifact"])
        return {"inputs": result["inputs"], "digest": digest, "location": task["artifact"]}

    def _watch(self, job: Claimed, folder: Path, seconds: float) -> None:
        """Run the job's process to its end. Raises `Stopped` where it had to be ended, `UserError` for its time."""
        command = [sys.executable, "-m", "tilewright.service.jobs.process", str(folder)]
        with (folder / process.LOG).open("wb") as log:
            running = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(folder),
                cwd=folder,
                start_new_session=True,
            )
        deadline, renewed = time.monotonic() + seconds, 0.0
        try:
            while running.poll() is None:
                now = time.monotonic()
                if now > deadline:
                    raise UserError(f"the job ran for {seconds:g} s, the most that it may")
                if now - renewed > min(1.0, self._settings.lease_seconds / 3):
                    renewed = now
                    if self._store.renew(job, self._settings.lease_seconds) != INPROGRESS or self._closed.is_set():
                        raise Stopped
                time.sleep(_LOOK)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def _environment(folder: Path) -> dict[str, str]:
    """The variables of a job's process: those that Python needs, and none of the service's secrets."""
    return {**confined_environment(folder, _PASSED), "TILEWRIGHT_CACHE_DIR": str(folder / "cache")}


def _result(folder: Path) -> dict[str, Any]:
    """The result that a process wrote. Raises `UserError` with its reason, or how it ended without one."""
    file = folder / process.RESULT
    if not file.is_file():
        raise UserError("the process that compiled the model was ended by the system: it needs more than it may have")
    result: dict[str, Any] = json.loads(file.read_text())
    if "reason" in result:
        raise (InternalError if result["internal"] else UserError)(result["reason"])
    return result
