"""Processes that may die: values, failures of every kind, replacement, and no process left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tilewright.support.worker_pool import DIED, RAISED, TIMEOUT, WorkerPool


def handle(job: Any) -> Any:
    """The children's loop: obey."""
    match job:
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "abort":
            os.write(2, b"LLVM ERROR: cannot select\n")
            os.abort()
        case "hang":
            while True:
                pass
        case "raise":
            raise ValueError("no such tile")
        case "memory":
            return len(bytearray(1 << 40))
        case "pid":
            return os.getpid()
    return job * 2


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1]
    except FileNotFoundError:
        return False


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_values_come_back_with_their_numbers() -> None:
    with WorkerPool(handle, size=2) as pool:
        assert {n: o.value for n, o in pool.map([1, 2, 3])} == {0: 2, 1: 4, 2: 6}


def test_each_failure_is_told_apart_and_costs_its_job_only() -> None:
    with WorkerPool(handle, size=2, seconds=5.0, memory=1 << 30) as pool:
        done = dict(pool.map(["die", 1, "abort", "hang", 2, "raise", "memory", 3]))
    assert [done[n].value for n in (1, 4, 7)] == [2, 4, 6]
    assert [done[n].failure for n in (0, 2, 3, 5, 6)] == [DIED, DIED, TIMEOUT, RAISED, RAISED]
    assert "SIGSEGV" in done[0].reason
    assert done[2].reason == "signal SIGABRT: LLVM ERROR: cannot select"
    assert done[5].reason == "ValueError: no such tile"
    assert done[6].reason == "out of memory"


def test_a_child_is_replaced_after_its_share_of_jobs() -> None:
    with WorkerPool(handle, renew_after=2) as pool:
        pids = [pool.one("pid").value for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_nothing_is_left_when_the_caller_stops_early() -> None:
    with WorkerPool(handle, size=2) as pool:
        pid = pool.one("pid").value
        for _ in pool.map([1, "hang", "hang"]):
            break
    assert eventually(lambda: not is_alive(pid))


def test_children_end_with_a_parent_that_is_killed() -> None:
    program = (
        "import os, sys, time\n"
        "from tilewright.support.worker_pool import WorkerPool\n"
        "def handle(job):\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(600)\n"
        "WorkerPool(handle, seconds=600).one(0)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        assert eventually(lambda: not is_alive(child))
    finally:
        with suppress(ProcessLookupError):
            parent.kill()
        parent.wait()
        assert parent.stdout is not None
        parent.stdout.close()


def test_an_interrupt_does_not_reach_the_children(monkeypatch: pytest.MonkeyPatch) -> None:
    with WorkerPool(handle) as pool:
        pid = pool.one("pid").value
        os.kill(pid, signal.SIGINT)
        assert pool.one("pid").value == pid


def test_what_is_prepared_is_not_time_of_the_job() -> None:
    """Only a job that is late itself is: the first costs the child, which the last has to prepare again."""
    prepared: set[str] = set()

    def prepare(job: tuple[str, float]) -> None:
        if job[0] not in prepared:
            time.sleep(1.2)
            prepared.add(job[0])

    def work(job: tuple[str, float]) -> float:
        time.sleep(job[1])
        return job[1]

    with WorkerPool(work, seconds=1.0, prepare=prepare) as pool:
        outcomes = [pool.one(("a", 0.0)), pool.one(("a", 60.0)), pool.one(("a", 0.0))]
    assert [outcome.failure for outcome in outcomes] == ["", "timeout", ""]


def test_a_child_that_cannot_prepare_says_why() -> None:
    def prepare(job: int) -> None:
        raise ValueError(f"no place for {job}")

    with WorkerPool(handle, prepare=prepare) as pool:
        outcome = pool.one(3)
    assert (outcome.failure, outcome.reason) == ("raised", "ValueError: no place for 3")
