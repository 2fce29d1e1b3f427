"""`BenchmarkResult`: what timing a compiled function gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np


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


def measure(function: Callable[[], object], number: int, repeat: int) -> BenchmarkResult:
    """`repeat` times the mean seconds of `number` calls, after one call that is not counted."""
    function()
    results = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(number):
            function()
        results.append((time.perf_counter() - start) / number)
    return BenchmarkResult(results)
