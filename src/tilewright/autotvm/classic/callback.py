"""Callbacks that a tuner calls after every batch: `callback(tuner, inputs, results)`."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from tilewright.autotvm.classic.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.autotvm.classic.record import encode

Callback = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]

logger = logging.getLogger("autotvm")


def log_to_file(file_out: str | os.PathLike[str] | TextIO, protocol: str = "json") -> Callback:
    """Append every measurement to a log, by its path or open for writing."""

    def callback(_: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        text = "".join(f"{encode(inp, result, protocol)}\n" for inp, result in zip(inputs, results))
        if isinstance(file_out, str | os.PathLike):
            with Path(file_out).open("a", encoding="utf-8") as file:
                file.write(text)
        else:
            file_out.write(text)

    return callback


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callback:
    """Tell on standard error how many of `total` trials are done, and the best so far."""
    begun, done = time.monotonic(), [0]
    scale = {"G": 1e9, "M": 1e6, "K": 1e3, "": 1.0}.get(si_prefix, 1e9)

    def callback(tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        done[0] += len(inputs)
        last = tuner.best_flops / scale
        end = "\n" if done[0] >= total else ""
        sys.stderr.write(
            f"\r{prefix} best {last:.2f} {si_prefix}FLOPS, {done[0]} of {total}, {time.monotonic() - begun:.1f} s{end}"
        )
        sys.stderr.flush()

    return callback


class Monitor:
    """Keeps the speed of every trial, in operations a second, and when it was measured."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results):
            works = result.error_no == MeasureErrorNo.NO_ERROR
            self.scores.append(inp.task.flop / (sum(result.costs) / len(result.costs)) if works else 0.0)
            self.timestamps.append(result.timestamp)

    def trial_scores(self) -> list[float]:
        """The speed of each trial; 0 of one that failed."""
        return self.scores

    def trial_timestamps(self) -> list[float]:
        """When each trial was measured."""
        return self.timestamps
