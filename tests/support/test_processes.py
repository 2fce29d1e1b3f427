"""Work in forked processes: results, order, exceptions, and a process that dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.errors import EnvironmentError_, InternalError, UnsupportedError
from tilewright.support.forks import fork_lock
from tilewright.support.processes import fork_map, run_apart


def name(index: int) -> str:
    return f"item {index}"


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_item_comes_back_once_with_its_index(jobs: int) -> None:
    base = 100  # a closure is not pickled: the children inherit it
    assert sorted(fork_map(lambda i: base + i, range(7), jobs, name)) == [(i, 100 + i) for i in range(7)]


def test_one_job_works_in_this_process_and_in_the_given_order() -> None:
    assert list(fork_map(lambda i: os.getpid(), [3, 1, 2], 1, name)) == [(i, os.getpid()) for i in (3, 1, 2)]


def test_one_item_needs_no_process() -> None:
    assert list(fork_map(lambda i: os.getpid(), [0], 4, name)) == [(0, os.getpid())]
    assert list(fork_map(lambda i: i, [], 4, name)) == []


def test_several_jobs_work_elsewhere() -> None:
    assert os.getpid() not in {pid for _, pid in fork_map(lambda i: os.getpid(), range(4), 2, name)}


def in_a_daemon(number: int) -> tuple[list[bool], str]:
    """True if items are worked on in this process, with the message on work that needs one of its own."""
    same = [pid == os.getpid() for _, pid in fork_map(lambda i: os.getpid(), range(number), 2, name)]
    try:
        run_apart(lambda: None, "a model")
    except EnvironmentError_ as error:
        return same, str(error)
    return same, ""


def test_a_daemonic_process_works_by_itself() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        same, told = pool.apply_async(in_a_daemon, (3,)).get(60)
    assert same == [True, True, True]
    assert told.startswith("compiling a model in the background needs a process of its own, and this one is daemonic")


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_exception_arrives_as_it_was_raised(jobs: int) -> None:
    def work(index: int) -> int:
        if index == 2:
            raise UnsupportedError("the third item is beyond this version")
        return index

    with pytest.raises(UnsupportedError, match="the third item is beyond this version"):
        list(fork_map(work, range(4), jobs, name))


def test_a_process_that_dies_is_an_internal_error_naming_items() -> None:
    def work(index: int) -> int:
        if index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    with pytest.raises(InternalError, match=r"a compiling process died while these were being compiled: .*item 1"):
        list(fork_map(work, range(3), 2, name))


def test_the_next_work_is_not_hindered_by_a_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        list(fork_map(lambda i: 1 // i, range(3), 2, name))
    assert dict(fork_map(lambda i: i * i, range(3), 2, name)) == {0: 0, 1: 1, 2: 4}


def test_children_take_the_lock_that_another_thread_holds_when_they_are_asked_for() -> None:
    def work(index: int) -> int:
        with fork_lock:
            return index

    held = threading.Event()

    def hold() -> None:
        with fork_lock:
            held.set()
            time.sleep(0.05)

    threading.Thread(target=hold).start()
    assert held.wait(10)
    assert sorted(fork_map(work, range(4), 2, name)) == [(i, i) for i in range(4)]


def test_threads_that_work_at_a_time_do_each_their_own() -> None:
    found: dict[int, list[tuple[int, int]]] = {}

    def call(base: int) -> None:
        found[base] = sorted(fork_map(lambda i: base + i, range(6), 2, name))

    threads = [threading.Thread(target=call, args=(base,)) for base in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {base: [(i, base + i) for i in range(6)] for base in (0, 100, 200)}


def test_children_do_not_wait_for_input_that_a_thread_reads() -> None:
    script = """
        import sys, threading, time
        from tilewright.support.processes import fork_map, run_apart

        threading.Thread(target=sys.stdin.read, daemon=True).start()
        time.sleep(0.2)
        run_apart(lambda: None, "nothing")
        print(sum(value for _, value in fork_map(lambda index: index, range(4), 2, str)), flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        patience = threading.Timer(30, process.kill)
        patience.start()
        assert process.stdout is not None and process.stdout.readline() == "6\n"
        patience.cancel()
        process.kill()


@pytest.mark.parametrize("apart", [False, True], ids=["fork_map", "run_apart"])
def test_children_end_when_their_parent_is_killed(tmp_path: Path, apart: bool) -> None:
    """The parent tells the numbers of its children and dies without a chance to end them."""
    script = f"""
        import os, sys, time
        from pathlib import Path
        from tilewright.support.processes import fork_map, run_apart, run_apart

        def work(index):
            Path({str(tmp_path)!r}, str(os.getpid())).touch()
            time.sleep(600)

        if {apart}:
            run_apart(lambda: work(0), "nothing")
        else:
            list(fork_map(work, range(4), 2, str))
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    wanted = 1 if apart else 2
    wait_until(lambda: len(list(tmp_path.iterdir())) == wanted)
    children = [int(path.name) for path in tmp_path.iterdir()]
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(is_alive(child) for child in children))


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # nobody may have collected it


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("this did not come true within a minute")
