"""The protocol by which the pool deals out shares: each once, in order, whoever is late, fails, forks or ends."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import perceptron
from tests.runtime.region_kernels import Program, stress
from tests.runtime.test_fork import in_child
from tilewright.runtime.native import Kind, native
from tilewright.runtime.threads import available_processors

KINDS: list[Kind] = ["shared", "meeting", "alone", "alone", "shared", "shared", "meeting", "meeting", "alone", "shared"]


@pytest.fixture(autouse=True, params=["as many as there are", "one", "many"])
def processors(request: pytest.FixtureRequest) -> Iterator[None]:
    """The number of processors that the pool believes it has, which decides how it waits."""
    native().set_processors({"one": 1, "many": 64}.get(request.param, available_processors()))
    yield
    native().set_processors(available_processors())


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("delays", [False, True])
def test_every_share_is_done_once_and_in_order(workers: int, delays: bool) -> None:
    program = Program(KINDS * 4, delays)
    for _ in range(20):
        assert program.run(workers) == 0
        program.check(workers)


@pytest.mark.parametrize("kind", ["shared", "meeting", "alone"])
def test_a_failure_ends_the_run_and_the_next_one_is_whole(kind: Kind) -> None:
    kinds: list[Kind] = [*KINDS, kind, *KINDS]
    failing, whole = Program(kinds, fails=len(KINDS)), Program(kinds)
    for workers in (1, 2, 5):
        for _ in range(10):
            assert failing.run(workers) == 9
            failing.check(workers, len(KINDS))
            assert whole.run(workers) == 0
            whole.check(workers)


def test_programs_of_random_kinds() -> None:
    assert stress(1.0, seed=0) > 5


def test_many_threads_take_turns() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            stress(0.7, seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures


def test_forks_while_another_thread_runs() -> None:
    thread = threading.Thread(target=stress, args=(1.0, 1))
    thread.start()
    for seed in range(4):
        assert in_child(lambda seed=seed: stress(0.1, seed) > 0)
    thread.join(60)
    assert not thread.is_alive()
    assert stress(0.1, 2) > 0


def test_stopping_the_pool_between_runs() -> None:
    thread = threading.Thread(target=stress, args=(0.5, 3))
    thread.start()
    while thread.is_alive():
        native().stop()
        time.sleep(0.005)
    thread.join()
    assert stress(0.1, 4) > 0


def test_a_process_ends_while_threads_run_programs() -> None:
    script = """
        import threading, time
        from tests.runtime.region_kernels import stress
        for seed in range(3):
            threading.Thread(target=stress, args=(60, seed), daemon=True).start()
        time.sleep(0.5)
    """
    path = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, timeout=60, capture_output=True, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr.decode()


def test_a_run_that_waits_for_ever_is_done_by_its_caller() -> None:
    """A model whose runs are told to be slower shared goes on alone, and comes back to its workers in time."""
    program = Program(["shared"] * 3, delays=False)
    now = time.monotonic_ns()
    program.state[0] = now + 300_000_000  # alone until then
    assert program.run(4) == 0
    assert (program.log[:, 2] == 1).all() and program.state[2] > 0
    time.sleep(0.35)
    assert program.run(4) == 0
    assert program.log[0, 2] == 4 and program.state[3] > 0


def test_results_are_the_same_for_any_number_of_workers_and_alone() -> None:
    exe = tw.compile(perceptron(4096), threads=1)
    x = np.random.default_rng(0).standard_normal((4096, 8), dtype=np.float32)
    expected = exe(x)
    for workers in (2, 3, 7):
        exe.set_threads(workers)
        for _ in range(30):
            np.testing.assert_array_equal(exe(x), expected)
