"""`BenchmarkResult`: the result of timing a compiled function."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import InputError


class BenchmarkResult:
    """Seconds of each repetition in `results`, and their statistics."""

    def __init__(self, results: Sequence[float]) -> None:
        self.results = tuple(results)
        self.mean = float(np.mean(results))
        self.std = float(np.std(results))
        self.median = float(np.median(results))
        self.min = float(np.min(results))
        self.max = float(np.max(results))

    def __repr__(self) -> str:
        return f"BenchmarkResult(min={self.min}, mean={self.mean}, median={self.median}, max={self.max})"

    def __str__(self) -> str:
        rows = [("mean", self.mean), ("median", self.median), ("max", self.max), ("min", self.min), ("std", self.std)]
        return "Execution time in ms: " + ", ".join(f"{name} {seconds * 1e3:.4f}" for name, seconds in rows)


class Runs(NamedTuple):
    """Counts of a timing: runs of a repetition, repetitions, and the milliseconds that one takes at least."""

    number: int
    repeat: int
    min_repeat_ms: float | None


class Timed:
    """An object with functions that are timed by their names."""

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float | None = None,
        f_preproc: str = "",
        *,
        ctx: Any = None,
    ) -> Callable[..., BenchmarkResult]:
        """A function that times calls of a function: `repeat` times the mean seconds of `number` calls, or of as many
        as take `min_repeat_ms`, each after a call of the function registered as `f_preproc`.

        `ctx` is what versions before 0.8 call `dev`.
        """
        if ctx is not None and dev is not None:
            raise InputError("time_evaluator: dev and ctx are the same parameter; pass one of them")
        return self._timed(func_name, ctx if dev is None else dev, f_preproc, Runs(number, repeat, min_repeat_ms))

    def _timed(self, func_name: str, dev: Any, f_preproc: str, runs: Runs) -> Callable[..., BenchmarkResult]:
        """The result of `time_evaluator`."""
        raise NotImplementedError


def measure(
    function: Callable[[], object], number: int, repeat: int, min_repeat_ms: float | None = None
) -> BenchmarkResult:
    """`repeat` times the mean seconds of `number` calls, after one call that is not counted.

    `number` grows until as many calls take `min_repeat_ms` at least.
    """
    function()
    results = []
    for _ in range(repeat):
        while (seconds := _seconds(function, number)) * 1e3 < (min_repeat_ms or 0):
            number = max(number + 1, min(number * 10, int(number * (min_repeat_ms or 0) / max(seconds * 1e3, 1e-6))))
        results.append(seconds / number)
    return BenchmarkResult(results)


def _seconds(function: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        function()
    return time.perf_counter() - start
