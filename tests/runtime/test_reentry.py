"""A model called again by its own thread while it runs: from signal handlers, finalizers and weak references."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import perceptron
from tilewright.errors import InputError
from tilewright.runtime.model import Model
from tilewright.runtime.output_memory import OutputMemory

X = np.ones((64, 8), np.float32)


@pytest.fixture(scope="module", params=["graph", "aot", "vm"])
def exe(request: pytest.FixtureRequest) -> Model:
    return tw.compile(perceptron(64), executor=request.param, threads=2)


def within(exe: Model, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> np.ndarray:
    """A run of `exe` in whose midst, while it holds its lock, `work()` is done."""
    original = OutputMemory.empty

    def empty(self: OutputMemory, *args: object) -> object:
        if threading.current_thread() is threading.main_thread():
            monkeypatch.setattr(OutputMemory, "empty", original)
            work()
        return original(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(OutputMemory, "empty", empty)
    return exe.run({"x": X})[0]


def calls(exe: Model, seen: list[object]) -> None:
    """Call the model, and note what came of it."""
    try:
        seen.append(exe(X))
    except InputError as error:
        seen.append(error)


@pytest.fixture
def graph() -> Model:
    return tw.compile(perceptron(64), executor="graph", threads=2)


def test_a_finalizer_that_calls_it_gets_an_error_and_the_run_its_result(
    graph: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, seen = graph(X), []

    class Last:
        def __del__(self) -> None:
            calls(graph, seen)

    last = [Last()]
    np.testing.assert_array_equal(within(graph, monkeypatch, last.clear), expected)
    assert len(seen) == 1 and "already running in this thread" in str(seen[0])
    np.testing.assert_array_equal(graph(X), expected)


def test_a_weak_reference_collected_within_gets_an_error(graph: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    class Knot:
        pass

    knot = Knot()
    knot.own = knot  # type: ignore[attr-defined]
    watch = weakref.ref(knot, lambda _: calls(graph, seen))
    del knot
    within(graph, monkeypatch, gc.collect)
    assert watch() is None and isinstance(seen[0], InputError)


def test_a_signal_handler_gets_an_error(graph: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: calls(graph, seen))
    try:
        within(graph, monkeypatch, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert isinstance(seen[0], InputError)


def test_another_thread_waits_for_its_turn(graph: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    thread = threading.Thread(target=calls, args=(graph, seen))
    expected = within(graph, monkeypatch, thread.start)
    thread.join(60)
    assert not thread.is_alive()
    np.testing.assert_array_equal(seen[0], expected)


def test_another_executable_runs_within(graph: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    other, seen = tw.compile(perceptron(64, seed=1), threads=2), []
    expected = other(X)
    within(graph, monkeypatch, lambda: calls(other, seen))
    np.testing.assert_array_equal(seen[0], expected)


def test_an_exception_of_a_handler_leaves_the_model_usable(graph: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise KeyboardInterrupt

    expected = graph(X)
    with pytest.raises(KeyboardInterrupt):
        within(graph, monkeypatch, fails)
    np.testing.assert_array_equal(graph(X), expected)


def test_signals_at_any_moment_never_stop_a_process(tmp_path: Path, exe: Model) -> None:
    """A timer calls the model thousands of times at random moments of its own runs, in every executor."""
    path = tmp_path / "model.tw"
    exe.save(path)
    script = f"""
        import signal, sys, time
        import numpy as np
        import tilewright as tw
        exe = tw.load({str(path)!r}, threads=2)
        x = np.ones((64, 8), np.float32)
        expected = exe(x)
        seen = {{True: 0, False: 0}}
        def handler(*_):
            try:
                good = np.array_equal(exe(x), expected)
                assert good
                seen[True] += 1
            except tw.errors.InputError as error:
                assert "already running" in str(error)
                seen[False] += 1
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert np.array_equal(exe(x), expected)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert seen[True] + seen[False] > 10, seen
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
