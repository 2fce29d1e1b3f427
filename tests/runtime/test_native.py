"""The worker pool and barrier, alone and under adverse conditions: one core, too many workers, forks, many threads."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tilewright.runtime.link import Linked, link
from tilewright.runtime.memory import address_of
from tilewright.runtime.native import native
from tilewright.runtime.threads import MAX_WORKERS, available_processors


class Rounds:
    """The `rounds` kernel: workers that meet at barriers and check that none of them lags behind."""

    def __init__(self, kernels: ModuleType, count: int) -> None:
        self.linked: Linked = link(kernels.object_of(kernels.ROUNDS), ["rounds__entry"], native().imports())
        self.data = np.zeros(MAX_WORKERS + 1, np.int64)
        self.data[0] = count
        self.slots = (ctypes.c_uint64 * 1)(address_of(self.data))

    def run(self, workers: int) -> int:
        return native().parallel_run(self.linked.addresses["rounds__entry"], ctypes.addressof(self.slots), workers)


@pytest.fixture
def rounds(kernels: ModuleType) -> Rounds:
    native().set_processors(available_processors())
    return Rounds(kernels, 100)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 33])
def test_barrier_holds_all_workers(rounds: Rounds, workers: int) -> None:
    for _ in range(5):
        assert rounds.run(workers) == 0
        assert (rounds.data[1 : workers + 1] == 100).all()


def test_a_hundred_thousand_barriers(kernels: ModuleType) -> None:
    native().set_processors(available_processors())
    assert Rounds(kernels, 50_000).run(2) == 0


def test_oversubscribed_barriers_lose_no_milliseconds(kernels: ModuleType) -> None:
    native().set_processors(available_processors())
    rounds = Rounds(kernels, 1_000)
    rounds.run(4)
    start = time.process_time()
    assert rounds.run(2 * available_processors() + 1) == 0
    assert time.process_time() - start < 0.3  # 2,000 barriers; one that spins takes 0.8 s of the processors


def test_moving_workers_leaves_their_affinity_as_it_was(kernels: ModuleType) -> None:
    """Workers that keep waiting beside each other are moved by narrowing their masks; the masks come back whole."""
    native().set_processors(MAX_WORKERS)  # so that they count as sharing a processor without need
    mask = os.sched_getaffinity(0)
    rounds = Rounds(kernels, 20)
    for _ in range(100):
        assert rounds.run(2 * len(mask)) == 0
    assert all(os.sched_getaffinity(int(thread)) == mask for thread in os.listdir("/proc/self/task"))
    native().set_processors(available_processors())


def test_more_workers_than_the_limit_are_cut(rounds: Rounds) -> None:
    assert rounds.run(MAX_WORKERS + 50) == 0
    assert native().threads() == MAX_WORKERS - 1
    native().stop()


def test_stop_and_start_again(rounds: Rounds) -> None:
    for _ in range(20):
        assert rounds.run(3) == 0
        assert native().threads() >= 2
        native().stop()
        assert native().threads() == 0


def test_a_failing_worker_does_not_hang_the_others(kernels: ModuleType) -> None:
    linked = link(kernels.object_of(kernels.DESERTER), ["deserter__entry"], native().imports())
    entry = linked.addresses["deserter__entry"]
    for workers in (2, 3, 4):
        for _ in range(50):
            assert native().parallel_run(entry, 0, workers) == 3
    assert native().parallel_run(entry, 0, 1) == 0
    assert Rounds(kernels, 10).run(3) == 0  # the broken barrier is whole again


def test_python_threads_take_turns(kernels: ModuleType) -> None:
    failures: list[int] = []

    def work() -> None:
        own = Rounds(kernels, 50)
        failures.extend(code for code in (own.run(2) for _ in range(30)) if code)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert not failures


def test_idle_workers_sleep(rounds: Rounds) -> None:
    rounds.run(4)
    for _ in range(100):  # a busy machine lets them turn to sleep late
        start = time.process_time()
        time.sleep(0.2)
        if time.process_time() - start < 0.02:
            return
    pytest.fail("they take the processor's time for ever")


def test_fork_gives_the_child_a_pool_of_its_own(rounds: Rounds) -> None:
    assert rounds.run(3) == 0
    child = os.fork()
    if child == 0:
        good = native().threads() == 0 and rounds.run(3) == 0 and native().threads() == 2
        os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert rounds.run(3) == 0


def test_one_processor_and_clean_exit(kernels: ModuleType) -> None:
    """Pinned to one processor, four workers meet 2,000 times, and the process ends while its threads still spin."""
    here = Path(__file__)
    script = f"""
        import importlib.util, os, sys, time
        def load(name, path):
            spec = importlib.util.spec_from_file_location(name, path)
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
        kernels = load("kernels", {str(here.with_name("kernels.py"))!r})
        tests = load("tests", {str(here)!r})
        tests.native().set_processors(tests.available_processors())
        rounds = tests.Rounds(kernels, 1000)
        start = time.process_time()
        assert rounds.run(4) == 0
        assert time.process_time() - start < 0.3
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
