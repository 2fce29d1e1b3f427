"""The result of measuring one configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """One measured point of a task's search space.

    `seconds` are those of one call, the tenth percentile over `blocks` blocks, None where there was a `failure`, one of
    `record.entry.FAILURES`, with its `reason`. `ratio` is the time over that of the incumbent in the same rounds, and
    `accepted` says that it replaced it. `build_seconds` and `run_seconds` are what measuring it took.
    """

    point: int
    config: Mapping[str, Any]
    seconds: float | None = None
    ratio: float = float("inf")
    accepted: bool = False
    blocks: int = 0
    failure: str = ""
    reason: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    time: float = 0.0
