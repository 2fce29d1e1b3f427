"""Processes that may die: one job after another, each with a deadline at which its process is killed.

    with WorkerPool(handle, size=2, seconds=10.0) as pool:
        for number, outcome in pool.map(jobs):        # as each is done
            outcome.value, outcome.failure            # what handle(job) returned, or why there is nothing

The children are forked and inherit the parent's memory, so `handle` may be any closure, unless they are to be fresh
ones, which import what they need; jobs and values travel through pipes, pickled.
Nothing listens on a socket. A child that crashes, hangs or runs out of memory costs its job and is replaced; one that
has done `renew_after` jobs is replaced too, so nothing can leak for long. A child ends with its parent, also with one
that is killed: the system tells it (Linux), and it looks itself.
"""

from __future__ import annotations

import ctypes
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import IO, Any

from tilewright.support.forks import fork_lock
from tilewright.support.processes import begin_child, end_with, refuse_daemonic

#: How a job ended without a value.
RAISED, TIMEOUT, DIED = "raised", "timeout", "died"

#: Linux's prctl: the signal that a process gets when its parent is gone.
_PR_SET_PDEATHSIG = 1

#: How many times `seconds` a child may prepare.
_PREPARING = 20

#: Characters of what a child that died had written last.
_LAST_WORDS = 300


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: `value`, or with `failure` (one of `RAISED`, `TIMEOUT`, `DIED`) the `reason` in a line."""

    value: Any = None
    failure: str = ""
    reason: str = ""


class WorkerPool:
    """Up to `size` processes that run `handle`, started when there is work for them.

    `seconds` is the most that one job may take, `memory` the bytes that a child may have beyond those of its parent
    (None: no limit). What a child writes to its standard error is kept to tell why it died. `prepare` is called with
    each job before `handle` is, and what it takes is not the job's: `seconds` begin when it returns. With `fresh` the
    processes are not forked, and `handle` and `prepare` are pickled: for libraries that no forked process can use.
    """

    def __init__(
        self,
        handle: Callable[[Any], Any],
        size: int = 1,
        seconds: float = 10.0,
        memory: int | None = None,
        renew_after: int = 200,
        prepare: Callable[[Any], object] | None = None,
        fresh: bool = False,
    ) -> None:
        self.fresh = fresh
        self.handle, self.size, self.seconds, self.memory = handle, size, seconds, memory
        self.renew_after, self.prepare = renew_after, prepare
        self._workers: list[_Worker] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        while self._workers:
            self._workers.pop().kill()

    def one(self, job: Any) -> Outcome:
        """The outcome of a single job."""
        ((_, outcome),) = self.map([job])
        return outcome

    def map(self, jobs: Sequence[Any]) -> Iterator[tuple[int, Outcome]]:
        """The number and outcome of each job, as they are done; no process works on when the last is given.

        Where the caller stops early, the processes that are still at work are killed.
        """
        waiting = list(enumerate(jobs))[::-1]
        busy: dict[_Worker, int] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.size:
                    worker = self._idle(busy)
                    number, job = waiting.pop()
                    worker.send(job, self.seconds)
                    busy[worker] = number
                for worker, outcome in _finished(list(busy)):
                    if outcome.failure in (TIMEOUT, DIED) or worker.jobs >= self.renew_after:
                        self._drop(worker)
                    yield busy.pop(worker), outcome
        finally:
            for worker in busy:
                self._drop(worker)

    def _idle(self, busy: dict[_Worker, int]) -> _Worker:
        free = next((worker for worker in self._workers if worker not in busy), None)
        if free is not None:
            return free
        self._workers.append(_Worker(self.handle, self.memory, self.prepare, self.fresh))
        return self._workers[-1]

    def _drop(self, worker: _Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        worker.kill()


class _Worker:
    """One child: a pipe for jobs, one for values, a file for its last words."""

    def __init__(
        self, handle: Callable[[Any], Any], memory: int | None, prepare: Callable[[Any], object] | None, fresh: bool
    ) -> None:
        refuse_daemonic("measuring")
        context: Any = multiprocessing.get_context("spawn" if fresh else "fork")
        jobs, self._jobs = context.Pipe(duplex=False)
        self._values, values = context.Pipe(duplex=False)
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it is open as long as the child lives)
        self.jobs, self.deadline, self._unsent = 0, 0.0, False
        self._prepares, self._seconds = prepare is not None, 0.0
        # by the descriptor: a file with a name would outlive a killed parent. Fresh processes inherit none, and in a
        # process namespace /proc may know the parent by another number
        words = f"/proc/{os.getpid() if fresh else 'self'}/fd/{self._words.fileno()}"
        arguments = (handle, prepare, jobs, values, words, memory, os.getpid(), fresh)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        with fork_lock:
            self._process.start()
        jobs.close()
        values.close()

    @property
    def ends(self) -> tuple[Connection, int]:
        """The connection and sentinel that become readable when the child has a value, and when it is gone."""
        return self._values, self._process.sentinel

    def send(self, job: Any, seconds: float) -> None:
        self.jobs += 1
        self._seconds = seconds
        self.deadline = time.monotonic() + (_PREPARING * seconds if self._prepares else seconds)
        with suppress(BrokenPipeError):  # the child is dead, which is seen when its value is waited for
            self._jobs.send(job)

    def outcome(self) -> Outcome | None:
        """The outcome of the child's job, None while it runs."""
        if self._values.poll():
            with suppress(EOFError, OSError):
                answer = self._values.recv()
                if answer is None:  # prepared: now its time begins
                    self.deadline = time.monotonic() + self._seconds
                    return None
                value, reason = answer
                return Outcome(failure=RAISED, reason=reason) if reason else Outcome(value)
        if not self._process.is_alive():
            return Outcome(failure=DIED, reason=self._death())
        if time.monotonic() >= self.deadline:
            return Outcome(failure=TIMEOUT, reason="it took longer than its deadline")
        return None

    def _death(self) -> str:
        """The exit of the child, and its last output."""
        code = self._process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        self._words.seek(0)
        words = self._words.read().decode(errors="replace").strip().splitlines()
        return f"{how}: {words[-1][-_LAST_WORDS:]}" if words else how

    def kill(self) -> None:
        """End the child, whatever it does, and those that it started."""
        if self._process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._process.join()
        for end in (self._jobs, self._values, self._words):
            end.close()


