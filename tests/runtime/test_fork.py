"""Forks while other threads are at work: the child computes right with a pool of its own, and so does the parent."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import perceptron
from tilewright.runtime.model import Model
from tilewright.runtime.native import native
from tilewright.runtime.specializations import HOT_RUNS, Specializations
from tilewright.support.forks import fork_lock, held_here, own_lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def in_child(work: Callable[[], bool], seconds: int = 20) -> bool:
    """True if `work()` is true in a forked child, which is ended after so many seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads exist is what is tested
        child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def busy(work: Callable[[], object]) -> Iterator[None]:
    """Another thread does `work()` again and again within the block."""
    stop, begun = threading.Event(), threading.Event()

    def again() -> None:
        while not stop.is_set():
            work()
            begun.set()

    thread = threading.Thread(target=again)
    thread.start()
    assert begun.wait(60)
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("executor", ["graph", "aot", "vm"])
def test_a_child_forked_in_the_midst_of_runs_computes_right_and_so_does_the_parent(executor: str) -> None:
    exe = tw.compile(perceptron(4096), threads=3, executor=executor)
    x = np.random.default_rng(0).standard_normal((4096, 8), dtype=np.float32)
    expected = exe(x)

    def right() -> bool:
        return all(np.array_equal(exe(x), expected) for _ in range(3))

    with busy(lambda: exe(x)):
        assert all(in_child(right) for _ in range(6))
        assert right()
    assert right()


def test_a_child_forked_in_the_midst_of_runs_has_its_own_pool() -> None:
    exe = tw.compile(perceptron(4096), threads=3)
    x = np.zeros((4096, 8), np.float32)
    exe.set_threads(3)
    with busy(lambda: exe(x)):
        assert in_child(lambda: native().threads() == 0 and exe(x) is not None)


def test_a_child_forked_in_the_midst_of_a_compilation_compiles() -> None:
    x = np.ones((2, 8), np.float32)
    seeds = iter(range(1, 10_000))

    def compiled() -> Model:
        return tw.compile(perceptron(2, seed=next(seeds)), cache=False)

    expected = tw.compile(perceptron(2), cache=False)(x)
    with busy(compiled):
        assert all(in_child(lambda: np.array_equal(tw.compile(perceptron(2), cache=False)(x), expected)) for _ in "ab")


def test_a_child_of_a_child_has_free_locks_too() -> None:
    exe = tw.compile(perceptron(8))
    x = np.ones((8, 8), np.float32)
    expected = exe(x)
    with busy(lambda: exe(x)):
        assert in_child(lambda: in_child(lambda: np.array_equal(exe(x), expected)))


def test_the_forking_thread_may_hold_the_lock_itself() -> None:
    class Holder:
        def __init__(self) -> None:
            self.lock = own_lock(self, "lock")

    holder = Holder()

    def within() -> bool:
        return not held_here(holder.lock) and holder.lock.acquire(blocking=False) and fork_lock.acquire(blocking=False)

    with holder.lock, fork_lock:
        assert in_child(within)
        assert held_here(holder.lock)
    assert not held_here(holder.lock)


def test_a_size_that_the_parent_was_compiling_is_compiled_by_the_child() -> None:
    gate = threading.Event()
    held: Specializations[str] = Specializations(1, lambda shapes: (gate.wait(60) and "made") or "late")
    for _ in range(HOT_RUNS):
        held.find((3,), lambda: {"x": (3,)})

    def makes_its_own() -> bool:
        gate.set()
        held.find((3,), lambda: {"x": (3,)})
        held.wait(10)
        return held.find((3,), lambda: {"x": (3,)}) == "made"

    assert in_child(makes_its_own)
    gate.set()
    held.wait(10)
    assert held.sizes == [(3,)]
