"""Options of measuring: limits, numbers of blocks, the threshold of being faster."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class MeasureOptions:
    """Limits and sizes of measurements.

    `build_seconds` and `run_seconds` are the most that one configuration may take, `memory` the bytes that a process
    may have for it; a process is replaced after `renew_after` configurations. `builders` processes build (default: one
    a core), none while one measures.

    A block of calls takes about `block_seconds`, and at least `blocks` blocks are timed, in turns with the incumbent,
    unless a configuration is clearly slower; where that would take more than `compare_seconds`, as a single call is
    long, and so less disturbed, fewer, but at least `fewest_blocks`. It replaces the incumbent where its time is below
    `1 - gain` of that, and was below in `wins` of the rounds, in each of three comparisons. Weights are as cold as if
    the network had `cold_bytes` of them.
    Results may differ from the reference's by `tolerance` of the largest (default: by the data type).
    """

    build_seconds: float = 20.0
    run_seconds: float = 20.0
    memory: int = 4 << 30
    renew_after: int = 200
    builders: int = 0
    block_seconds: float = 0.5e-3
    blocks: int = 20
    fewest_blocks: int = 5
    compare_seconds: float = 0.5
    gain: float = 0.015
    wins: float = 0.75
    cold_bytes: int = 0
    tolerance: float | None = None
    check: bool = True

    @property
    def builder_count(self) -> int:
        """Processes that build."""
        return self.builders or len(os.sched_getaffinity(0))