def _finished(busy: Sequence[_Worker]) -> list[tuple[_Worker, Outcome]]:
    """Wait until a child has ended its job or has to be ended; those that have, at least one."""
    while True:
        soonest = min(worker.deadline for worker in busy) - time.monotonic()
        wait([end for worker in busy for end in worker.ends], timeout=max(0.0, soonest))
        found = [(worker, outcome) for worker in busy if (outcome := worker.outcome()) is not None]
        if found:
            return found


def _serve(
    handle: Callable[[Any], Any],
    prepare: Callable[[Any], object] | None,
    jobs: Connection,
    values: Connection,
    words: str,
    memory: int | None,
    parent: int,
    fresh: bool,
) -> None:
    """Run jobs in a child, one after another, until there are no more."""
    (end_with if fresh else begin_child)(parent)
    _alone(parent)
    faulthandler.disable()  # who had it on wants to know of crashes that nobody expects
    with open(words, "ab") as file:
        os.dup2(file.fileno(), sys.__stderr__.fileno() if sys.__stderr__ is not None else 2)
    _limit(memory)
    while True:
        try:
            job = jobs.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            if prepare is not None:
                prepare(job)
                values.send(None)
            answer = (handle(job), "")
        except MemoryError:
            answer = (None, "out of memory")
        except Exception as error:
            answer = (None, f"{type(error).__name__}: {error}")
        values.send(answer)


def _alone(parent: int) -> None:
    """A process group of its own, deaf to Ctrl-C, which the parent alone answers, and ended with the parent."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _limit(memory: int | None) -> None:
    """No core files; `memory` bytes beyond what is mapped now."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None and sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as statm:
            mapped = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory, mapped + memory))
