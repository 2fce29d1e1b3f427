"""`BenchmarkResult`: the result of timing a compiled function."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tilewright.errors import InputError

_P = ParamSpec("_P")
_T = TypeVar("_T")


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


def device_as_ctx(time_evaluator: Callable[_P, _T]) -> Callable[_P, _T]:
    """`time_evaluator` that takes its device as `ctx`, too, which versions before 0.8 call it."""

    @functools.wraps(time_evaluator)
    def either(*args: Any, **kwargs: Any) -> _T:
        if "ctx" in kwargs:
            if "dev" in kwargs:
                raise InputError("time_evaluator: dev and ctx are the same parameter; give one of them")
            kwargs["dev"] = kwargs.pop("ctx")
        return time_evaluator(*args, **kwargs)

    return either


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
